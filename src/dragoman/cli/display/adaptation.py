"""What a user sees while a model is adapted: the stages, the training, and the verdict."""

from __future__ import annotations

import os
import shlex
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.table import Table

from dragoman.adaptation.gate import RuleName
from dragoman.adaptation.report.model import REPORT_PAGE
from dragoman.cli.display.training import TrainingDisplay
from dragoman.corpus.runner import PreparationProgress
from dragoman.training.events import TrainingSummary
from dragoman.workflow.adaptation import AdaptationEvent, AdaptationResult, AdaptationStage

_RULES: dict[RuleName, str] = {
    "in_domain_bleu": "in-domain BLEU",
    "in_domain_chrf": "in-domain chrF",
    "general_bleu": "general BLEU",
    "terms": "terms",
    "protected_spans": "protected spans, %",
    "size": "bytes of the weights",
    "speed": "FLOPs per sentence",
}


class AdaptationDisplay:
    """Prints the events of an adaptation; use it as a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._training = TrainingDisplay(self.console)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._training.__exit__(kind, error, trace)

    def show(self, event: AdaptationEvent) -> None:
        """Show one event."""
        match event:
            case AdaptationStage(_, text):
                self._end_training()
                self._print(f"{text} ...")
            case PreparationProgress(stage, 0, _):
                self._print(f"    {stage}")
            case PreparationProgress():
                pass
            case TrainingSummary():
                self._end_training()
                self._training.show(event)
            case _:
                self._training.show(event)

    def show_result(self, result: AdaptationResult) -> None:
        """Print the verdict with its figures, and what to type next."""
        report = result.report
        self._end_training()
        if result.was_finished:
            self._print("this adaptation is already finished; nothing was done")
        table = Table(box=None, pad_edge=False)
        for name, justify in (("rule", "left"), ("before", "right"), ("after", "right")):
            table.add_column(name, justify=justify)  # type: ignore[arg-type]
        table.add_column("p", justify="right")
        table.add_column("verdict")
        for rule in report.gate.rules:
            figures = [_figure(rule.before), _figure(rule.after)]
            p_value = "" if rule.p_value is None else f"{rule.p_value:.3f}"
            table.add_row(_RULES[rule.name], *figures, p_value, rule.verdict)
        self.console.print(table)
        for note in report.notes:
            self._print(f"! {note}")
        cost = report.cost
        self._print(
            f"{cost.updates:,} updates, {cost.pairs:,} pairs seen, {cost.minutes:.1f} min of "
            f"training, {cost.cpu_seconds:,.0f} s of processor time"
        )
        verdict = "accepted" if report.is_accepted else "refused"
        self._print(f"version {report.number}: {verdict}")
        self._print(f"report:     {os.path.relpath(result.version / REPORT_PAGE)}")
        folder = shlex.quote(os.path.relpath(result.folder))
        if report.is_accepted:
            self._print(f"translate:  dragoman translate {folder}")
        self._print(f"versions:   dragoman models list {folder}")

    def _end_training(self) -> None:
        """Remove the bar; the next training gets a new one."""
        self._training.__exit__(None, None, None)
        self._training = TrainingDisplay(self.console)

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"
