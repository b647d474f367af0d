"""What does a person see while a model learns?

A line that moves, on a terminal, and a line that stays for everything worth remembering. Where
nobody looks (a file, a pipe) only lines that stay. Under torchrun the first rank speaks for all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from dragoman.training.trainer import Event, Learned, Told, Validated


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
    columns = (TextColumn("{task.completed:,} of {task.total:,}"), BarColumn(bar_width=5))
    facts, bleu = TextColumn("{task.fields[facts]}"), ""
    with Progress(*columns, facts, _TimeLeft(minutes), console=console) as bar:
        task = bar.add_task("", total=steps, facts="")
        for event in events:
            match event:
                case Learned(step, loss, rate, _, speed):
                    words = f"loss {loss:.3f} lr {rate:.1e} {speed:,.0f} tok/s{bleu}"
                    bar.update(task, completed=step, facts=words)
                    if not console.is_terminal:
                        console.print(f"{step:>9,}  {words}")
                case Validated(step, scores, is_best):
                    bleu = f" BLEU {scores.bleu:.1f}"
                    best = "  best so far" if is_best else ""
                    words = f"development: loss {scores.loss:.3f}{bleu}{best}"
                    console.print(f"{step:>9,}  {words}")
                case Told(step, words):
                    below = "\n" + 11 * " "
                    console.print(f"{step:>9,}  {words.replace(chr(10), below)}")
