"""`dragoman show`: print a recipe, its JSON Schema, or the cost of its model."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from dragoman.cli.console import complete_recipe, needs, print_warnings
from dragoman.errors import DataError, RecipeError


def show(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="A recipe file or a preset: demo, tiny, small, base, big.",
            autocompletion=complete_recipe,
        ),
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="Settings to change, for example model.norm=pre."
        ),
    ] = None,
    model: Annotated[
        bool,
        typer.Option("--model", help="Show the modules of the model: parameters and FLOPs."),
    ] = False,
    length: Annotated[
        int, typer.Option(min=1, help="Sentence length for --model, in tokens.")
    ] = 32,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of recipes, for editors.")
    ] = False,
) -> None:
    """Print a recipe with all its settings, as YAML.

    Examples:
      dragoman show tiny model.norm=post > recipe.yaml
      dragoman show base --model
      dragoman show --schema > recipe.schema.json
    """
    from dragoman.recipe.files import dump_recipe, load_recipe, preset_names, recipe_schema
    from dragoman.recipe.parts import missing_modules

    if schema:
        typer.echo(json.dumps(recipe_schema(), indent=1, ensure_ascii=False))
        return
    if not recipe:
        presets = ", ".join(preset_names())
        raise DataError(f"expected a recipe file or a preset ({presets}). Type: dragoman show base")
    loaded = load_recipe(recipe, settings or [])
    missing = missing_modules(loaded)
    if missing:
        raise RecipeError(missing)
    print_warnings(loaded)
    if not model:
        from dragoman.interop.compatibility.table import summary

        typer.echo(dump_recipe(loaded), nl=False)
        typer.echo("".join(f"# {line}\n" for line in summary(loaded)), nl=False)
        return
    with needs("showing a model", "train"):
        from dragoman.model.cost import measure
    from dragoman.cli.display.cost import show_cost

    show_cost(measure(loaded, length, length), length)
