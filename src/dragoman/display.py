"""What does a person see while a model learns?

A line that moves, on a terminal, and a line that stays for everything worth remembering. Where
nobody looks (a file, a pipe) only lines that stay. Under torchrun the first rank speaks for all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

if TYPE_CHECKING:
    from dragoman.training.trainer import Event, Learned


class _TimeLeft(ProgressColumn):
    """By steps, or by the minutes that the recipe allows, whichever ends first."""

    def __init__(self, minutes: float) -> None:
        super().__init__()
        self.minutes = minutes

    def render(self, task: Task) -> Text:
        """Say it, or nothing while it is not known."""
        seconds = [] if task.time_remaining is None else [task.time_remaining]
        if self.minutes and task.elapsed is not None:
            seconds.append(max(60 * self.minutes - task.elapsed, 0))
        return Text(f"{timedelta(seconds=round(min(seconds)))} left" if seconds else "")


def show_training(events: Iterable[Event], steps: int, minutes: float) -> None:
    """Print what happens, until it is over."""
    if int(os.environ.get("RANK", "0")):
        for _ in events:
            pass
        return
    console = Console(highlight=False)
    columns = (TextColumn("{task.completed:,}/{task.total:,}"), BarColumn(bar_width=12))
    facts = TextColumn("{task.fields[facts]}")
    with Progress(*columns, facts, _TimeLeft(minutes), console=console) as bar:
        task = bar.add_task("", total=steps, facts="")
        for event in events:
            name = type(event).__name__
            if name == "Learned":
                words = _learned(event)  # type: ignore[arg-type]
                bar.update(task, completed=event.step, facts=words)
                if not console.is_terminal:
                    console.print(f"{event.step:>9,}  {words}")
            elif name == "Validated":
                scores = event.scores  # type: ignore[union-attr]
                best = "  best so far" if event.is_best else ""  # type: ignore[union-attr]
                console.print(
                    f"{event.step:>9,}  development: loss {scores.loss:.3f}, "
                    f"BLEU {scores.bleu:.1f}{best}"
                )
            else:
                console.print(f"{event.step:>9,}  {event.words}")  # type: ignore[union-attr]


def _learned(event: Learned) -> str:
    return (
        f"loss {event.loss:.3f}  lr {event.learning_rate:.1e}  {event.tokens_per_second:,.0f} tok/s"
    )
