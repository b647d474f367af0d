"""What does the command `dragoman` understand?

It parses, calls, and prints; it decides nothing. Heavy imports stay inside the commands, so
that help answers at once.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman import __version__
from dragoman.errors import DataError, DragomanError, MissingExtraError, Stopped

if TYPE_CHECKING:
    from rich.progress import TaskID
    from rich.table import Table

    from dragoman.model.cost import Room

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

corpus = typer.Typer(no_args_is_help=True, help="Look into corpora.")
app.add_typer(corpus, name="corpus")

_INPUT_OUTPUT = 74  # The exit code that systems have for it.


def main() -> None:
    """Run the command; print our own errors as text, and end with their exit code."""
    try:
        app()
    except DragomanError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"dragoman: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        if "--debug" in sys.argv or not error.strerror:
            raise
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"dragoman: {where}{error.strerror}", err=True)
        sys.exit(_INPUT_OUTPUT)


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
    recipe: Annotated[str, typer.Argument(help="A recipe file, or: demo, tiny, small, base, big.")],
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
    with _needs("showing a model", "train"):
        from dragoman.model.cost import measure
    from rich.console import Console

    Console(highlight=False).print(_cost_table(measure(resolved, length, length), length))


@contextmanager
def _stoppable() -> Iterator[None]:
    """After Ctrl-C, say how to go on, and end."""

    def end() -> None:
        typer.echo("dragoman: stopped; type the same command to go on", err=True)
        # At once: threads of an engine that come back into an ending Python would abort it. Nothing
        # is lost, for all that is kept appears in one move.
        os._exit(Stopped.exit_code)

    def stop(*_: object) -> None:
        # A library may swallow the exception, as some do while they are imported.
        timer = threading.Timer(2.0, end)
        timer.daemon = True
        timer.start()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except KeyboardInterrupt:
        end()
    finally:
        signal.signal(signal.SIGINT, before)


@app.command()
@_stoppable()
def prepare(
    recipe: Annotated[Path, typer.Argument(help="A recipe file.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Change settings, as corpus.longest=100."),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Processes to use; 0: one for each core.")
    ] = 0,
    cluster: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Run on the Ray cluster at this address.")
    ] = "",
) -> None:
    """Clean, deduplicate, split and encode your corpus; run it again and it goes on."""
    with _needs("preparing a corpus", "prepare"):
        from dragoman.workflow import preparation
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description:<17}"), BarColumn(), MofNCompleteColumn())
    with Bar(*columns, TextColumn("{task.fields[rate]}"), TimeRemainingColumn()) as bar:
        shown: dict[str, TaskID] = {}
        for stage, done, total in preparation.prepare(
            recipe, settings or [], workers=workers, cluster=cluster
        ):
            if stage not in shown:
                shown[stage] = bar.add_task(stage, total=total, rate="")
            speed = bar.tasks[shown[stage]].speed
            bar.update(shown[stage], completed=done, rate=f"{speed:.1f}/s" if speed else "")
    typer.echo(preparation.summary(recipe, settings or []), nl=False)


@app.command()
def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe file.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Change settings, as training.steps=500."),
    ] = None,
) -> None:
    """Train on what was prepared; run it again and it goes on where it was."""
    with _needs("training", "train"):
        from dragoman.workflow import training
    from dragoman.display import show_training
    from dragoman.recipe_file import load_recipe

    most = load_recipe(recipe, settings or []).training
    show_training(training.train(recipe, settings or []), most.steps, most.minutes)


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="A folder for the recipe; it may be new.")],
    source: Annotated[
        Path | None, typer.Option(help="The source, or one file that holds both sides.")
    ] = None,
    target: Annotated[Path | None, typer.Option(help="The target, aligned line by line.")] = None,
    languages: Annotated[
        str, typer.Option(metavar="EN-DE", help="Source and target; guessed where not said.")
    ] = "",
    format: Annotated[str, typer.Option(help="The format; told by the ending if not said.")] = "",
    demo: Annotated[
        bool, typer.Option("--demo", help="Numbers, dates and times, English to German.")
    ] = False,
) -> None:
    """Look at your files, show five pairs, and write a recipe that fits them."""
    with _needs("looking at a corpus", "prepare"):
        from dragoman.workflow import preparation

    if demo:
        _say_next(preparation.init_demo(folder))
        return
    if source is None:
        raise DataError("name your text with --source and --target, or take ours with --demo")
    path, seen = preparation.init(
        folder, [source, target] if target else [source], languages, format
    )
    typer.echo(f"{seen.pairs:,} pairs, {seen.rejects:,} rows that cannot be read. The first:\n")
    for pair in seen.examples:
        lines = (f"  {seen.source}  {pair.source}", f"  {seen.target}  {pair.target}")
        typer.echo("\n".join(map(_printable, lines)) + "\n")
    _say_next(path)


def _say_next(recipe: Path) -> None:
    typer.echo(f"Wrote {recipe}. Read it, then type: dragoman prepare {shlex.quote(str(recipe))}")


@corpus.command("show")
def show_pairs(
    files: Annotated[list[Path], typer.Argument(help="A corpus file, two of them, or a folder.")],
    count: Annotated[int, typer.Option(min=1, help="How many pairs.")] = 10,
    start: Annotated[int, typer.Option(min=1, help="The first pair to show.")] = 1,
    languages: Annotated[str, typer.Option(metavar="EN-DE", help="Source and target.")] = "en-de",
    format: Annotated[str, typer.Option(help="The format; told by the ending if not said.")] = "",
) -> None:
    """Print pairs, one below the other, from any format or a prepared folder."""
    with _needs("reading a corpus", "prepare"):
        from dragoman.workflow import preparation

    for number, first, second in preparation.pairs(files, start, count, languages, format):
        typer.echo(f"{number:>8}  {_printable(first)}\n{'':>8}  {_printable(second)}\n")


def _printable(text: str) -> str:
    """Text of a corpus may hold anything; a terminal obeys some of it."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


@contextmanager
def _needs(job: str, extra: str) -> Iterator[None]:
    """Say what to install where a package of an extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name and not error.name.startswith("dragoman"):
            raise MissingExtraError(job, error.name, extra) from None
        raise


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
