"""What does a person see of an evaluation?

Scores with their intervals first, then what confuses the model and what it has cost; at the end,
in full, what others need to repeat the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dragoman.evaluation.compare import Comparison
from dragoman.evaluation.metrics import LOWER_IS_BETTER, Score
from dragoman.evaluation.robustness import Row
from dragoman.workflow.evaluation import Evaluation, System

_LUCK = 0.05
"""From here on, a difference may be luck."""
_INDENT = "  "


def show_evaluation(evaluation: Evaluation) -> None:
    """Print everything that was found out."""
    # Names of folders and placeholders are no markup.
    console = Console(highlight=False, markup=False, emoji=False)
    for part in _parts(evaluation, console.width):
        console.print(part)


def _parts(evaluation: Evaluation, width: int) -> Iterator[RenderableType]:
    first, *others = evaluation.systems
    source, *_ = evaluation.files
    yield Text(f"{evaluation.sentences:,} sentences of {source}", overflow="fold")
    if others:
        yield _compared(evaluation)
        yield Text(f"p: how often luck alone would make them differ so much from {first.name}\n")
    else:
        yield _scored(first)
    yield from (Text(f"! {note}\n", style="bold") for note in evaluation.notes)
    if evaluation.robustness:
        yield _confused(evaluation.robustness)
    yield from map(_about, evaluation.systems)
    yield _signatures(evaluation, width)


def _scored(system: System) -> Table:
    table = _table(system.name, *_NUMBERS)
    for score in system.scores:
        table.add_row(_label(score), *_numbers(score))
    return table


def _compared(evaluation: Evaluation) -> Table:
    """A block for each score, with a line for each system."""
    table = _table("", *_NUMBERS, "p", "")
    compared = {(each.system, each.score.name): each for each in evaluation.comparisons}
    for place, first in enumerate(evaluation.systems[0].scores):
        table.add_row(_label(first), style="bold")
        for system in evaluation.systems:
            name = Padding(system.name, (0, 0, 0, len(_INDENT)))
            verdict = _verdict(compared[system.name, first.name], first)
            table.add_row(name, *_numbers(system.scores[place]), *verdict)
        table.add_section()
    return table


def _verdict(comparison: Comparison, first: Score) -> tuple[str, str]:
    """The chance of luck, and what follows from it."""
    if comparison.p_value is None:
        return "", ""
    score = comparison.score
    is_higher = score.value > first.value
    words = "better" if is_higher != (score.name in LOWER_IS_BETTER) else "worse"
    if comparison.p_value >= _LUCK or score.value == first.value:
        words = "may be luck"
    return f"{comparison.p_value:.4f}", words


def _confused(rows: Sequence[Row]) -> Table:
    table = _table("trouble", "asked", "found", "", "plain", "loss")
    table.columns[3].justify = "left"
    for row in rows:
        plain, loss = (f"{each:.1f}" if each is not None else "" for each in (row.plain, row.loss))
        score = f"{row.score:.1f}" if row.score is not None else "–"
        table.add_row(row.name, f"{row.count:,}", score, row.measured, plain, loss)
    return table


def _about(system: System) -> Text:
    flags = ", ".join(f"{count:,} {flag}" for flag, count in system.flags.items())
    lines = [
        system.name,
        f"{_INDENT}cost: {system.cost.summary if system.cost else 'unknown, it has no card'}",
        f"{_INDENT}flags: {flags or 'none'}",
    ]
    return Text("\n".join(lines) + "\n", overflow="fold")


def _signatures(evaluation: Evaluation, width: int) -> Text:
    """Each in full, cut at its bars where it is too long for a line."""
    scores = {each.signature: each.name for each in evaluation.systems[0].scores}
    tests = {each.score.signature: f"{each.score.name}, p" for each in evaluation.comparisons}
    room = width - len(_INDENT)
    lines = ["signatures"]
    # Of a bootstrap, score and test have the same.
    for signature, name in (scores | tests | scores).items():
        cut = re.findall(rf".{{1,{room}}}$|.{{1,{room - 1}}}\|", signature)
        lines += [_INDENT + line for line in (f"{name}:", *cut)]
    return Text("\n".join(lines), overflow="fold")


def _label(score: Score) -> str:
    return f"{score.name}, lower is better" if score.name in LOWER_IS_BETTER else score.name


_NUMBERS = ("score", "95 % interval")


def _numbers(score: Score) -> tuple[str, str]:
    low, high = score.interval or (score.value, score.value)
    return f"{score.value:.2f}", f"{low:.2f} – {high:.2f}"


def _table(first: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
