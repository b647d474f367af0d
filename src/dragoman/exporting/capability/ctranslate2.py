"""Can CTranslate2 serve this recipe, and if not, why?

For each setting that matters to it: what it serves, and what keeps it from the rest. A value that
is not listed is not served, so nothing new is promised before it was tried. Every yes is compared
with our own model in `tests/exporting/test_ctranslate2.py`; found with CTranslate2 4.8.4.
"""

from __future__ import annotations

from dragoman.errors import Mistake
from dragoman.part import Choice
from dragoman.recipe import ModelRecipe, Recipe

_SERVED = {
    "model.architecture": (("transformer",), "runs Transformers"),
    "model.heads": (
        ("standard", "wide", "narrow", "bare"),
        "has heads that are linear maps of the input",
    ),
    "model.similarity": (
        ("scaled_dot", "dot", "cosine"),
        "compares by dot products, not by a network for each pair",
    ),
    "model.reach": (("soft",), "weighs every key that is not masked"),
    "model.position": (
        ("none", "naive", "sinusoidal", "learned", "rotary", "shaw"),
        "has a table of vectors, rotary and relative positions",
    ),
    "model.position_entry": (
        ("added", "concatenated"),
        "lets vectors of positions enter with the words, not in attention",
    ),
    "model.position_depth": (("bottom",), "lets positions enter below the first layer only"),
    "model.norm": (("post", "pre"), "norms after or before"),
    "model.feed_forward": (
        ("relu", "gelu", "swish", "swiglu", "none"),
        "has these nonlinearities",
    ),
    "model.cross_attention": (("last_layer",), "shows its decoder the encoder's last layer only"),
    "model.tied_embeddings": (("all", "output", "none"), "shares matrices that are equal"),
    "decoding.search": (("beam", "greedy"), "draws samples that no seed can repeat"),
    "decoding.length_form": (("power",), "makes up for length by a power of it"),
}


def obstacles(recipe: Recipe) -> list[Mistake]:
    """Say what stands in the way, all at once; nothing when it can be served."""
    found = []
    for path, (served, reason) in _SERVED.items():
        section, setting = path.split(".")
        value = getattr(getattr(recipe, section), setting)
        name = value.name if isinstance(value, Choice) else value
        if name not in served:
            what = f"CTranslate2 {reason}; found {name}, expected {' or '.join(served)}"
            found.append(Mistake(path, what))
    return found + _together(recipe.model)


def _together(model: ModelRecipe) -> list[Mistake]:
    """Find what is served, but not in this company."""
    found = []
    if model.similarity.name == "cosine" and model.head_count > 1:
        what = (
            "CTranslate2 takes the length of a query that looks at the source over all heads at "
            "once; found cosine, expected scaled_dot or dot, or model.head_count: 1"
        )
        found.append(Mistake("model.similarity", what))
    if model.similarity.name == "cosine" and model.position.name == "shaw":
        what = (
            "CTranslate2 shifts a key after its length was taken, not before; found shaw, expected "
            "another position, or model.similarity: scaled_dot or dot"
        )
        found.append(Mistake("model.position", what))
    return found
