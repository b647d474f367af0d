"""The entry point of the command `dragoman`: its commands, errors and exit codes.

A command parses its arguments, calls one function of `workflow/` and prints the result. Heavy
imports stay inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from dragoman import __version__
from dragoman.cli import corpus, keys, lab, models, suggestions
from dragoman.cli.adapt import AdaptCommand, adapt
from dragoman.cli.dashboard import dashboard
from dragoman.cli.demo import demo
from dragoman.cli.distill import DistillCommand, distill
from dragoman.cli.doctor import doctor
from dragoman.cli.evaluate import evaluate
from dragoman.cli.explain import explain
from dragoman.cli.export import export, import_model
from dragoman.cli.help import App
from dragoman.cli.init import init
from dragoman.cli.plan import plan
from dragoman.cli.prepare import prepare
from dragoman.cli.serve import serve
from dragoman.cli.show import show
from dragoman.cli.train import train
from dragoman.cli.translate import translate
from dragoman.errors import DragomanError

app = App(
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_INPUT_OUTPUT_ERROR = 74  # EX_IOERR of sysexits.h.


def main() -> None:
    """Run the command; print our own errors as text, and exit with their code."""
    try:
        app(prog_name="dragoman")
    except DragomanError as error:
        if "--debug" in sys.argv:
            raise
        exit_with(error)
    except OSError as error:
        if "--debug" in sys.argv or not error.strerror:
            raise
        path = f"{error.filename}: " if error.filename else ""
        typer.echo(f"dragoman: {path}{error.strerror}", err=True)
        sys.exit(_INPUT_OUTPUT_ERROR)


def exit_with(error: DragomanError) -> NoReturn:
    """Print an error and end the process with its code."""
    typer.echo(f"dragoman: {error}", err=True)
    if error.exits_at_once:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(error.exit_code)
    sys.exit(error.exit_code)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"dragoman {__version__}")
        raise typer.Exit


@app.callback()
def dragoman(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show log messages and the traceback of an error.")
    ] = False,
) -> None:
    """Train translation models on your own parallel text, use them, and inspect them.

    Examples:
      dragoman demo
      dragoman init first --source train.en --target train.de
      dragoman prepare first/recipe.yaml
      dragoman train first/recipe.yaml
      dragoman translate first/run
    """
    if debug:
        import logging

        logging.basicConfig(level=logging.INFO)


# Help lists the commands in this order: the order of work.
_START, _BUILD, _USE, _INSPECT = "Start", "Build", "Use", "Inspect"
app.command(rich_help_panel=_START)(demo)
app.command(rich_help_panel=_START)(init)
app.command(rich_help_panel=_START)(show)
app.command(rich_help_panel=_START)(plan)
app.command(rich_help_panel=_START)(doctor)
app.command(rich_help_panel=_BUILD)(prepare)
app.command(rich_help_panel=_BUILD)(train)
app.command(rich_help_panel=_BUILD)(evaluate)
app.command(rich_help_panel=_BUILD, cls=AdaptCommand)(adapt)
app.command(rich_help_panel=_BUILD, cls=DistillCommand)(distill)
app.command(rich_help_panel=_USE)(translate)
app.command(rich_help_panel=_USE)(serve)
app.add_typer(keys.app, name="keys", rich_help_panel=_USE)
app.add_typer(suggestions.app, name="suggestions", rich_help_panel=_USE)
app.add_typer(models.app, name="models", rich_help_panel=_USE)
app.command(rich_help_panel=_USE)(export)
app.command("import", rich_help_panel=_USE)(import_model)
app.command(rich_help_panel=_INSPECT)(dashboard)
app.command(rich_help_panel=_INSPECT)(explain)
app.add_typer(corpus.app, name="corpus", rich_help_panel=_INSPECT)
app.add_typer(lab.app, name="lab", rich_help_panel=_INSPECT)
