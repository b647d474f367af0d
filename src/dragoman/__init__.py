"""Dragoman trains translation models on your own parallel text and shows how they work.

The names below are the public API; semantic versioning applies to them. They are loaded on first
use, so `import dragoman` is fast, and it changes nothing in the process: no environment variable,
no signal handler, no warning filter, no thread.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.errors import (
        ArtifactError,
        DataError,
        DragomanError,
        MissingExtraError,
        RecipeError,
        Stopped,
    )
    from dragoman.inference.translator import Translation, Translator
    from dragoman.model.record import record
    from dragoman.recipe.files import load_recipe
    from dragoman.recipe.schema import Recipe
    from dragoman.workflow.adaptation import adapt
    from dragoman.workflow.distillation import distill
    from dragoman.workflow.documents import translate_files
    from dragoman.workflow.evaluation import evaluate
    from dragoman.workflow.explanation import explain
    from dragoman.workflow.exporting import export, import_model
    from dragoman.workflow.preparation import prepare
    from dragoman.workflow.training import train

__version__ = "0.1.0"
__all__ = [
    "ArtifactError",
    "DataError",
    "DragomanError",
    "MissingExtraError",
    "Recipe",
    "RecipeError",
    "Stopped",
    "Translation",
    "Translator",
    "adapt",
    "distill",
    "evaluate",
    "explain",
    "export",
    "import_model",
    "load_recipe",
    "prepare",
    "record",
    "train",
    "translate_files",
]

_MODULES = {
    "ArtifactError": "dragoman.errors",
    "DataError": "dragoman.errors",
    "DragomanError": "dragoman.errors",
    "MissingExtraError": "dragoman.errors",
    "Recipe": "dragoman.recipe.schema",
    "RecipeError": "dragoman.errors",
    "Stopped": "dragoman.errors",
    "Translation": "dragoman.inference.translator",
    "Translator": "dragoman.inference.translator",
    "adapt": "dragoman.workflow.adaptation",
    "distill": "dragoman.workflow.distillation",
    "evaluate": "dragoman.workflow.evaluation",
    "explain": "dragoman.workflow.explanation",
    "export": "dragoman.workflow.exporting",
    "import_model": "dragoman.workflow.exporting",
    "load_recipe": "dragoman.recipe.files",
    "prepare": "dragoman.workflow.preparation",
    "record": "dragoman.model.record",
    "train": "dragoman.workflow.training",
    "translate_files": "dragoman.workflow.documents",
}

# Log messages are for operators; without a handler of theirs, they go nowhere.
logging.getLogger("dragoman").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'dragoman' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
