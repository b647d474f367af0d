"""`dragoman doctor`: examine the machine and the installation."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dragoman.workflow.diagnosis import Check

_MARKS = {"ok": "ok", "advice": "->", "problem": "!!"}
_COLORS = {"ok": "green", "advice": "yellow", "problem": "red"}
_INDENT = 19
_WIDTH = 80


def doctor(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the findings as JSON, for programs.")
    ] = False,
) -> None:
    """Examine Python, PyTorch, CPU, GPU, memory and extras; say what would help.

    The exit code is 1 if there is a problem, and 0 if there is at most advice.

    Examples:
      dragoman doctor
      dragoman doctor --json
    """
    from dragoman.workflow.diagnosis import diagnose

    checks = diagnose(Path())
    if as_json:
        typer.echo(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        for check in checks:
            _print(check)
    if any(check.status == "problem" for check in checks):
        raise typer.Exit(1)


def _print(check: Check) -> None:
    mark = typer.style(_MARKS[check.status], fg=_COLORS[check.status], bold=True)
    typer.echo(f" {mark}  {check.name:<14}{_wrap(check.result)}")
    if check.advice:
        typer.echo(" " * _INDENT + _wrap(check.advice))


def _wrap(text: str) -> str:
    """Fill lines up to the width of a terminal; later lines begin below the findings."""
    lines = textwrap.wrap(text, _WIDTH - _INDENT, break_long_words=False, break_on_hyphens=False)
    return f"\n{' ' * _INDENT}".join(lines)
