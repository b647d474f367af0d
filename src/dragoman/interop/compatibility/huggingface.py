"""Which recipes Hugging Face's transformers can compute exactly.

    post-norm, sinusoidal positions    Marian, with any tied embeddings
    pre-norm, sinusoidal positions     Pegasus, which ties all embeddings
    pre-norm, learned positions        Blenderbot, which ties all embeddings

The other recipes have no architecture in transformers. (Another table could replace Marian's
positions, but transformers drops that table without a warning when it saves the model again.)

The decoding settings become those of `generate`. A setting that would change the translation is an
obstacle. These two are not, although they are only approximate:

    max_extra_tokens    is relative to the source length, while `generate` has one limit: here that
                        of the longest training text. Only runaway translations end elsewhere.
    search: sample      draws from the same probabilities, but not the same translation.
"""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.errors import Mistake
from dragoman.recipe.parts import Choice
from dragoman.recipe.schema import DecodingRecipe, ModelRecipe, Recipe

PARTS = {
    "head_kind": ("standard",),
    "similarity": ("scaled_dot",),
    "attention_kind": ("soft",),
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
"""The base of the sinusoids in transformers."""


def obstacles(recipe: Recipe) -> list[Mistake]:
    """List every setting that prevents the export; empty if the recipe is compatible."""
    mistakes = [*_unsupported(recipe.model), *_combinations(recipe.model)]
    kind = recipe.tokenizer.kind
    if kind not in TOKENIZERS:
        what = f"transformers has no tokenizer for {kind}; expected {' or '.join(TOKENIZERS)}"
        mistakes.append(Mistake("tokenizer.kind", what))
    return [*mistakes, *_unsupported_search(recipe.decoding)]


def _unsupported(model: ModelRecipe) -> Iterator[Mistake]:
    """Find values that no architecture of transformers for translation supports."""
    for setting, known in PARTS.items():
        name = getattr(model, setting).name
        if "." in name:
            yield _unsupported_value(setting, f"{name} is a part outside Dragoman", known)
        elif name not in known:
            yield _unsupported_value(
                setting, f"Marian, Pegasus and Blenderbot do not support {name}", known
            )
    for setting, known in SETTINGS.items():
        name = getattr(model, setting)
        if name not in known:
            yield _unsupported_value(
                setting, f"Marian, Pegasus and Blenderbot do not support {name}", known
            )


def _unsupported_value(setting: str, what: str, known: tuple[str, ...]) -> Mistake:
    return Mistake(f"model.{setting}", f"{what}; expected {' or '.join(known)}")


def _combinations(model: ModelRecipe) -> Iterator[Mistake]:
    """Find values that are supported alone, but not together."""
    if model.position.name == "sinusoidal":
        yield from _other_sinusoids(model.position, model.width)
    if model.position.name == "learned" and model.norm == "post":
        yield Mistake("model.position", "learned positions need model.norm: pre (Blenderbot)")
    if model.norm == "pre" and model.tied_embeddings != "all":
        what = f"found {model.tied_embeddings}, but pre-norm needs all (Pegasus)"
        yield Mistake("model.tied_embeddings", what)


def _other_sinusoids(position: Choice, width: int) -> Iterator[Mistake]:
    base = position.options.get("base", str(BASE))
    if not _is_number(base, BASE):
        yield Mistake("model.position.base", f"found {base}, but transformers has only {BASE:g}")
    if position.options.get("layout") == "cosine_first" and width % 2:
        what = "with an odd width, cosine_first has one more cosine, transformers one more sine"
        yield Mistake("model.position.layout", what)


def _is_number(text: str, number: float) -> bool:
    try:
        return float(text) == number
    except ValueError:
        return False


def _unsupported_search(decoding: DecodingRecipe) -> Iterator[Mistake]:
    """Find search settings that `generate` does not have, and that change the translation."""
    if decoding.search != "beam":
        return
    if decoding.length_penalty and decoding.length_normalization == "gnmt":
        what = "`generate` normalizes scores only by a power of the length; choose power"
        yield Mistake("decoding.length_normalization", what)
    if decoding.coverage_penalty:
        yield Mistake("decoding.coverage_penalty", "`generate` has no coverage penalty; choose 0")
    if decoding.length_penalty and decoding.patience != 1:
        yield Mistake("decoding.patience", "`generate` has no patience; choose 1")
    if decoding.repetition_penalty != 1:
        what = (
            "in beam search, `generate` applies it to log-probabilities, Dragoman to logits; "
            "choose 1, or search: greedy"
        )
        yield Mistake("decoding.repetition_penalty", what)
