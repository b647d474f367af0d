"""Check that the built-in parts of a model fit together, without importing them.

A part checks its own sizes when a model is built (`model/resolve.py`). Importing a part loads
PyTorch. This file knows which rules apply to the built-in parts, so that every command can report
a mistake, also where PyTorch is not installed. Parts outside the package are checked only when the
model is built. The text of each rule exists once, here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import Mistake

if TYPE_CHECKING:
    from dragoman.recipe.schema import ModelRecipe

_SPLIT_WIDTH = frozenset({"bare", "narrow", "standard"})
"""Head kinds that divide the width among the heads."""
_FULL_WIDTH = frozenset({"wide"})
"""Head kinds whose heads are as wide as the model."""
_ROTATES_PAIRS = frozenset({"rotary"})
_NO_VECTORS = frozenset({"none", "rotary", "shaw"})
"""Positions that do not compute a vector for each position."""


def mistakes_in_fit(model: ModelRecipe) -> list[Mistake]:
    """Report the built-in parts of a Transformer that do not fit its sizes or each other."""
    if model.architecture != "transformer":
        return []
    kind, position = model.head_kind.name, model.position.name
    head_errors = divisor_errors(model.width, model.heads) if kind in _SPLIT_WIDTH else []
    mistakes = [Mistake("model.heads", error) for error in head_errors]
    head_size = 0
    if kind in _FULL_WIDTH:
        head_size = model.width
    elif kind in _SPLIT_WIDTH and not head_errors:
        head_size = model.width // model.heads
    if position in _ROTATES_PAIRS:
        mistakes += [Mistake("model.position", error) for error in pair_errors(head_size)]
    return mistakes + (entry_mistakes(model) if position in _NO_VECTORS else [])


def divisor_errors(width: int, heads: int) -> list[str]:
    """Check that the number of heads divides the width."""
    return [f"found {heads}, expected a divisor of model.width ({width})"] if width % heads else []


def pair_errors(head_size: int) -> list[str]:
    """Check that the features of a head form pairs."""
    message = f"rotary rotates pairs of features, but a head has {head_size} features"
    return [message] if head_size % 2 else []


def entry_mistakes(model: ModelRecipe) -> list[Mistake]:
    """Report settings of position vectors, for a position that has no vectors."""
    return [
        Mistake(f"model.{setting}", f"{model.position.name} has no position vectors; use {default}")
        for setting, default in (("position_entry", "added"), ("position_depth", "bottom"))
        if getattr(model, setting) != default
    ]
