"""The interface of an experiment on one claim of the lectures.

An experiment *measures* and returns only numbers. From these numbers alone it *judges* the claim
by a stated criterion and *draws* a figure. So a verdict can be repeated from the stored numbers, a
figure can be redrawn, and tests can show with made-up numbers that a criterion can fail.

A claim is one file in `claims/`, named after its number; the folder is the list.
"""

from __future__ import annotations

import importlib
import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from matplotlib.figure import Figure

from dragoman.lab.catalog import find_claim, list_claims

Size = Literal["quick", "full"]
"""Quick takes less than two minutes on one core; full runs all seeds and steps of the result."""

Verdict = Literal["supported", "partly supported", "not supported", "inconclusive"]

Numbers = dict[str, Any]
"""The measurements of one experiment: a JSON mapping of names to numbers, lists and tables."""


@dataclass(frozen=True, slots=True)
class Judgment:
    """The verdict on a claim."""

    verdict: Verdict
    summary: str
    """What was found, in one sentence without technical terms, for a student."""
    explanation: str
    """The numbers that decided."""


def grade(*, is_supported: bool, is_partly_supported: bool) -> Verdict:
    """The verdict for the two conditions of a criterion."""
    if is_supported:
        return "supported"
    return "partly supported" if is_partly_supported else "not supported"


class Experiment(ABC):
    """One claim, and how to test it."""

    title: ClassVar[str]
    """A few words. A literal: the catalog reads it without importing the file."""
    sources: ClassVar[tuple[tuple[str, str, str], ...]]
    """Where the claim is made: the lecture (a short form, `lectures.py`), its section, and what it
    says there, in our words. A literal."""
    durations: ClassVar[tuple[int, int]]
    """Estimated seconds on one core, quick and full. A literal."""
    claim: ClassVar[str]
    """Our reading of what the lectures say: a sentence that an experiment can contradict."""
    method: ClassVar[str]
    """What is measured, and how."""
    criterion: ClassVar[str]
    """When the claim is supported, partly supported and not supported."""
    is_seed_independent: ClassVar[bool] = False
    """Whether every seed gives the same verdict. Then the verdict itself is tested."""
    figure_height: ClassVar[float] = 3.6
    """Of the figure, in inches; its width is 7."""
    limitation: ClassVar[str] = ""
    """Why the numbers cannot decide the claim yet. If it is set, the verdict is inconclusive."""

    @classmethod
    def number(cls) -> str:
        """The number of the claim, as C9. Its file name begins with it."""
        return f"C{int(cls.__module__.rpartition('.')[2][1:3])}"

    @abstractmethod
    def measure(self, size: Size, seed: int) -> Numbers:
        """Run the experiment. All randomness comes from the seed."""

    @abstractmethod
    def judge(self, numbers: Numbers) -> Judgment:
        """Apply the criterion to the numbers, without regard to the limitation."""

    @abstractmethod
    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Draw the numbers into an empty figure."""

    def conclude(self, numbers: Numbers) -> Judgment:
        """Judge; if the experiment has a limitation, the verdict is inconclusive."""
        judgment = self.judge(numbers)
        if not self.limitation:
            return judgment
        explanation = f"The criterion alone would say: {judgment.verdict}. {judgment.explanation}"
        return Judgment("inconclusive", self.limitation, explanation)


def load_experiments() -> dict[str, type[Experiment]]:
    """All experiments by the number of their claim, in order."""
    return {number: _load(entry.module) for number, entry in list_claims().items()}


def load_experiment(name: str) -> Experiment:
    """The experiment on the claim named C9, c9, c09 or 9."""
    return _load(find_claim(name).module)()


def _load(name: str) -> type[Experiment]:
    module = importlib.import_module(name)
    (experiment,) = (
        member
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, Experiment)
        and member.__module__ == name
        and not inspect.isabstract(member)
    )
    return experiment
