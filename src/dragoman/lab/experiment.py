"""What is an experiment on a claim of the lectures?

It *measures*, and gives nothing but numbers; from these numbers alone it *judges* by a stated
criterion, and *draws*. So a verdict can be repeated from the stored numbers, a figure
redrawn, and a criterion shown to be one that can fail.

A claim is one file in `claim/`, named by its number; the folder is the list.
"""

from __future__ import annotations

import importlib
import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from matplotlib.figure import Figure

from dragoman.errors import DataError, suggest

Size = Literal["quick", "full"]
"""Quick takes seconds, at most about a minute of one core; full is what an honest answer needs."""

Verdict = Literal["holds", "holds in part", "does not hold here"]

Numbers = dict[str, Any]
"""What was measured: names to numbers, lists of them, or tables; JSON can hold it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the numbers say about the claim."""

    verdict: Verdict
    because: str
    """One or two sentences with the numbers that decided."""


class Experiment(ABC):
    """One claim, and the way to find out."""

    title: ClassVar[str]
    """A few words."""
    claim: ClassVar[str]
    """What the lectures say, in our words."""
    lectures: ClassVar[tuple[str, ...]]
    """The notes that say it, by their numbers."""
    criterion: ClassVar[str]
    """When it holds, when in part, and when not."""
    method: ClassVar[str]
    """What is done, so that a reader can picture it."""
    is_certain: ClassVar[bool] = False
    """Whether chance plays no part: then the verdict itself is tested."""

    @classmethod
    def name(cls) -> str:
        """The number of the claim, as C9: its file begins with it."""
        return f"C{int(cls.__module__.rpartition('.')[2][1:3])}"

    @abstractmethod
    def measure(self, size: Size, seed: int) -> Numbers:
        """Run the experiment; all chance comes from the seed."""

    @abstractmethod
    def judge(self, numbers: Numbers) -> Judgement:
        """Decide by the criterion, from the numbers alone."""

    @abstractmethod
    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Draw what was measured into an empty figure; it may be given another size."""


@cache
def claims() -> dict[str, type[Experiment]]:
    """All experiments by the numbers of their claims, as C9, in their order."""
    found = {}
    for file in sorted((Path(__file__).parent / "claim").glob("c[0-9][0-9]_*.py")):
        module = importlib.import_module(f"dragoman.lab.claim.{file.stem}")
        (experiment,) = (
            member
            for member in vars(module).values()
            if inspect.isclass(member)
            and issubclass(member, Experiment)
            and member.__module__ == module.__name__
            and not inspect.isabstract(member)
        )
        found[experiment.name()] = experiment
    return found


def find(name: str) -> Experiment:
    """The experiment on a claim, as C9 or c09."""
    number = name.upper().removeprefix("C").lstrip("0")
    experiment = claims().get(f"C{number}")
    if experiment is None:
        raise DataError(f"there is no claim {name!r}; {suggest(name, list(claims()))}")
    return experiment()
