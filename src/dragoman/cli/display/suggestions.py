"""Terminal output of `dragoman suggestions`: the list, and one suggestion with its difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dragoman.cli.console import printable
from dragoman.serving.stores.suggestions import STATUSES, Suggestion
from dragoman.serving.suggestion_checks import CheckedSuggestion

_MAX_CHARACTERS = 160
"""Of a text in the list; `review` shows all of it."""


def show_list(rows: Sequence[CheckedSuggestion], counts: Mapping[str, int]) -> None:
    """Print a table of suggestions, and below it how many there are of each status."""
    console = _console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("id", justify="right", no_wrap=True)
    for name in ("source", "machine", "suggestion"):
        table.add_column(name, overflow="fold", ratio=3)
    table.add_column("problems", overflow="fold", ratio=2)
    for row in rows:
        one = row.suggestion
        texts = map(_shortened, (one.source_text, one.machine_text, one.suggestion))
        table.add_row(str(one.id), *texts, ", ".join(row.problems))
    if rows:
        console.print(table)
        console.print()
    console.print(", ".join(f"{counts.get(status, 0):,} {status}" for status in STATUSES))


def show_suggestion(row: CheckedSuggestion, position: str, owner: str) -> None:
    """Print one suggestion with everything that helps to decide about it."""
    one = row.suggestion
    console = _console()
    console.rule(f"{one.id} ({position})", characters="-")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in _fields(one, owner):
        table.add_row(label, Text(text))
    if one.machine_text.strip():
        table.add_row("difference", _difference(one))
    table.add_row("problems", Text(", ".join(row.problems) or "none found", style="bold"))
    console.print(table)


def _fields(one: Suggestion, owner: str) -> Iterator[tuple[str, str]]:
    model = f", model {one.model}" if one.model else ""
    yield "sent", printable(f"{one.created:%Y-%m-%d %H:%M} UTC by {owner}{model}")
    yield f"{one.source}", printable(one.source_text)
    yield "machine", printable(one.machine_text) or "(not known)"
    yield f"{one.target}", printable(one.suggestion)


def _difference(one: Suggestion) -> Text:
    """Mark words that the person removed [-so-] and added {+so+}, with colors if there are any."""
    before, after = printable(one.machine_text).split(), printable(one.suggestion).split()
    text = Text()
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            text.append(" ".join(before[start:end]) + " ")
            continue
        if start < end:
            text.append(f"[-{' '.join(before[start:end])}-] ", style="red")
        if new_start < new_end:
            text.append(f"{{+{' '.join(after[new_start:new_end])}+}} ", style="green")
    return text


def _shortened(text: str) -> Text:
    shown = printable(" ".join(text.split()))
    if len(shown) > _MAX_CHARACTERS:
        shown = shown[: _MAX_CHARACTERS - 1] + "…"
    return Text(shown)


def _console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)
