"""Settings of a recipe that are possible, but known to learn badly.

Each is a warning, not a mistake: a lecture or an experiment may ask for exactly this setting.
`dragoman show`, `prepare` and `train` print the warnings once. A warning needs evidence: a claim of
the lab that measured it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.recipe.parts import Choice

if TYPE_CHECKING:
    from dragoman.recipe.schema import Recipe


def known_weaknesses(recipe: Recipe) -> list[str]:
    """Return one warning for each setting that is known to learn badly: what, why, what instead."""
    warnings = []
    if _is_cosine_of_small_scale(recipe.model.similarity):
        warnings.append(
            "model.similarity: cosine with a scale of 1 or less learns badly. Its scores are "
            "between -1 and 1, so the weights of many keys are nearly equal (lab, C24). To repair "
            "it, set model.similarity.scale=10"
        )
    return [f"warning: {warning}" for warning in warnings]


def _is_cosine_of_small_scale(similarity: Choice) -> bool:
    try:
        return similarity.name == "cosine" and float(similarity.options.get("scale", "1")) <= 1
    except ValueError:  # Not a number: a mistake that is reported when the part is built.
        return False
