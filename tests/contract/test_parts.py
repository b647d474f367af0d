"""Contract tests of every part, in a model and alone.

The parts are discovered by listing their folders, so a new file is tested without being named here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.model.build import build_from_recipe
from dragoman.model.initialization import initialize
from dragoman.model.mask import causal_mask, padding_mask
from dragoman.model.parts import (
    AttentionKind,
    Heads,
    Position,
    PositionPart,
    PositionVectors,
    Similarity,
    masked_softmax,
)
from dragoman.model.resolve import resolve_parts
from dragoman.model.transformer import Transformer
from dragoman.recipe import parts
from dragoman.recipe.schema import Recipe
from support import contract
from support.sets import first_quick
from support.small_models import EVERY_PART, VOCABULARY, small_model, small_recipe

# Options that matter in a short sentence: a window and a distance smaller than the sentence, a
# hidden layer of another size than the head, a larger scale.
WITH_OPTIONS = [
    ("attention_kind", {"name": "local", "window": 1}),
    ("attention_kind", {"name": "local", "window": 0}),
    ("position", {"name": "shaw", "distance": 2}),
    ("position", {"name": "sinusoidal", "layout": "halves"}),
    ("position", {"name": "sinusoidal", "layout": "cosine_first"}),
    ("similarity", {"name": "additive", "hidden": 5}),
    ("similarity", {"name": "concat", "hidden": 5}),
    ("similarity", {"name": "cosine", "scale": 10}),
]
CASES: list[tuple[str, Any]] = [*EVERY_PART, *WITH_OPTIONS]


def name_of(case: tuple[str, Any]) -> str:
    """As in `similarity-cosine`, `attention_kind-local-window=1`."""
    kind, choice = case
    if isinstance(choice, str):
        return f"{kind}-{choice}"
    options = [f"{key}={value}" for key, value in choice.items() if key != "name"]
    return "-".join([kind, choice["name"], *options])


def cases_of(kind: str) -> list[Any]:
    """The parts of one kind, for parametrize."""
    return [pytest.param(case[1], id=name_of(case)) for case in CASES if case[0] == kind]


IN_CI = [pytest.param(case, marks=pytest.mark.slow) for case in WITH_OPTIONS]


@pytest.fixture(params=[*EVERY_PART, *IN_CI], ids=name_of)
def recipe(request: pytest.FixtureRequest) -> Recipe:
    kind, choice = request.param
    return small_recipe(**{kind: choice})


@pytest.fixture
def model(recipe: Recipe) -> Transformer:
    """A small model that has the part, for evaluation. It is shared: copy it before changing it."""
    return build_once(recipe.model_dump_json())


@cache
def build_once(written: str) -> Transformer:
    return build_from_recipe(Recipe.model_validate_json(written)).eval()


# The contract, promise by promise.


def test_shapes(model: Transformer, recipe: Recipe) -> None:
    contract.check_shapes(model, recipe.model)


@pytest.mark.parametrize("promise", contract.marked_promises())
def test_promises(promise: Callable[[Transformer], None], model: Transformer) -> None:
    promise(model)


# Building, weights, training.


def test_the_meta_device_and_initialize_give_the_same_weights(
    recipe: Recipe, model: Transformer
) -> None:
    contract.check_first_weights(model, recipe)


def test_a_weight_does_not_depend_on_other_parts(model: Transformer) -> None:
    ordinary, actual = small_model().state_dict(), model.state_dict()
    unrelated = [name for name in ordinary if "feed_forward" in name or "residual" in name]
    assert "encoder.layers.0.feed_forward.network.expand.weight" in unrelated
    for name in unrelated:
        assert torch.equal(actual[name], ordinary[name]), name


def test_a_weight_depends_on_the_seed_and_on_its_name() -> None:
    # Otherwise the test above would also pass for weights that are all the same.
    first = small_model().state_dict()
    second = build_from_recipe(small_recipe().model_copy(update={"seed": 2})).state_dict()
    name = "encoder.layers.{}.feed_forward.network.expand.weight"
    assert not torch.equal(first[name.format(0)], second[name.format(0)])
    assert not torch.equal(first[name.format(0)], first[name.format(1)])


@pytest.mark.parametrize("tied", first_quick(["all", "output", "none"]))
@pytest.mark.parametrize("case", EVERY_PART, ids=name_of)
def test_each_weight_has_one_name(case: tuple[str, str], tied: str) -> None:
    settings = small_recipe(**dict([case]), tied_embeddings=tied).model
    state = Transformer(settings, VOCABULARY, VOCABULARY).state_dict()
    owners: dict[int, str] = {}
    for name, weight in state.items():
        assert weight.data_ptr() not in owners, f"{name} is {owners[weight.data_ptr()]}"
        owners[weight.data_ptr()] = name
    words = {"source_embedding.weight", "target_embedding.weight", "output.weight"} & state.keys()
    assert len(words) == {"all": 1, "output": 2, "none": 3}[tied]


@pytest.mark.parametrize("rate", first_quick(["dropout", "attention_dropout"]))
@pytest.mark.parametrize("case", EVERY_PART, ids=name_of)
def test_dropout_acts_in_training_only(case: tuple[str, str], rate: str) -> None:
    settings: dict[str, Any] = {**dict([case]), "encoder_layers": 1, "decoder_layers": 1}
    check_dropout(small_model(**settings, **{rate: 0.5}), small_model(**settings))


def test_dropout_inside_the_feed_forward_acts_in_training_only() -> None:
    check_dropout(small_model(feed_forward_dropout=0.5), small_model())


def check_dropout(model: Transformer, without: Transformer) -> None:
    batch = contract.random_sentences()
    with torch.no_grad():
        expected = without(*batch)
        assert torch.equal(model(*batch), expected)
        assert torch.equal(model(*batch), expected)
        model.train()
        assert not torch.equal(model(*batch), model(*batch))


# Similarity: a score depends on its pair only.


def build_similarity(choice: Any, size: int) -> Similarity:
    chosen = parts.choose(
        "model.similarity", parts.Choice.model_validate(choice), "model.similarity", Similarity
    )
    similarity = chosen(size)
    initialize(similarity, 1)
    return similarity


def queries_and_keys(size: int = 8) -> tuple[Tensor, Tensor]:
    return torch.randn(2, 3, 5, size), torch.randn(2, 3, 7, size)


@pytest.mark.parametrize("choice", cases_of("similarity"))
def test_a_score_depends_on_its_query_and_its_key_alone(choice: Any) -> None:
    similarity = build_similarity(choice, 8)
    queries, keys = queries_and_keys()
    with torch.no_grad():
        scores = similarity(queries, keys)
        assert scores.shape == (2, 3, 5, 7)
        for row, head, place in ((0, 0, 0), (1, 2, 3), (0, 1, 4)):
            changed = queries.clone()
            changed[row, head, place] += 1.0
            is_other = similarity(changed, keys) != scores
            assert is_other[row, head, place].any()
            is_other[row, head, place] = False
            assert not is_other.any()

            changed = keys.clone()
            changed[row, head, place] += 1.0
            is_other = similarity(queries, changed) != scores
            assert is_other[row, head, :, place].any()
            is_other[row, head, :, place] = False
            assert not is_other.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [0.0, 1e-4, 1.0, 1e4])
@pytest.mark.parametrize("choice", cases_of("similarity"))
def test_scores_and_their_gradients_are_finite(
    choice: Any, scale: float, dtype: torch.dtype
) -> None:
    # Nothing as a vector has no direction, yet it happens: naive positions begin at zero.
    similarity = build_similarity(choice, 8).to(dtype)
    queries, keys = ((scale * vectors).to(dtype).requires_grad_() for vectors in queries_and_keys())
    scores = similarity(queries, keys)
    assert scores.dtype == dtype
    assert scores.isfinite().all()
    scores.sum().backward()
    for tensor in (queries, keys, *similarity.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()


@pytest.mark.parametrize("choice", cases_of("similarity"))
def test_the_declared_properties_of_a_similarity_are_true(choice: Any) -> None:
    similarity = build_similarity(choice, 8)
    queries, keys = queries_and_keys()
    with torch.no_grad():
        scores = similarity(queries, keys)
        product = similarity.as_dot_product(queries, keys)
        if product is not None:
            by_product = product.scale * product.queries @ product.keys.mT
            torch.testing.assert_close(by_product, scores, rtol=0, atol=1e-5)
        if similarity.is_linear_in_keys:
            shift = torch.randn(7, 8).expand_as(keys)
            shifted = scores + similarity(queries, shift)
            torch.testing.assert_close(
                similarity(queries, keys + shift), shifted, rtol=0, atol=1e-5
            )


# Attention kind: weights sum to one.


def build_reach(choice: Any) -> AttentionKind:
    chosen = parts.choose(
        "model.attention_kind",
        parts.Choice.model_validate(choice),
        "model.attention_kind",
        AttentionKind,
    )
    return chosen()


LENGTHS = torch.tensor([9, 4, 1])
MASKS = {
    "padding": (padding_mask(torch.arange(9) < LENGTHS.unsqueeze(1)), 0, 5),
    "padding, later": (padding_mask(torch.arange(9) < LENGTHS.unsqueeze(1)), 3, 5),
    "padding, beyond the source": (padding_mask(torch.arange(9) < LENGTHS.unsqueeze(1)), 30, 2),
    "causal": (causal_mask(0, 9, torch.device("cpu")), 0, 9),
    "causal, later": (causal_mask(5, 4, torch.device("cpu")), 5, 4),
    "causal, one step": (causal_mask(8, 1, torch.device("cpu")), 8, 1),
}


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("which", MASKS)
@pytest.mark.parametrize("choice", cases_of("attention_kind"))
def test_weights_sum_to_one_over_the_visible_keys(choice: Any, which: str, scale: float) -> None:
    attention_kind = build_reach(choice)
    mask, start, length = MASKS[which]
    scores = (scale * torch.randn(3, 2, length, 9)).requires_grad_()
    narrowed = attention_kind.restrict_mask(mask, start, length)
    assert not (narrowed & ~mask).any(), "shows what was hidden"
    weights = attention_kind(scores, narrowed)
    visible = narrowed.expand_as(weights)
    assert visible.any(dim=-1).all(), "leaves a query without a key"
    assert (weights >= 0).all()
    assert (weights[~visible] == 0).all()
    # A sum of nine float32 weights.
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3, 2, length), rtol=0, atol=1e-6)
    if attention_kind.is_softmax:
        assert torch.equal(weights, masked_softmax(scores, narrowed))
    (weights * torch.randn_like(weights)).sum().backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert (scores.grad[~visible] == 0).all()


@pytest.mark.parametrize("choice", cases_of("attention_kind"))
def test_the_restricted_mask_of_a_later_start_is_the_same(choice: Any) -> None:
    attention_kind = build_reach(choice)
    whole = attention_kind.restrict_mask(causal_mask(0, 9, torch.device("cpu")), 0, 9)
    later = attention_kind.restrict_mask(causal_mask(5, 4, torch.device("cpu")), 5, 4)
    assert torch.equal(later, whole[:, :, 5:])


# Heads: sizes agree, and each position is projected on its own.


@pytest.mark.parametrize("name", parts.names("model.head_kind"))
def test_project_equals_queries_and_keys_values(name: str) -> None:
    heads = parts.choose("model.head_kind", parts.Choice(name=name), "model.head_kind", Heads)(
        16, 2
    )
    initialize(heads, 1)
    x = torch.randn(3, 5, 16)
    # One large product may add in another order than three small ones.
    for at_once, alone in zip(
        heads.project(x), (heads.queries(x), *heads.keys_values(x)), strict=True
    ):
        torch.testing.assert_close(at_once, alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("width", "count"), [(16, 2), (12, 3), (8, 1), (8, 8), (15, 4)])
@pytest.mark.parametrize("name", parts.names("model.head_kind"))
def test_head_size_is_the_size_of_a_head(name: str, width: int, count: int) -> None:
    chosen = parts.choose("model.head_kind", parts.Choice(name=name), "model.head_kind", Heads)
    if chosen.cls.size_errors(width, count):
        assert width % count, "sizes that fit are refused"
        return
    size = chosen.cls.head_size(width, count)
    heads = chosen(width, count)
    initialize(heads, 1)
    x = torch.randn(3, 5, width)
    changed = x.clone()
    changed[1, 2] += 1.0
    with torch.no_grad():
        before = heads.queries(x), *heads.keys_values(x)
        after = heads.queries(changed), *heads.keys_values(changed)
        for expected, actual in zip(before, after, strict=True):
            assert expected.shape == (3, count, 5, size)
            assert heads.join(expected).shape == x.shape
            is_other = actual != expected
            assert is_other[1, :, 2].any()
            is_other[1, :, 2] = False
            assert not is_other.any()


# Positions: starting later gives the same as starting at the first position.


def choose_position(choice: Any) -> parts.Chosen[PositionPart]:
    return parts.choose(
        "model.position", parts.Choice.model_validate(choice), "model.position", PositionPart
    )


def has_vectors(choice: Any) -> bool:
    return issubclass(choose_position(choice).cls, PositionVectors)


WITH_VECTORS = [case for case in cases_of("position") if has_vectors(case.values[0])]
WITH_DOORS = [case for case in cases_of("position") if not has_vectors(case.values[0])]


@pytest.mark.parametrize("choice", WITH_VECTORS)
def test_vectors_of_a_later_start_are_the_same(choice: Any) -> None:
    for size in (6, 7):
        vectors = choose_position(choice)(size)
        assert isinstance(vectors, PositionVectors)
        initialize(vectors, 1)
        for dtype in (torch.float32, torch.bfloat16):
            like = torch.zeros(1, dtype=dtype)
            whole = vectors(0, 40, like)
            assert whole.shape == (40, size)
            assert whole.dtype == dtype
            assert not torch.equal(whole[0], whole[39])
            for start, length in ((0, 1), (1, 1), (5, 35), (39, 1), (17, 4)):
                assert torch.equal(vectors(start, length, like), whole[start : start + length])


@pytest.mark.parametrize("entry", ["added", "concatenated", "projected"])
@pytest.mark.parametrize("choice", WITH_VECTORS)
def test_entered_vectors_of_a_later_start_are_the_same(choice: Any, entry: str) -> None:
    check_later_start(position=choice, position_entry=entry)


@pytest.mark.parametrize("similarity", parts.names("model.similarity"))
@pytest.mark.parametrize("choice", WITH_DOORS)
def test_hooks_of_a_later_start_are_the_same(choice: Any, similarity: str) -> None:
    check_later_start(position=choice, similarity=similarity)


def check_later_start(**settings: Any) -> None:
    resolved = resolve_parts(small_recipe(**settings).model)
    position, score = resolved.build_position(0), resolved.similarity(resolved.head_size)
    initialize(position, 1)
    initialize(score, 1)
    start, length, size = 5, 9, resolved.head_size
    x = torch.randn(3, length, resolved.word_features)
    queries, keys, values = torch.randn(3, 3, 2, length, size).unbind()
    weights = torch.rand(3, 2, length, length)
    with torch.no_grad():
        assert torch.equal(
            position.apply_to_input(x[:, start:], start), position.apply_to_input(x, 0)[:, start:]
        )
        later = position.apply_to_heads(
            queries[:, :, start:], keys[:, :, start:], values[:, :, start:], start
        )
        for continued, whole in zip(
            later, position.apply_to_heads(queries, keys, values, 0), strict=True
        ):
            torch.testing.assert_close(continued, whole[:, :, start:], rtol=0, atol=1e-6)
        continued = position.compare(score, queries[:, :, start:], keys, start)
        whole = position.compare(score, queries, keys, 0)
        torch.testing.assert_close(continued, whole[:, :, start:], rtol=0, atol=1e-5)
        continued = position.mix(weights[:, :, start:], values, start)
        whole = position.mix(weights, values, 0)
        torch.testing.assert_close(continued, whole[:, :, start:], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", parts.names("model.position"))
def test_the_order_of_the_source_matters_with_positions(name: str) -> None:
    source, target = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[5]])
    is_real = torch.ones_like(source, dtype=torch.bool)
    model = small_model(position=name)
    with torch.no_grad():
        change = model(source.flip(1), is_real, target) - model(source, is_real, target)
    if name == "none":
        assert change.abs().max() < contract.ROUNDING
    else:
        assert change.abs().max() > 100 * contract.ROUNDING


def test_default_hooks_are_the_identity() -> None:
    position = Position(8)
    queries, keys, values = torch.randn(3, 1, 2, 4, 8).unbind()
    x = torch.randn(1, 4, 16)
    assert position.apply_to_input(x, 3) is x
    assert position.apply_to_heads(queries, keys, values, 3) == (queries, keys, values)
