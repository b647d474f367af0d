"""Write the reference pages of the documentation from the code.

    python -m docs_build.reference

docs/reference/recipe.md lists every setting of a recipe with its default in each preset, and
docs/reference/commands.md has the help page of every command. `tests/project/test_site.py` compares
both with the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
import yaml
from typer.core import TyperCommand, TyperGroup

from dragoman.cli.app import app
from dragoman.recipe.files import describe_setting, dump_recipe, load_recipe, preset_names
from dragoman.recipe.schema import Recipe, Section

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
FOLDER = Path(__file__).parents[1] / "docs" / "reference"
_RECIPE_TOP = """\
# Recipe settings

A recipe is a YAML file: a preset, and the settings that differ from it. `dragoman show tiny` prints
a complete recipe. Settings can also be given on the command line, with the section and a dot:
`training.steps=500`. The column *default* is the value of a recipe without a preset; the last
column lists the presets that have another value.
"""
_COMMANDS_TOP = """\
# Commands

The help pages of all commands, as `dragoman COMMAND --help` prints them.
"""


def main() -> None:
    """Write both pages."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "recipe.md").write_text(recipe_page(), "utf-8")
    (FOLDER / "commands.md").write_text(commands_page(), "utf-8")


def recipe_page() -> str:
    """Return the table of each section."""
    default = yaml.safe_load(dump_recipe(Recipe()))
    presets = {name: yaml.safe_load(dump_recipe(load_recipe(name))) for name in preset_names()}
    lines = [_RECIPE_TOP]
    for section, field in Recipe.model_fields.items():
        kind = field.annotation
        if not (isinstance(kind, type) and issubclass(kind, Section)):
            continue
        lines += [
            f"## `{section}`\n",
            "| setting | default | meaning | presets |",
            "|---|---|---|---|",
        ]
        for name, setting in kind.model_fields.items():
            value = default[section][name]
            others = (
                f"{preset} {_code(values[section][name])}"
                for preset, values in presets.items()
                if values[section][name] != value
            )
            lines.append(
                f"| `{name}` | {_code(value)} | {_cell(describe_setting(setting))} "
                f"| {', '.join(others)} |"
            )
        lines.append("")
    return "\n".join(lines)


def _code(value: object) -> str:
    """Return a value as it is written in a recipe."""
    if value in ("", [], None):
        return "empty"
    return (
        f"`{_cell(yaml.safe_dump(value, default_flow_style=True, width=1000).split(chr(10))[0])}`"
    )


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def commands_page() -> str:
    """Return the help pages, each under a heading."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    parts = [_COMMANDS_TOP]
    for name, text in help_pages(root, "dragoman", None):
        parts.append(f"## {name}\n\n```text\n{_STYLE.sub('', text).rstrip()}\n```\n")
    return "\n".join(parts)


def help_pages(
    command: TyperCommand | TyperGroup, name: str, parent: Any
) -> Iterator[tuple[str, str]]:
    """Yield the path and the help page of a command and of all commands below it."""
    context = command.context_class(
        command,
        parent=parent,
        info_name=name,
        terminal_width=80,
        max_content_width=80,
        **command.context_settings,
    )
    yield context.command_path, command.get_help(context)
    if isinstance(command, TyperGroup):
        for child in command.list_commands(context):
            below = command.get_command(context, child)
            if isinstance(below, TyperCommand | TyperGroup) and not below.hidden:
                yield from help_pages(below, child, context)


if __name__ == "__main__":
    main()
