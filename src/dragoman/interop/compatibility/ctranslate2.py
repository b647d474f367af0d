"""Which recipes CTranslate2 can run, and the reasons why it cannot run the others.

For each setting: the values that CTranslate2 supports, and the reason why it does not support the
others. A value that is not listed is not supported, so a new part is never promised before it was
tested. `tests/interop/test_ctranslate2.py` compares every supported value with our own model
(measured with CTranslate2 4.8.4).
"""

from __future__ import annotations

from dragoman.errors import Mistake
from dragoman.recipe.parts import Choice
from dragoman.recipe.schema import ModelRecipe, Recipe

_SUPPORTED = {
    "model.architecture": (("transformer",), "runs only Transformers"),
    "model.head_kind": (
        ("standard", "wide", "narrow", "bare"),
        "has only heads that are linear maps of the input",
    ),
    "model.similarity": (
        ("scaled_dot", "dot", "cosine"),
        "compares by dot products, not by a network for each pair",
    ),
    "model.attention_kind": (("soft",), "gives a weight to every key that is not masked"),
    "model.position": (
        ("none", "naive", "sinusoidal", "learned", "rotary", "shaw"),
        "has only position tables, rotary and relative positions",
    ),
    "model.position_entry": (
        ("added", "concatenated"),
        "adds positions to the embeddings, not in attention",
    ),
    "model.position_depth": (("bottom",), "adds positions only before the first layer"),
    "model.norm": (("post", "pre"), "has only pre-norm and post-norm"),
    "model.feed_forward": (
        ("relu", "gelu", "swish", "swiglu", "none"),
        "has only these activations",
    ),
    "model.cross_attention": (
        ("last_layer",),
        "lets the decoder attend only to the last encoder layer",
    ),
    "model.tied_embeddings": (("all", "output", "none"), "shares only these matrices"),
    "decoding.search": (("beam", "greedy"), "has no random seed per sentence"),
    "decoding.length_normalization": (
        ("power",),
        "normalizes scores only by a power of the length",
    ),
}


_CONDITIONS = {"cosine": "cosine with model.heads: 1"}
"""Supported values that need another setting; `_combinations` checks it."""


def obstacles(recipe: Recipe) -> list[Mistake]:
    """List every setting that CTranslate2 does not support; empty if the recipe is compatible."""
    mistakes = []
    for path, (supported, reason) in _SUPPORTED.items():
        section, setting = path.split(".")
        value = getattr(getattr(recipe, section), setting)
        name = value.name if isinstance(value, Choice) else value
        if name not in supported:
            expected = " or ".join(_CONDITIONS.get(choice, choice) for choice in supported)
            what = f"CTranslate2 {reason}; found {name}, expected {expected}"
            mistakes.append(Mistake(path, what))
    return mistakes + _combinations(recipe.model)


def export_obstacles(recipe: Recipe) -> list[Mistake]:
    """List what prevents an export; the search is checked again whenever the model is used."""
    return [mistake for mistake in obstacles(recipe) if not mistake.path.startswith("decoding.")]


def _combinations(model: ModelRecipe) -> list[Mistake]:
    """List values that are supported alone, but not together."""
    mistakes = []
    if model.similarity.name == "cosine" and model.heads > 1:
        what = (
            "CTranslate2 normalizes the queries of cross-attention over all heads at once; found "
            "cosine, expected scaled_dot or dot, or model.heads: 1"
        )
        mistakes.append(Mistake("model.similarity", what))
    if model.similarity.name == "cosine" and model.position.name == "shaw":
        what = (
            "CTranslate2 adds relative positions after it normalizes a key, not before; found "
            "shaw, expected another position, or model.similarity: scaled_dot or dot"
        )
        mistakes.append(Mistake("model.position", what))
    return mistakes
