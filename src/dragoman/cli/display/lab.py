"""Print the list of claims and the findings of the lab in a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from dragoman.lab.catalog import ClaimEntry
from dragoman.lab.lectures import LECTURES

if TYPE_CHECKING:  # It imports matplotlib, which the list of claims does not need.
    from dragoman.lab.finding import Finding

_STYLES = {
    "supported": "bold green",
    "partly supported": "bold yellow",
    "not supported": "bold red",
    "inconclusive": "bold",
}


def show_claims(entries: Iterable[ClaimEntry]) -> None:
    """Print one line per claim, and the titles of the lectures."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("claim", no_wrap=True)
    table.add_column("title")
    table.add_column("lectures")
    table.add_column("quick", justify="right", no_wrap=True)
    table.add_column("full", justify="right", no_wrap=True)
    for entry in entries:
        quick, full = map(_duration, entry.durations)
        table.add_row(entry.number, entry.title, ", ".join(entry.lectures), quick, full)
    console.print(table)
    console.print()
    for short_form, title in LECTURES.items():
        console.print(f"{short_form:9}{title}")
    console.print("Durations are estimates for one core.")


def _duration(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"


def show_finding(finding: Finding) -> None:
    """Print the verdict, what was found, and the numbers."""
    console = Console(highlight=False)
    console.print(f"[bold]{finding.number}[/]  {escape(finding.claim)}", soft_wrap=False)
    style = _STYLES[finding.verdict]
    is_uncertain = finding.size == "quick" and not finding.is_seed_independent
    note = "quick run, may be due to chance; " if is_uncertain else ""
    console.print(
        Padding(f"[{style}]{finding.verdict}[/]. {escape(finding.summary)}", (0, 0, 0, 4))
    )
    numbers = f"{escape(finding.explanation)} ({note}{finding.seconds:.0f} s)"
    console.print(Padding(numbers, (0, 0, 1, 4)))
