"""The help pages of the command line: plain text that fits in 80 columns.

The docstring of a command is its help. Its last paragraph lists examples:

    Examples:
      dragoman show base
      dragoman show base --model
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

_Function = TypeVar("_Function", bound=Callable[..., Any])

_NAME_WIDTH = 26
_EXAMPLES = "\n\nExamples:\n"
_TYPES = {
    "path": "PATH",
    "int": "N",
    "int range": "N",
    "float": "X",
    "float range": "X",
    "str": "TEXT",
}


class App(typer.Typer):
    """A group of commands with help pages in this layout."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=_Group, no_args_is_help=True, rich_markup_mode=None, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[_Function], _Function]:
        """Add a command; `cls` may be a subclass of `Command`."""
        return super().command(name, **{"cls": Command} | options)


class Command(TyperCommand):
    """A command with a help page in this layout."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Name the arguments after the options."""
        arguments = [item for item in self.get_params(ctx) if isinstance(item, TyperArgument)]
        return ["[OPTIONS]", *map(_argument_name, arguments)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        _write_help(self, ctx, formatter)


class _Group(TyperGroup):
    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["COMMAND ..."]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _write_help(self, ctx, formatter)


def _write_help(command: TyperCommand | TyperGroup, ctx: Any, formatter: Any) -> None:
    parameters = [item for item in command.get_params(ctx) if not getattr(item, "hidden", False)]
    arguments = [item for item in parameters if isinstance(item, TyperArgument)]
    options = [item for item in parameters if isinstance(item, TyperOption)]
    formatter.write_usage(ctx.command_path, " ".join(command.collect_usage_pieces(ctx)))
    description, _, examples = (command.help or "").partition(_EXAMPLES)
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(description)
    if isinstance(command, TyperGroup):
        for panel, rows in _panels(command, ctx).items():
            _write_section(formatter, panel, rows)
    rows = [(_argument_name(item), item.help or "") for item in arguments]
    _write_section(formatter, "Arguments", rows)
    _write_section(formatter, "Options", [(_option_name(i, ctx), _option_help(i)) for i in options])
    if examples:
        with formatter.section(typer.style("Examples", bold=True)):
            for line in examples.splitlines():
                formatter.write(f"  {line.strip()}\n")


def _write_section(formatter: Any, title: str, rows: Iterable[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(typer.style(title, bold=True)):
            formatter.write_dl(list(rows), col_max=_NAME_WIDTH)


def _panels(group: TyperGroup, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Group the commands by their panel, in the order in which they were added."""
    panels: dict[str, list[tuple[str, str]]] = {}
    names = group.list_commands(ctx)
    width = max(map(len, names))
    for name in names:
        command = group.get_command(ctx, name)
        if command is not None and not command.hidden:
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            first_paragraph = " ".join((command.help or "").split("\n\n")[0].split())
            panels.setdefault(panel, []).append((f"{name:<{width}}", first_paragraph))
    return panels


def _argument_name(argument: TyperArgument) -> str:
    if argument.metavar:
        return argument.metavar
    name = (argument.name or "").upper()
    name = name if argument.nargs == 1 else f"{name}..."
    return name if argument.required else f"[{name}]"


def _option_name(option: TyperOption, ctx: Any) -> str:
    names = ", ".join(sorted(option.opts, key=len))
    if option.is_flag:
        return " / ".join([names, *option.secondary_opts])
    type_name = option.display_type(ctx).strip("<>").removeprefix("list[").removesuffix("]")
    return f"{names} {option.metavar or _TYPES.get(type_name.lower(), type_name)}"


def _option_help(option: TyperOption) -> str:
    is_shown = not option.is_flag and isinstance(option.default, int | float | str | Path)
    default = f" (default: {option.default})" if is_shown and option.default != "" else ""
    return f"{option.help or ''}{default}"
