"""`dragoman adapt`: adapt a model to your text, and accept it only if it is better."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.console import is_setting, needs, split_settings, stoppable
from dragoman.cli.help import Command
from dragoman.errors import DataError, RefusedError

if TYPE_CHECKING:
    from dragoman.corpus.filter import Pair
    from dragoman.workflow.adaptation import AdaptationResult

_SEVERAL = ("--data", "--test", "--general")


class AdaptCommand(Command):
    """Lets several files follow one option: `--data memory.tmx messages.po`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each of its files."""
        return super().parse_args(ctx, repeat_options(args))


def repeat_options(arguments: list[str], options: Sequence[str] = _SEVERAL) -> list[str]:
    """Write `--data a b` as `--data a --data b`; settings (key=value) are not files."""
    repeated: list[str] = []
    option, has_value = "", False
    for argument in arguments:
        if argument.startswith("-"):
            option, has_value = (argument if argument in options else ""), False
        elif option and not is_setting(argument):
            if has_value:
                repeated.append(option)
            has_value = True
        repeated.append(argument)
    return repeated


@stoppable()
def adapt(
    run: Annotated[Path, typer.Argument(help="Model to adapt: a run, or a model with versions.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help="Settings to change, for example adaptation.method=full.",
        ),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE...", help="New pairs: TMX, PO, XLIFF, TSV, ..., or two texts."),
    ] = None,
    suggestions: Annotated[
        Path | None,
        typer.Option(metavar="STATE", help="State of a server: learn its approved suggestions."),
    ] = None,
    test: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE...", help="Trusted in-domain pairs for the tests (first time only)."
        ),
    ] = None,
    general: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE...", help="Pairs of general text to replay and test; none = no such text."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder of the adapted model (default: RUN, if it has versions)."
        ),
    ] = None,
    glossary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Terms to learn, a TSV or CSV file.")
    ] = None,
    minutes: Annotated[
        float, typer.Option(min=0, help="Maximum training time in minutes (0 = unlimited).")
    ] = 30.0,
    keep_work: Annotated[
        bool, typer.Option("--keep-work", help="Keep the prepared data and the checkpoints.")
    ] = False,
) -> None:
    """Adapt a model to your text. It replaces its parent only if tests say that it is better.

    Run it again to resume.

    Examples:
      dragoman adapt run --data memory.tmx --test ok.tsv --general news.tsv -o new
      dragoman adapt new --data a.po b.tsv --general news.tsv --minutes 10
      dragoman adapt new --suggestions state --general news.tsv
      dragoman adapt new --data a.tsv --general none adaptation.method=full
    """
    with needs("adapting a model", "all"):
        from dragoman.training.device import keep_memory
        from dragoman.workflow import adaptation
    from dragoman.cli.display.adaptation import AdaptationDisplay

    others, changes = split_settings(settings or [])
    if others:
        raise DataError(
            f"found {others[0]!r} after the model, expected key=value; give files with --data"
        )
    if not data and suggestions is None:
        raise DataError(
            "no data; give your pairs with --data FILES, or the state of a server with "
            "--suggestions STATE"
        )
    approved = _approved_pairs(suggestions, run) if suggestions is not None else []
    is_none = [str(path) for path in general or ()] == ["none"]
    keep_memory()
    with AdaptationDisplay() as display, needs("adapting a model", "all"):
        result = adaptation.adapt(
            run,
            data or (),
            suggestions=approved,
            output=output,
            test=test or (),
            general="none" if is_none else general or (),
            glossary=glossary,
            minutes=minutes,
            settings=changes,
            keep_work=keep_work,
            on_progress=display.show,
        )
        display.show_result(result)
    if not result.report.is_accepted:
        raise RefusedError(_refusal(result))


def _approved_pairs(state: Path, run: Path) -> list[Pair]:
    """Read the approved suggestions of the model's language pair."""
    from dragoman.artifact import read_artifact, resolve_model
    from dragoman.serving.state import State
    from dragoman.serving.suggestion_export import approved_pairs

    languages = read_artifact(resolve_model(run)).recipe.languages
    opened = State(state, must_exist=True)
    try:
        return approved_pairs(opened, languages)
    finally:
        opened.close()


def _refusal(result: AdaptationResult) -> str:
    names = ", ".join(rule.name for rule in result.report.gate.failed)
    folder = os.path.relpath(result.version)
    return (
        f"version {result.record.number} was refused ({names}); it is kept in "
        f"{shlex.quote(folder)}, and version {result.record.parent} is still the current one"
    )
