"""Terminal output of `dragoman evaluate`.

The order is: scores with intervals, robustness, the worst sentences, training cost, and the
signatures that others need to reproduce the scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import TracebackType

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from dragoman.cli.console import counted, printable
from dragoman.evaluation.compare import Comparison
from dragoman.evaluation.metrics import LOWER_IS_BETTER, Score, SentenceScore
from dragoman.evaluation.result import Evaluation, EvaluationProgress, System
from dragoman.evaluation.robustness import RobustnessResult

_SIGNIFICANCE_LEVEL = 0.05
"""A difference with a p-value of this size or more may be chance."""
_INDENT = "  "
_SCORE_COLUMNS = ("score", "95 % interval")
_STAGES = {
    "load": "loading",
    "translate": "translating with",
    "score": "scoring",
    "compare": "comparing all runs",
    "robustness": "testing robustness of",
}


class EvaluationProgressBar:
    """A progress bar on standard error, which disappears at the end.

    It is not shown if standard error is not a terminal.
    """

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> EvaluationProgressBar:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def update(self, progress: EvaluationProgress) -> None:
        """Show how far the evaluation is."""
        self._progress.update(
            self._task,
            description=f"{_STAGES[progress.stage]} {progress.system}".strip(),
            completed=progress.done,
            # A stage of one step has no share to show: the bar pulses.
            total=progress.total if progress.total > 1 else None,
        )


def show_evaluation(evaluation: Evaluation) -> None:
    """Print the whole result."""
    # Folder names and placeholders such as [b] are not markup.
    console = Console(highlight=False, markup=False, emoji=False)
    for part in _parts(evaluation, console.width):
        console.print(part)


def _parts(evaluation: Evaluation, width: int) -> Iterator[RenderableType]:
    first, *others = evaluation.systems
    source, *_ = evaluation.files
    count = counted(evaluation.sentences, "sentence")
    yield Text(f"{count} of {source}", overflow="fold")
    if others:
        yield _comparison_table(evaluation)
        yield Text(
            f"p: probability that chance alone gives such a difference from {first.name}\n",
            overflow="fold",
        )
    else:
        yield _score_table(first)
    yield from (Text(f"! {note}\n", style="bold") for note in evaluation.notes)
    if evaluation.robustness:
        yield _robustness_table(evaluation.robustness)
    if evaluation.worst_sentences:
        yield _worst_sentences(evaluation.worst_sentences)
    yield from map(_about_system, evaluation.systems)
    yield _signatures(evaluation, width)


def _score_table(system: System) -> Table:
    table = _table(system.name, *_SCORE_COLUMNS)
    for score in system.scores:
        table.add_row(_label(score), *_score_cells(score))
    return table


def _comparison_table(evaluation: Evaluation) -> Table:
    """One block for each metric, one line for each system."""
    table = _table("", *_SCORE_COLUMNS, "p", "")
    comparisons = {
        (comparison.system, comparison.score.name): comparison
        for comparison in evaluation.comparisons
    }
    for position, baseline in enumerate(evaluation.systems[0].scores):
        table.add_row(_label(baseline), style="bold")
        for system in evaluation.systems:
            name = Padding(system.name, (0, 0, 0, len(_INDENT)))
            verdict = _verdict(comparisons[system.name, baseline.name], baseline)
            table.add_row(name, *_score_cells(system.scores[position]), *verdict)
        table.add_section()
    return table


def _verdict(comparison: Comparison, baseline: Score) -> tuple[str, str]:
    """The p-value, and what follows from it."""
    if comparison.p_value is None:
        return "", ""
    score = comparison.score
    is_higher = score.value > baseline.value
    verdict = "better" if is_higher != (score.name in LOWER_IS_BETTER) else "worse"
    if comparison.p_value >= _SIGNIFICANCE_LEVEL or score.value == baseline.value:
        verdict = "may be chance"
    return f"{comparison.p_value:.4f}", verdict


def _robustness_table(results: Sequence[RobustnessResult]) -> Table:
    table = _table("robustness check", "count", "score", "", "original", "loss")
    table.columns[3].justify = "left"
    for result in results:
        unperturbed, loss = (
            f"{number:.1f}" if number is not None else ""
            for number in (result.unperturbed, result.loss)
        )
        score = f"{result.score:.1f}" if result.score is not None else "–"
        table.add_row(result.name, f"{result.count:,}", score, result.metric, unperturbed, loss)
    return table


def _worst_sentences(sentences: Sequence[SentenceScore]) -> Table:
    """Source, references and output of each sentence, one below the other."""
    table = Table(
        box=None,
        pad_edge=False,
        show_header=False,
        title=f"the {len(sentences)} worst sentences by chrF"
        if len(sentences) > 1
        else "the worst sentence by chrF",
        title_justify="left",
        title_style="",
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for sentence in sentences:
        table.add_row("", f"line {sentence.line:,}, chrF {sentence.chrf:.1f}")
        table.add_row(f"{_INDENT}source", printable(sentence.source))
        for reference in sentence.references:
            table.add_row(f"{_INDENT}reference", printable(reference))
        table.add_row(f"{_INDENT}output", printable(sentence.output))
        table.add_row("", "")
    return table


def _about_system(system: System) -> Text:
    flags = ", ".join(f"{count:,} {flag}" for flag, count in system.flags.items())
    lines = [
        system.name,
        f"{_INDENT}training cost: {system.cost.summary if system.cost else 'unknown (no card)'}",
        f"{_INDENT}flags: {flags or 'none'}",
    ]
    return Text("\n".join(lines) + "\n", overflow="fold")


def _signatures(evaluation: Evaluation, width: int) -> Text:
    """All signatures in full, broken after a bar if they are too long for a line."""
    scores = {score.signature: score.name for score in evaluation.systems[0].scores}
    tests = {
        comparison.score.signature: f"{comparison.score.name}, p"
        for comparison in evaluation.comparisons
    }
    limit = width - len(_INDENT)
    lines = ["signatures"]
    # With a bootstrap test, score and test have the same signature: the name of the score wins.
    for signature, name in (scores | tests | scores).items():
        pieces = re.findall(rf".{{1,{limit}}}$|.{{1,{limit - 1}}}\|", signature)
        lines += [_INDENT + line for line in (f"{name}:", *pieces)]
    return Text("\n".join(lines), overflow="fold")


def _label(score: Score) -> str:
    return f"{score.name}, lower is better" if score.name in LOWER_IS_BETTER else score.name


def _score_cells(score: Score) -> tuple[str, str]:
    if score.interval is None:
        return f"{score.value:.2f}", "none"
    low, high = score.interval
    return f"{score.value:.2f}", f"{low:.2f} – {high:.2f}"


def _table(first: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
