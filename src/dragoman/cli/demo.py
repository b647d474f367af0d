"""`dragoman demo`: from nothing to a translator that explains itself, in minutes."""

from __future__ import annotations

import shlex
import sys
import time
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.console import needs, printable, stoppable

_STEPS = 5


@stoppable()
def demo(
    folder: Annotated[Path, typer.Argument(help="Folder for everything; created if missing.")] = (
        Path("demo")
    ),
    no_input: Annotated[
        bool,
        typer.Option("--no-input", help="Ask nothing, open nothing, and start no server."),
    ] = False,
) -> None:
    """Train a small translator on generated text, score it, and look inside.

    It takes about three minutes on two cores. Nothing is downloaded. Run it again to continue
    after an interruption, or to translate another sentence.

    Examples:
      dragoman demo
      dragoman demo --no-input
    """
    with needs("the demo", "all"):
        from dragoman.cli.display.explanation import show_explanation
        from dragoman.training.device import keep_memory
        from dragoman.workflow import demonstration, explanation

    is_asking = not no_input and sys.stdin.isatty()
    start = time.monotonic()
    keep_memory()
    _heading(1, "A corpus of numbers, dates, times and prices, English to German")
    recipe = demonstration.make_corpus(folder)
    for source, target in demonstration.examples(folder):
        typer.echo(f"  {source}\n    {target}")
    _heading(2, "Prepare: learn a vocabulary, write token ids")
    _prepare(recipe)
    _heading(3, "Train a Transformer")
    run = _train(recipe)
    _heading(4, "Score: sentences that the model has never seen")
    match = demonstration.score(run, folder)
    typer.echo(
        f"  {match.exact:,} of {match.total:,} translated exactly "
        f"({match.exact / match.total:.1%}). {(time.monotonic() - start) / 60:.1f} minutes so far."
    )
    _heading(5, "Translate a sentence, and look inside")
    sentence = demonstration.SENTENCE
    if is_asking:
        typer.echo("  The model knows only numbers, dates, times and prices.")
        sentence = typer.prompt("  English", default=sentence)
    result = explanation.explain(run, sentence)
    page = folder / "explanation.html"
    result.save(page)
    show_explanation(result, page)
    if is_asking:
        webbrowser.open(page.absolute().as_uri())
    _print_next(folder, run)
    if is_asking and typer.confirm("Start the server now?", default=False):
        from dragoman.cli.app import app

        app(["serve", str(run)], prog_name="dragoman")


def _heading(number: int, text: str) -> None:
    typer.secho(f"\n{number}/{_STEPS}  {text}", bold=True)


def _prepare(recipe: Path) -> None:
    from dragoman.cli.display.preparation import PreparationDisplay
    from dragoman.workflow import preparation

    with needs("the demo", "all"), PreparationDisplay() as display:
        result = preparation.prepare(recipe, on_progress=display.show)
    typer.echo(f"  {result.report.splits.train:,} pairs to train on.")


def _train(recipe: Path) -> Path:
    from dragoman.cli.display.training import TrainingDisplay
    from dragoman.workflow import training

    with needs("the demo", "all"), TrainingDisplay() as display:
        result = training.train(recipe, on_progress=display.show)
    return _short(result.folder)


def _short(path: Path) -> Path:
    """Name a path as a user would type it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _print_next(folder: Path, run: Path) -> None:
    name = shlex.quote(printable(str(run)))
    typer.echo(f"\nEverything is in {folder}. What to type next:")
    commands = {
        "translate more": f"dragoman translate {name}",
        "a page and an API": f"dragoman serve {name}",
        "BLEU, chrF, TER": f"dragoman evaluate {name}",
        "your own text": "dragoman init mine --source FILE --target FILE",
    }
    for purpose, command in commands.items():
        typer.echo(f"  {purpose:<20}{command}")
