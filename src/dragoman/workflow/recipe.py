"""Load the recipe for a workflow function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dragoman.recipe.files import load_recipe
from dragoman.recipe.schema import Recipe
from dragoman.storage.mirror import local_path, locate


def open_recipe(recipe: Recipe | str | Path, settings: Sequence[str] = ()) -> tuple[Recipe, Path]:
    """Load a recipe, apply `key=value` settings, and return it with its base folder.

    Relative paths in a recipe file start from the folder of the file. Relative paths in a `Recipe`
    object start from the current folder.
    """
    if isinstance(recipe, Recipe):
        return load_recipe(recipe, settings), Path.cwd()
    path = local_path(recipe)
    # The path in a mirror is not resolved: it stands for a URL.
    base_folder = path.parent if locate(path) else path.resolve().parent
    return load_recipe(recipe, settings), base_folder
