"""Show the progress and the result of translating a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dragoman.storage.mirror import path_text
from dragoman.workflow.text_files import TextFilesResult
from dragoman.workflow.translation import TranslationProgress, TranslationResult


def _console() -> Console:
    return Console(stderr=True, highlight=False, markup=False)


@contextmanager
def translation_progress() -> Iterator[Callable[[TranslationProgress], None]]:
    """Show a progress bar; yield the function that moves it.

    The bar appears with the first progress, so that an error before it is printed without a bar.
    """
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=_console())
    lines = 0

    def on_progress(progress: TranslationProgress) -> None:
        nonlocal lines
        if not bar.tasks:
            bar.add_task("", total=None, rate="")
            bar.start()
        task = bar.tasks[0]
        lines += progress.new_lines
        seconds = task.elapsed or 0
        rate = f"{lines / seconds:,.0f} lines/s" if lines and seconds else ""
        bar.update(task.id, completed=progress.done_bytes, total=progress.total_bytes, rate=rate)

    try:
        yield on_progress
    finally:
        if bar.tasks:
            bar.stop()


def show_translation(result: TranslationResult) -> None:
    """Print where the translation is, with which engine it was made, and its flags."""
    card = result.card
    flags = [f"{count:,} {name}" for name, count in card.flags.items()]
    lines = "1 line" if card.lines == 1 else f"{card.lines:,} lines"
    summary = "; ".join([f"{lines}, engine {card.engine}", *flags])
    if result.was_complete:
        summary = "already complete; nothing to do"
    _console().print(f"{path_text(result.path)}: {summary}", soft_wrap=True)


def show_text_files(result: TextFilesResult) -> None:
    """Print where the translations are, and what they took."""
    card = result.card
    files = "1 file" if card.files == 1 else f"{card.files:,} files"
    flags = [f"{count:,} {name}" for name, count in card.flags.items()]
    hosts = "1 machine" if len(card.hosts) == 1 else f"{len(card.hosts)} machines"
    per_sentence = 1000 * card.cpu_seconds / max(1, card.sentences)
    cost = f"{card.cpu_seconds:,.0f} CPU seconds ({per_sentence:.2f} ms per sentence)"
    summary = "; ".join(
        [
            f"{files}, {card.lines:,} lines, engine {card.engine}",
            f"{cost}, {card.seconds:,.0f} seconds, {hosts}",
            *flags,
        ]
    )
    if result.was_complete:
        summary = f"{files}: already complete; nothing to do"
    console = _console()
    console.print(f"{path_text(result.folder)}: {summary}", soft_wrap=True)
    console.print(f"Card: {path_text(result.card_path)}", soft_wrap=True)
