"""Which models can Hugging Face's transformers compute, exactly?

    post-norm, sinusoidal positions    Marian, whatever is tied
    pre-norm, sinusoidal positions     Pegasus, which ties everything
    pre-norm, learned positions        Blenderbot, which ties everything

There is no architecture for the rest. (One could lay a foreign table over Marian's positions; but
transformers leaves that table out when it saves a model again, and nobody would be told.)

The settings of decoding become those of `generate`. What would change the answer is an obstacle;
what comes near is none:

    extra_length     counts from the length of the source, where `generate` has one limit, here that
                     of the longest text trained on: only what runs away is cut elsewhere.
    search: sample   draws from the same probabilities, but not the same translation.
"""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.errors import Mistake
from dragoman.part import Choice
from dragoman.recipe import DecodingRecipe, ModelRecipe, Recipe

PARTS = {
    "heads": ("standard",),
    "similarity": ("scaled_dot",),
    "reach": ("soft",),
    "position": ("sinusoidal", "learned"),
}
SETTINGS = {
    "architecture": ("transformer",),
    "position_entry": ("added",),
    "position_depth": ("bottom",),
    "feed_forward": ("relu", "gelu", "swish"),
    "cross_attention": ("last_layer",),
}
TOKENIZERS = ("sentencepiece", "marian")
BASE = 10000.0
"""Of the sinusoids that are written into the architectures."""


def obstacles(recipe: Recipe) -> list[Mistake]:
    """Say why this model cannot be exported; nothing when it can."""
    found = [*_unknown(recipe.model), *_without_architecture(recipe.model)]
    kind = recipe.tokenizer.kind
    if kind not in TOKENIZERS:
        what = f"transformers has no tokenizer for {kind}; expected {' or '.join(TOKENIZERS)}"
        found.append(Mistake("tokenizer.kind", what))
    return [*found, *_unsearchable(recipe.decoding)]


def _unknown(model: ModelRecipe) -> Iterator[Mistake]:
    """Find what no architecture of transformers has."""
    for setting, known in PARTS.items():
        name = getattr(model, setting).name
        if "." in name:
            yield _not_among(setting, f"{name} is a part of your own", known)
        elif name not in known:
            yield _not_among(setting, f"no architecture of transformers has {name}", known)
    for setting, known in SETTINGS.items():
        name = getattr(model, setting)
        if name not in known:
            yield _not_among(setting, f"no architecture of transformers has {name}", known)


def _not_among(setting: str, what: str, known: tuple[str, ...]) -> Mistake:
    return Mistake(f"model.{setting}", f"{what}; expected {' or '.join(known)}")


def _without_architecture(model: ModelRecipe) -> Iterator[Mistake]:
    """Find what is known alone, and not together."""
    if model.position.name == "sinusoidal":
        yield from _other_waves(model.position, model.width)
    if model.position.name == "learned" and model.norm == "post":
        yield Mistake(
            "model.position", "learned positions go with model.norm: pre only (Blenderbot)"
        )
    if model.norm == "pre" and model.tied_embeddings != "all":
        what = f"found {model.tied_embeddings}, but pre-norm goes with all only (Pegasus)"
        yield Mistake("model.tied_embeddings", what)


def _other_waves(position: Choice, width: int) -> Iterator[Mistake]:
    base = position.options.get("base", str(BASE))
    if not _is_number(base, BASE):
        yield Mistake("model.position.base", f"found {base}, but transformers has {BASE:g} only")
    if position.options.get("layout") == "cosine_first" and width % 2:
        what = "cosine_first has a cosine more than sines where the width is odd, transformers less"
        yield Mistake("model.position.layout", what)


def _is_number(text: str, number: float) -> bool:
    try:
        return float(text) == number
    except ValueError:
        return False


def _unsearchable(decoding: DecodingRecipe) -> Iterator[Mistake]:
    """Find what `generate` cannot do, and would be missed."""
    if decoding.search != "beam":
        return
    if decoding.length_penalty and decoding.length_form == "gnmt":
        what = "`generate` makes up for length by a power of it only; choose power"
        yield Mistake("decoding.length_form", what)
    if decoding.length_penalty and decoding.patience != 1:
        yield Mistake("decoding.patience", "`generate` has no patience; choose 1")
    if decoding.repetition_penalty != 1:
        what = (
            "in a beam, `generate` takes it off probabilities, where ours takes it off scores; "
            "choose 1, or search: greedy"
        )
        yield Mistake("decoding.repetition_penalty", what)
