"""Dragoman turns your own parallel text into your own translator, and shows you how it thinks.

The names below are the promise of semantic versioning; every other module is open to read and
free to change. They load when they are first used, so `import dragoman` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.errors import DragomanError
    from dragoman.explanation.explain import explain
    from dragoman.model.record import record
    from dragoman.recipe import Recipe
    from dragoman.recipe_file import load_recipe
    from dragoman.translator import Translation, Translator

__version__ = "0.1.0"
__all__ = [
    "DragomanError",
    "Recipe",
    "Translation",
    "Translator",
    "explain",
    "load_recipe",
    "record",
]

_HOMES = {
    "DragomanError": "dragoman.errors",
    "Recipe": "dragoman.recipe",
    "Translation": "dragoman.translator",
    "Translator": "dragoman.translator",
    "explain": "dragoman.explanation.explain",
    "load_recipe": "dragoman.recipe_file",
    "record": "dragoman.model.record",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dragoman' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
