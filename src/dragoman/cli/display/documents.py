"""Show the progress and the summary of translated documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dragoman.cli.console import counted
from dragoman.workflow.documents import DocumentsProgress, DocumentsReport, DocumentSummary

_MAX_FLAGGED_LINES = 10
_FLAGS = {
    "spans_aligned": "placeholders placed by word alignment",
    "spans_in_pieces": "translated in pieces around the placeholders",
    "source_copied": "not translated: the source was copied",
    "message_copied": "the words in an ICU message were copied",
    "fuzzy_match": "translation of a similar text, from memory",
    "term_missing": "a term of the glossary is missing",
    "repetition": "the model repeats itself",
    "length": "unusual length",
}


def _console() -> Console:
    return Console(stderr=True, highlight=False, markup=False)


@contextmanager
def documents_progress() -> Iterator[Callable[[DocumentsProgress], None]]:
    """Show a progress bar over the documents; yield the function that moves it."""
    columns = (
        BarColumn(),
        TextColumn("{task.completed}/{task.total} documents"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=_console())

    def on_progress(progress: DocumentsProgress) -> None:
        if not bar.tasks:
            bar.add_task("", total=progress.total, rate="")
            bar.start()
        rate = f"{progress.document.name}: {counted(progress.units, 'text')}"
        bar.update(bar.tasks[0].id, completed=progress.number - 1, rate=rate)

    try:
        yield on_progress
        for task in bar.tasks:
            bar.update(task.id, completed=task.total)
    finally:
        if bar.tasks:
            bar.stop()


def show_documents(report: DocumentsReport, *, as_json: bool, is_dry: bool) -> None:
    """Print the summary: JSON on stdout, or text on stderr."""
    if as_json:
        typer.echo(report.model_dump_json(indent=1))
        return
    console = _console()
    for document in report.documents:
        console.print(_line(document, is_dry=is_dry), soft_wrap=True)
    if is_dry or len(report.documents) > 1:
        units, characters = report.total("units"), report.total("characters")
        console.print(
            f"{counted(len(report.documents), 'document')}: {counted(units, 'text')}, "
            f"{characters:,} characters{' to translate' if is_dry else ''}",
            soft_wrap=True,
        )
    flagged = [(document, unit) for document in report.documents for unit in document.flagged_units]
    for document, unit in flagged[:_MAX_FLAGGED_LINES]:
        reasons = "; ".join(_FLAGS.get(flag, flag) for flag in unit.flags)
        if unit.memory:
            reasons += f" ({unit.memory}, similarity {unit.score:.2f})"
        # A name or a path tells more than a line (all of a JSON file may be in one line).
        key = "" if unit.key.isdecimal() else f" ({unit.key})"
        console.print(f"  {document.source}:{unit.line}{key}: {reasons}", soft_wrap=True)
    if len(flagged) > _MAX_FLAGGED_LINES:
        rest = len(flagged) - _MAX_FLAGGED_LINES
        console.print(f"  and {rest:,} more; --json lists them", soft_wrap=True)


def _line(document: DocumentSummary, *, is_dry: bool) -> str:
    if document.error:
        return f"{document.source}: not translated. {document.error}"
    if document.was_complete:
        return f"{document.output}: already complete; nothing to do"
    texts = counted(document.units, "text")
    if is_dry:
        return f"{document.source}: {texts}, {document.characters:,} characters to translate"
    counts = [
        (document.machine, "machine-translated"),
        (document.memory, "from memory"),
        (document.fuzzy, "fuzzy matches"),
        (document.existing, "already translated"),
        (document.nothing, "without words"),
        (document.flagged, "flagged"),
    ]
    parts = [f"{count:,} {name}" for count, name in counts if count]
    if document.terms:
        terms = f"{document.terms_used:,} of {document.terms:,} terms used"
        parts.append(f"{terms} ({document.term_method})")
    return (
        f"{document.output}: {f'{texts}: ' + ', '.join(parts) if parts else 'nothing to translate'}"
    )
