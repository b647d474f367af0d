"""Tests that every combination of parts works, or is refused with a reason.

Either it builds and keeps the contract, or a RecipeError says what is wrong, at which setting,
before a weight exists.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import event, given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from dragoman.errors import Mistake, RecipeError
from dragoman.model.build import build_from_recipe
from dragoman.model.parts import PositionPart, PositionVectors
from dragoman.model.resolve import resolve_parts
from dragoman.model.transformer import Transformer
from dragoman.recipe import parts
from dragoman.recipe.files import load_recipe
from dragoman.recipe.fitting import mistakes_in_fit
from dragoman.recipe.schema import ModelRecipe, Recipe
from support import contract
from support.sets import first_quick
from support.small_models import SMALL, VOCABULARY, small_recipe

HEADS = parts.names("model.head_kind")
SIMILARITIES = parts.names("model.similarity")
POSITIONS = parts.names("model.position")
ENTRIES = ("added", "concatenated", "projected")
DEPTHS = ("bottom", "every_layer")

# The default window of 8 would cover every sentence here completely.
REACHES = [
    {"name": name, "window": 1} if name == "local" else name
    for name in parts.names("model.attention_kind")
]


class TensorMadeError(Exception):
    """Raised when the first tensor would be created."""


class NoTensors(TorchDispatchMode):
    """A context in which no tensor can be created or used."""

    def __torch_dispatch__(self, *_: Any, **__: Any) -> Any:
        raise TensorMadeError


def build(recipe: Callable[[], Recipe]) -> Transformer | RecipeError:
    """Build the model, or return the refusal, which must come before any tensor exists."""
    try:
        with NoTensors():
            build_from_recipe(recipe())
    except RecipeError as error:
        assert error.mistakes
        for mistake in error.mistakes:
            assert mistake.path.startswith("model."), mistake
            assert len(mistake.what.split()) >= 3, mistake
            assert mistake.what in str(error)
        return error
    except TensorMadeError:
        # Nothing was refused before; whatever is refused from here on fails the test.
        return build_from_recipe(recipe()).eval()
    raise AssertionError("a model was built without making a tensor")


def paths_of(error: RecipeError) -> list[str]:
    return [mistake.path for mistake in error.mistakes]


# (a) Every part with every other.


MARKS = {"standard": pytest.mark.slow}
"""With the default heads, all combinations run in CI."""


@cache
def has_vectors(name: str) -> bool:
    chosen = parts.choose("model.position", parts.Choice(name=name), "model.position", PositionPart)
    return issubclass(chosen.cls, PositionVectors)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize(
    "heads",
    [pytest.param(name, marks=MARKS.get(name, pytest.mark.long)) for name in HEADS],
)
def test_every_part_with_every_other(heads: str, similarity: str) -> None:
    for attention_kind, position, entry, depth in product(REACHES, POSITIONS, ENTRIES, DEPTHS):
        chosen = {
            "head_kind": heads,
            "similarity": similarity,
            "attention_kind": attention_kind,
            "position": position,
            "position_entry": entry,
            "position_depth": depth,
        }
        print(chosen)  # pytest shows the last one when it fails.
        model = build(lambda chosen=chosen: recipe_of(chosen))
        unusual = [("model.position_entry", entry != "added")]
        unusual += [("model.position_depth", depth != "bottom")]
        if not has_vectors(position) and any(is_unusual for _, is_unusual in unusual):
            assert isinstance(model, RecipeError)
            assert paths_of(model) == [path for path, is_unusual in unusual if is_unusual]
            continue
        assert isinstance(model, Transformer), model
        contract.check_causality(model)
        contract.check_pieces(model, [1, 3, 2])


def recipe_of(model: dict[str, Any], *, is_shared: bool = True) -> Recipe:
    tokenizer = {"vocabulary_size": VOCABULARY, "shared": is_shared}
    return Recipe.model_validate({"tokenizer": tokenizer, "model": SMALL | model})


# (b) All settings together, drawn at random.

# A value that is listed twice is drawn more often, because it is possible more often.
ANY_MODEL = st.fixed_dictionaries(
    {
        "width": st.sampled_from([8, 12, 16, 15]),
        "encoder_layers": st.integers(1, 3),
        "decoder_layers": st.integers(1, 3),
        "head_kind": st.sampled_from(HEADS),
        "heads": st.integers(1, 4),
        "similarity": st.sampled_from(SIMILARITIES),
        "attention_kind": st.sampled_from(REACHES),
        "position": st.sampled_from(POSITIONS),
        "position_entry": st.sampled_from(["added", *ENTRIES]),
        "position_features": st.integers(1, 20),
        "position_depth": st.sampled_from(["bottom", *DEPTHS]),
        "norm": st.sampled_from(["post", "pre"]),
        "feed_forward": st.sampled_from(["relu", "gelu", "swish", "swiglu", "none"]),
        "feed_forward_width": st.integers(1, 24),
        "cross_attention": st.sampled_from(["last_layer", "last_layer", "same_layer"]),
        "tied_embeddings": st.sampled_from(["all", "output", "none"]),
        "output_bias": st.booleans(),
    }
)


def check_any_model(model_settings: dict[str, Any], is_shared: bool) -> None:
    model = build(lambda: recipe_of(model_settings, is_shared=is_shared))
    event("refused" if isinstance(model, RecipeError) else "built")
    if isinstance(model, Transformer):
        contract.check_all(model, recipe_of(model_settings, is_shared=is_shared).model)


@pytest.mark.slow
@settings(max_examples=25)
@given(ANY_MODEL, st.sampled_from([True, True, False]))
def test_any_model_works_or_is_refused(model_settings: dict[str, Any], is_shared: bool) -> None:
    check_any_model(model_settings, is_shared)


@pytest.mark.long
@settings(max_examples=300)
@given(ANY_MODEL, st.sampled_from([True, True, False]))
def test_any_of_many_models_works_or_is_refused(
    model_settings: dict[str, Any], is_shared: bool
) -> None:
    check_any_model(model_settings, is_shared)


# (c) Refused settings, read from a file, with the key of each mistake.

UNEVEN = {"width": 16, "heads": 3}
REFUSALS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "same height, unequal layers": (
        {"cross_attention": "same_layer", "encoder_layers": 2, "decoder_layers": 3},
        ["model.cross_attention"],
    ),
    "uneven standard heads": ({"head_kind": "standard", **UNEVEN}, ["model.heads"]),
    "uneven narrow heads": ({"head_kind": "narrow", **UNEVEN}, ["model.heads"]),
    "uneven bare heads": ({"head_kind": "bare", **UNEVEN}, ["model.heads"]),
    "rotary, odd heads": (
        {"position": "rotary", "width": 12, "heads": 4},
        ["model.position"],
    ),
    "rotary, odd wide heads": (
        {"position": "rotary", "head_kind": "wide", "width": 15},
        ["model.position"],
    ),
    "as many position features as width": (
        {"position_entry": "concatenated", "position_features": 16, "width": 16},
        ["model.position_features"],
    ),
    "unknown part": ({"similarity": "cosinus"}, ["model.similarity"]),
    "unknown module": ({"similarity": "no_such.module"}, ["model.similarity"]),
    "part of another kind": (
        {"similarity": "dragoman.model.attention_kind.soft"},
        ["model.similarity"],
    ),
    "unknown option": (
        {"similarity": {"name": "cosine", "sharpness": 2}},
        ["model.similarity.sharpness"],
    ),
    "option of a part without options": (
        {"similarity": {"name": "dot", "scale": 2}},
        ["model.similarity.scale"],
    ),
    "option of a wrong type": (
        {"attention_kind": {"name": "local", "window": "wide"}},
        ["model.attention_kind.window"],
    ),
    "option out of range": (
        {"attention_kind": {"name": "local", "window": -1}},
        ["model.attention_kind.window"],
    ),
    "option not finite": (
        {"similarity": {"name": "cosine", "scale": "nan"}},
        ["model.similarity.scale"],
    ),
    "option that is no choice": (
        {"position": {"name": "sinusoidal", "layout": "diagonal"}},
        ["model.position.layout"],
    ),
    "options of several parts": (
        {
            "similarity": {"name": "cosine", "scale": "steep", "sharpness": 2},
            "attention_kind": {"name": "local", "window": -1},
            "position": {"name": "learned", "maximum": 0},
        },
        [
            "model.similarity.scale",
            "model.similarity.sharpness",
            "model.attention_kind.window",
            "model.position.maximum",
        ],
    ),
    "several contradictions": (
        {
            "cross_attention": "same_layer",
            "encoder_layers": 1,
            "position_entry": "concatenated",
            "position_features": 99,
        },
        ["model.cross_attention", "model.position_features"],
    ),
    "several size_errors": (
        {"position": "rotary", "width": 12, "heads": 4, "position_entry": "concatenated"},
        ["model.position", "model.position_entry"],
    ),
}
for _name, (_setting, _value) in product(
    ("none", "rotary", "shaw"),
    (
        ("position_entry", "concatenated"),
        ("position_entry", "projected"),
        ("position_depth", "every_layer"),
    ),
):
    REFUSALS[f"{_name}, {_value}"] = (
        {"position": _name, _setting: _value},
        [f"model.{_setting}"],
    )


def build_from_file(folder: Path, recipe: dict[str, Any]) -> Transformer | RecipeError:
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return build(lambda: load_recipe(file))


@pytest.mark.parametrize("case", REFUSALS)
def test_an_impossible_setting_is_refused_at_its_key(case: str, tmp_path: Path) -> None:
    model, paths = REFUSALS[case]
    error = build_from_file(tmp_path, {"model": SMALL | model})
    assert isinstance(error, RecipeError)
    assert paths_of(error) == paths


@pytest.mark.slow
@pytest.mark.parametrize("head_kind", HEADS)
def test_a_recipe_reports_what_the_parts_report(head_kind: str) -> None:
    """`fitting.py` knows the rules of the built-in parts without importing them."""
    count = 0
    for position, entry, depth, width, heads in product(
        POSITIONS, ENTRIES, DEPTHS, (8, 12, 15), (1, 2, 3, 4)
    ):
        model = ModelRecipe(
            head_kind=head_kind,
            position=position,
            position_entry=entry,
            position_depth=depth,
            position_features=4,
            width=width,
            heads=heads,
        )
        by_parts: tuple[Mistake, ...] = ()
        try:
            resolve_parts(model)
        except RecipeError as error:
            by_parts = error.mistakes
        assert tuple(mistakes_in_fit(model)) == by_parts, model
        count += bool(by_parts)
    assert count


def test_two_vocabularies_cannot_be_tied(tmp_path: Path) -> None:
    apart = {"vocabulary_size": VOCABULARY, "shared": False}
    for tied in ("all", "output", "none"):
        model = build_from_file(
            tmp_path, {"tokenizer": apart, "model": SMALL | {"tied_embeddings": tied}}
        )
        if tied == "all":
            assert isinstance(model, RecipeError)
            assert paths_of(model) == ["model.tied_embeddings"]
        else:
            assert isinstance(model, Transformer)


@pytest.mark.parametrize(
    "model",
    first_quick(
        [
            {"head_kind": "wide", **UNEVEN},
            {"cross_attention": "same_layer", "encoder_layers": 3, "decoder_layers": 3},
            {"position_entry": "concatenated", "position_features": 15, "width": 16},
            {"position": "rotary", "width": 12, "heads": 3},
            {"position": "learned", "position_features": 99},
        ]
    ),
    ids=str,
)
def test_extreme_settings_work(model: dict[str, Any], tmp_path: Path) -> None:
    small = {"vocabulary_size": VOCABULARY}
    built = build_from_file(tmp_path, {"tokenizer": small, "model": SMALL | model})
    assert isinstance(built, Transformer)
    contract.check_all(built, recipe_of(model).model)


def test_a_model_refuses_what_its_recipe_would_refuse() -> None:
    settings = small_recipe().model
    with pytest.raises(RecipeError, match="source has 13 tokens and the target has 20"):
        Transformer(settings, 13, 20)
    uneven = settings.model_copy(update={"cross_attention": "same_layer", "decoder_layers": 3})
    with pytest.raises(RecipeError, match="same_layer needs"):
        Transformer(uneven, 13, 13)
