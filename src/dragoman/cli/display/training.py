"""What a user sees while a model is trained.

A terminal shows a progress bar, which moves at every update, and below each other the lines that
stay. A file or a pipe gets the lines only. Under torchrun only the main rank prints.
"""

from __future__ import annotations

import os
from datetime import timedelta
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from dragoman.cli.console import counted
from dragoman.training.events import (
    Message,
    TrainingEvent,
    TrainingProgress,
    TrainingSummary,
    UpdateCompleted,
    ValidationResult,
)


class TrainingDisplay:
    """Prints training events; use it as a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self.is_silent = int(os.environ.get("RANK", "0")) > 0
        self._bar = Progress(
            TextColumn("{task.completed:,} of {task.total:,}"),
            BarColumn(bar_width=5),
            TextColumn("{task.fields[facts]}"),
            TextColumn("{task.fields[times]}"),
            console=self.console,
            disable=self.is_silent,
        )
        self._task: TaskID | None = None
        self._losses = ""
        self._bleu = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._task is not None:  # Stopping a bar that never started prints an empty line.
            self._bar.stop()

    def print(self, text: str) -> None:
        """Print a line that stays above the bar; only the terminal breaks a long one."""
        if not self.is_silent:
            self.console.print(text, markup=False, soft_wrap=True)

    def show(self, event: TrainingEvent) -> None:
        """Show one event."""
        if self.is_silent:
            return
        match event:
            case TrainingSummary():
                self._start(event)
            case UpdateCompleted(step, elapsed, left):
                times = f"{_duration(elapsed)}, {_duration(left)} left"
                self._update(completed=step, times=times)
            case TrainingProgress(step, loss, rate, _, speed):
                self._losses = f"training loss {loss:.3f} lr {rate:.1e} {speed:,.0f} tok/s"
                self._update(facts=self._losses + self._bleu)
                if not self.console.is_terminal:
                    self._line(step, self._losses + self._bleu)
            case ValidationResult(step, scores, is_best):
                self._bleu = f" BLEU {scores.bleu:.1f}"
                if scores.general_bleu is not None:
                    self._bleu += f" (general {scores.general_bleu:.1f})"
                self._update(facts=self._losses + self._bleu)
                best = ", best so far" if is_best else ""
                self._line(
                    step, f"validation loss {scores.loss:.3f} (not smoothed){self._bleu}{best}"
                )
            case Message(step, text):
                self._line(step, text)

    def _start(self, summary: TrainingSummary) -> None:
        limit = f", at most {summary.minutes:g} min" if summary.minutes else ""
        device = summary.device
        if device == "cpu":
            device = f"cpu (no GPU found), {counted(summary.threads, 'thread')}"
        ranks = f", {summary.world_size} processes" if summary.world_size > 1 else ""
        self._line(
            summary.step,
            f"model: {summary.model}, {_size(summary.parameters)} parameters\n"
            f"data: {counted(summary.pairs, 'sentence pair')}\n"
            f"device: {device}{ranks}, {summary.precision}\n"
            f"updates: {summary.steps:,}{limit}",
        )
        if 0 < summary.step < summary.steps:
            self._line(summary.step, f"resuming at update {summary.step:,}")
        self._task = self._bar.add_task(
            "", total=summary.steps, completed=summary.step, facts="", times=""
        )
        self._bar.start()

    def _update(self, **fields: object) -> None:
        if self._task is not None:
            self._bar.update(self._task, **fields)  # type: ignore[arg-type]

    def _line(self, step: int, text: str) -> None:
        """Print a line, or several, behind the number of the update."""
        first, *rest = text.split("\n")
        self.print("\n".join([f"{step:>9,}  {first}", *(11 * " " + line for line in rest)]))


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _size(number: int) -> str:
    return f"{number / 1e6:.1f} M" if number >= 100_000 else f"{number:,}"
