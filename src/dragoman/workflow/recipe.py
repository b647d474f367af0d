"""Load the recipe for a workflow function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dragoman.recipe.files import load_recipe
from dragoman.recipe.schema import Recipe


def open_recipe(recipe: Recipe | str | Path, settings: Sequence[str] = ()) -> tuple[Recipe, Path]:
    """Load a recipe, apply `key=value` settings, and return it with its base folder.

    Relative paths in a recipe file start from the folder of the file. Relative paths in a `Recipe`
    object start from the current folder.
    """
    if isinstance(recipe, Recipe):
        return load_recipe(recipe, settings), Path.cwd()
    return load_recipe(recipe, settings), Path(recipe).resolve().parent
