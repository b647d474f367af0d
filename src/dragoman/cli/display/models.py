"""Terminal output of `dragoman models`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from dragoman.adaptation.versions import DataFile, TestSet
from dragoman.cli.console import printable
from dragoman.workflow.models import (
    SettingDifference,
    TextDifference,
    VersionComparison,
    VersionList,
    VersionSummary,
)

_TEST_SETS: dict[TestSet, str] = {"in_domain": "in-domain", "general": "general"}
_NONE = "–"


def show_versions(versions: VersionList) -> None:
    """Print a table of the versions, and the rollbacks below it."""
    table = _table("N", "state", "created (UTC)", "method")
    for column in ("from", "in-domain\nBLEU", "general\nBLEU", "size"):
        table.add_column(column, justify="right", no_wrap=True)
    for version in versions.versions:
        table.add_row(*_cells(version), style="bold" if version.is_current else "")
    console = _console()
    console.print(table)
    console.print("\n* The current version.")
    for record in versions.rollbacks:
        who = printable(record.accepted_by)
        console.print(
            f"  {_time(record.created)}: rolled back from {record.parent} "
            f"to {record.number} by {who}"
        )


def show_comparison(comparison: VersionComparison) -> None:
    """Print what differs between two versions."""
    console = _console()
    for number, part in enumerate(_parts(comparison)):
        if number:
            console.print()
        console.print(part)


def _cells(version: VersionSummary) -> Iterator[str]:
    record = version.record
    yield f"{'*' if version.is_current else ' '} {record.number}"
    yield record.state
    yield _time(record.created)
    yield printable(record.method)
    yield str(record.parent) if record.parent is not None else _NONE
    for test_set in _TEST_SETS:
        yield _score(version.scores.get((test_set, "BLEU")))
    yield _size(version.size)


def _parts(comparison: VersionComparison) -> Iterator[RenderableType]:
    names = [f"version {record.number}" for record in (comparison.first, comparison.second)]
    if comparison.scores:
        yield _score_table(comparison, names)
    else:
        yield Text("Neither version was tested.")
    for name, files in zip(
        names, (comparison.only_first_data, comparison.only_second_data), strict=True
    ):
        if files:
            yield _data_table(f"learned only by {name}", files)
    if not comparison.only_first_data and not comparison.only_second_data:
        yield Text("Both versions learned the same data.")
    if comparison.settings:
        yield _settings_table(comparison.settings, names)
    else:
        yield Text("Both versions have the same settings.")
    if comparison.lines is not None:
        yield _text_table(comparison, names)


def _score_table(comparison: VersionComparison, names: Sequence[str]) -> Table:
    table = _table("test set", "metric")
    for column in (*names, "difference"):
        table.add_column(column, justify="right", no_wrap=True)
    for (test_set, metric), (first, second) in comparison.scores.items():
        difference = _NONE
        if first is not None and second is not None:
            difference = f"{second - first:+.1f}"
        table.add_row(_TEST_SETS[test_set], metric, _score(first), _score(second), difference)
    return table


def _data_table(title: str, files: Sequence[DataFile]) -> Table:
    table = _table(title)
    table.add_column("pairs", justify="right", no_wrap=True)
    table.add_column("SHA-256", no_wrap=True)
    for file in files:
        table.add_row(printable(file.name), f"{file.pairs:,}", file.sha256[:12])
    return table


def _settings_table(settings: Sequence[SettingDifference], names: Sequence[str]) -> Table:
    table = _table("setting", *names)
    for setting in settings:
        values = (printable(value) or _NONE for value in (setting.first, setting.second))
        table.add_row(setting.path, *values)
    return table


def _text_table(comparison: VersionComparison, names: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, title_justify="left", title_style="")
    table.title = f"Lines that differ: {len(comparison.texts):,} of {comparison.lines:,}"
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for text in comparison.texts:
        for label, shown in _text_rows(text, names):
            table.add_row(label, printable(shown))
    return table


def _text_rows(text: TextDifference, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "", ""
    yield "", f"line {text.line:,}"
    yield "  source", text.source
    yield f"  {names[0]}", text.first
    yield f"  {names[1]}", text.second


def _table(*columns: str) -> Table:
    # The list of versions needs nearly all of 80 columns.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _console() -> Console:
    # Names of files and text are not markup.
    return Console(highlight=False, markup=False, emoji=False)


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def _score(value: float | None) -> str:
    return f"{value:.1f}" if value is not None else _NONE


def _size(count: int | None) -> str:
    if count is None:
        return "removed"
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return (
                f"{count / unit:.1f} {name}" if count < 10 * unit else f"{count / unit:.0f} {name}"
            )
    return f"{count} B"
