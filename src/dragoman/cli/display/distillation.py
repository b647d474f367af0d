"""What a user sees while a model is distilled: the stages, the training, and the table."""

from __future__ import annotations

import os
import shlex
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console
from rich.table import Table

from dragoman.adaptation.distillation_report import COLUMNS, REPORT_PAGE, DistillationReport, cells
from dragoman.cli.console import printable
from dragoman.cli.display.preparation import PreparationDisplay
from dragoman.cli.display.training import TrainingDisplay
from dragoman.corpus.runner import PreparationProgress
from dragoman.workflow.distillation import (
    DistillationEvent,
    DistillationResult,
    DistillationStage,
)

_TEXT_COLUMNS = 2
"""The first columns of the table are text; the others are numbers."""


class DistillationDisplay:
    """Prints the events of a distillation; use it as a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._stage: PreparationDisplay | TrainingDisplay | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._stage is not None:
            self._stage.__exit__(kind, error, trace)
            self._stage = None

    def show(self, event: DistillationEvent) -> None:
        """Show one event."""
        match event:
            case DistillationStage(_, text):
                self.__exit__(None, None, None)
                self._print(printable(text))
            case PreparationProgress():
                if not isinstance(self._stage, PreparationDisplay):
                    self._stage = PreparationDisplay(self.console)
                self._stage.show(event)
            case _:
                if not isinstance(self._stage, TrainingDisplay):
                    self.__exit__(None, None, None)
                    self._stage = TrainingDisplay(self.console)
                self._stage.show(event)

    def show_result(self, result: DistillationResult) -> None:
        """Print the table, and what to type next."""
        self.__exit__(None, None, None)
        if result.was_finished:
            self._print("this distillation is already finished; nothing was done")
        report = result.report
        self._print(
            f"{report.sources:,} sources, {report.pairs:,} pairs after cleaning, "
            f"{report.parameters:,} parameters, {report.updates:,} updates"
        )
        self._print(report.cost)
        for test in report.tests:
            self._print(f"\n{printable(test.name)}, {test.pairs:,} sentences")
            self.console.print(table_of(report, test.name))
        run = shlex.quote(os.path.relpath(result.run))
        self._print(f"\nreport:     {os.path.relpath(result.folder / REPORT_PAGE)}")
        self._print(f"translate:  dragoman translate {run}")

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)


def table_of(report: DistillationReport, test: str) -> Table:
    """Return the table of one test set."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if number < _TEXT_COLUMNS else "right", no_wrap=True)
    for row in report.rows(test):
        table.add_row(*cells(row))
    return table
