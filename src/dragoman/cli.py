"""What does the command `dragoman` understand?

It parses, calls, and prints; it decides nothing. Heavy imports stay inside the commands, so
that help answers at once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman import __version__
from dragoman.errors import DragomanError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from dragoman.model.cost import Room

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command; print our own errors as text, and end with their exit code."""
    try:
        app()
    except DragomanError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"dragoman: {error}", err=True)
        sys.exit(error.exit_code)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"dragoman {__version__}")
        raise typer.Exit


@app.callback()
def dragoman(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an error.")] = False,
) -> None:
    """Turn your own parallel text into your own translator, and see how it thinks."""


@app.command()
def show(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or: tiny, small, base, big.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Change settings, as model.norm=pre."),
    ] = None,
    model: Annotated[
        bool, typer.Option("--model", help="Show the model's rooms and what they cost.")
    ] = False,
    length: Annotated[
        int, typer.Option(min=1, help="Tokens of the sentence that --model measures.")
    ] = 32,
) -> None:
    """Print a recipe with every setting resolved; redirect it to have a file to edit."""
    from dragoman.recipe_file import dump_recipe, load_recipe

    resolved = load_recipe(recipe, settings or [])
    if not model:
        typer.echo(dump_recipe(resolved), nl=False)
        return
    try:
        from dragoman.model.cost import measure
    except ModuleNotFoundError as error:
        if error.name in ("torch", "jaxtyping"):
            raise MissingExtraError("showing a model", str(error.name), "train") from None
        raise
    from rich.console import Console

    Console(highlight=False).print(_cost_table(measure(resolved, length, length), length))


def _cost_table(model: Room, length: int) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        caption=f"FLOPs are those of matrix products, forward, for a sentence of {length} tokens\n"
        f"on each side, divided by {length}. Training costs three times as much.",
        caption_justify="left",
    )
    table.add_column("room", no_wrap=True)
    for header in ("parameters", "FLOPs/token"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("class")
    for label, room in _branches(model, "", ""):
        costs = (_short(room.parameters), _short(room.flops / length))
        table.add_row(label, *costs, room.kind, style="bold" if room is model else None)
    return table


def _branches(room: Room, before: str, below: str) -> Iterator[tuple[str, Room]]:
    """Walk the tree; `before` is drawn in front of this room, `below` in front of those in it."""
    yield f"{before}{room.name}{', each' if room.count > 1 else ''}", room
    for index, inner in enumerate(room.rooms):
        is_last = index == len(room.rooms) - 1
        branch, trunk = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield from _branches(inner, below + branch, below + trunk)


def _short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f}" if number else "·"
