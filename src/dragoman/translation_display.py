"""What does a person see while a file is translated?"""

from __future__ import annotations

import json

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dragoman.workflow.translation import Job


def show_translation(job: Job) -> None:
    """Translate, with a bar on a terminal, and say how it went."""
    console = Console(stderr=True, highlight=False, markup=False)
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[rate]}"),
    )
    lines, was_done = 0, False
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bar:
        shown = bar.add_task("", total=None, rate="")
        for step in job.run():
            was_done = step.was_done
            lines += step.lines
            seconds = bar.tasks[shown].elapsed or 0
            rate = f"{lines / seconds:,.0f} lines/s" if lines and seconds else ""
            bar.update(shown, completed=step.done, total=step.total, rate=rate)
    card = json.loads(job.card.read_text(encoding="utf-8"))
    flags = [f"{count:,} {name}" for name, count in card["flags"].items()]
    told = "; ".join([f"{card['lines']:,} lines by {card['engine']}", *flags])
    console.print(
        f"{job.place}: {'was complete; nothing to do' if was_done else told}", soft_wrap=True
    )
