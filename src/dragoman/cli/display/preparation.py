"""What a user sees while a corpus is prepared: a bar for each stage, with speed and time left."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.progress import TimeRemainingColumn as TimeRemaining

from dragoman.corpus.runner import PreparationProgress


class PreparationDisplay:
    """Shows the progress of all stages; use it as a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        columns = (TextColumn("{task.description:<17}"), BarColumn(), MofNCompleteColumn())
        # The tasks of a stage may take a minute each, so the speed is that of the last ten minutes.
        rate = TextColumn("{task.fields[rate]}")
        self._bar = Progress(
            *columns, rate, TimeRemaining(), console=console, speed_estimate_period=600
        )
        self._rows: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._rows:  # Stopping a bar that never started would print an empty line.
            self._bar.stop()

    def show(self, progress: PreparationProgress) -> None:
        """Show how far a stage is."""
        if not self._rows:
            self._bar.start()
        if progress.stage not in self._rows:
            # What exists already must not count as speed.
            self._rows[progress.stage] = self._bar.add_task(
                progress.stage, total=progress.total, completed=progress.done, rate=""
            )
        row = self._rows[progress.stage]
        self._bar.update(row, completed=progress.done)
        speed = self._bar.tasks[row].speed
        unit = "" if progress.unit == "tasks" else f" {progress.unit}"
        self._bar.update(row, rate=f"{speed:,.1f}{unit}/s" if speed else "")
