"""What can go wrong, and with which exit code does the command end?

DragomanError              1   anything raised on purpose
├── RecipeError            2   settings that are unknown, mistyped, or impossible together
├── DataError              3   a file is missing, misaligned, empty, or not what it should be
│   └── LengthError            a text longer than the model can place
├── ArtifactError          4   a run or a checkpoint is incomplete, damaged, or another's
├── MissingExtraError      6   a package that this job needs is not installed
├── DivergedError         70   training leaves the numbers; the last good checkpoint is kept
├── SaveError             74   what was learned cannot be written
└── Stopped               75   asked to stop; what was done is kept, and the same command goes on

A message says what is wrong, where, what was found, what was expected, and what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches


class DragomanError(Exception):
    """Anything Dragoman raises on purpose; the command prints it without a trace."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong with a recipe."""

    path: str
    """The dotted path of the setting, `model.heads`; empty for the recipe as a whole."""
    what: str
    """What was found, what was expected, what to do."""
    where: str = ""
    """File and line, or the command line; empty when the recipe was made in Python."""

    def __str__(self) -> str:
        place = f"  ({self.where})" if self.where else ""
        return f"  {self.path or 'recipe'}{place}\n      {self.what}"


class RecipeError(DragomanError):
    """A recipe that cannot be used, with every mistake in it."""

    exit_code = 2

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        count = "1 mistake" if len(self.mistakes) == 1 else f"{len(self.mistakes)} mistakes"
        super().__init__("\n".join([f"the recipe has {count}:", *map(str, self.mistakes)]))


class DataError(DragomanError):
    """A file or a text that cannot be used as it is."""

    exit_code = 3


class LengthError(DataError):
    """A sequence is longer than the positions that the model has learned."""


class ArtifactError(DragomanError):
    """A run or a checkpoint that cannot be used."""

    exit_code = 4


class DivergedError(DragomanError):
    """Training has left the numbers and does not come back."""

    exit_code = 70


class SaveError(DragomanError):
    """What was learned cannot be written."""

    exit_code = 74


class MissingExtraError(DragomanError):
    """A package that this job needs is not installed."""

    exit_code = 6

    def __init__(self, job: str, package: str, extra: str) -> None:
        super().__init__(
            f"{job} needs the package {package}, which is not installed.\n"
            f"Type: pip install 'dragoman[{extra}]'"
        )


class Stopped(DragomanError):  # noqa: N818  (it is no error)
    """Asked to stop; what was done is kept, and the same command goes on."""

    exit_code = 75  # what sysexits.h calls a temporary failure: try again later


def suggest(found: str, choices: Sequence[str]) -> str:
    """Say which of the choices was probably meant, and name them all where they are few."""
    near = get_close_matches(found, choices, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    is_short = len(choices) <= 8 or not near
    return (meant + (f"One of: {', '.join(choices)}" if is_short else "")).rstrip()
