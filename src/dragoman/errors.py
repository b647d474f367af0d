"""The errors that Dragoman raises on purpose, and the exit code of each.

DragomanError              1   base class
├── RecipeError            2   unknown, invalid or contradictory settings
├── DataError              3   a file is missing, misaligned, empty or has the wrong content
│   └── LengthError            a text is longer than the model's maximum number of positions
├── ArtifactError          4   a run or checkpoint is incomplete, damaged or belongs to another run
├── MissingExtraError      6   an optional package is not installed
├── FlaggedError           7   documents were translated, but some texts were flagged (--strict)
├── RefusedError           8   the gate refused an adapted model; it is kept aside
├── DivergedError         70   the loss is not a finite number; the last good checkpoint is kept
├── WorkerDiedError       71   a worker process of `prepare` died; defined in `corpus/runner.py`
├── SaveError             74   the model or a checkpoint cannot be written
├── ListenError           74   the server cannot use its address or port
├── StorageError          74   a store refused or failed; defined in `storage/remote.py`
└── Stopped               75   interrupted; finished work is kept, the same command continues

A message says what is wrong, where, what was found, what was expected, and what to type next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches


class DragomanError(Exception):
    """Base class of all errors that Dragoman raises on purpose.

    The command line prints the message without a traceback.
    """

    exit_code = 1
    exits_at_once = False
    """Whether the process must end without the usual cleanup, which another library disturbs."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in a recipe."""

    path: str
    """The dotted path of the setting, `model.heads`; empty for the recipe as a whole."""
    what: str
    """What was found, what was expected, what to do."""
    where: str = ""
    """File and line, or "command line"; empty if the recipe was made in Python."""

    def __str__(self) -> str:
        where = f"  ({self.where})" if self.where else ""
        return f"  {self.path or 'recipe'}{where}\n      {self.what}"


class RecipeError(DragomanError):
    """A recipe that cannot be used, with all of its mistakes; `advice` says what to do."""

    exit_code = 2

    def __init__(self, mistakes: Sequence[Mistake], advice: str = "") -> None:
        self.mistakes = tuple(mistakes)
        self.advice = advice
        super().__init__(self._message())

    def _message(self) -> str:
        if len(self.mistakes) == 1 and not (self.mistakes[0].path or self.mistakes[0].where):
            return self.mistakes[0].what  # The recipe as a whole: a missing file, for example.
        count = "1 mistake" if len(self.mistakes) == 1 else f"{len(self.mistakes)} mistakes"
        lines = [f"the recipe has {count}:", *map(str, self.mistakes)]
        return "\n".join([*lines, self.advice] if self.advice else lines)


class DataError(DragomanError):
    """A file or a text that cannot be used."""

    exit_code = 3


class LengthError(DataError):
    """A sequence is longer than the maximum number of positions of the model."""


class ArtifactError(DragomanError):
    """A run or a checkpoint that cannot be used."""

    exit_code = 4


class DivergedError(DragomanError):
    """Training diverged: the loss is not a finite number."""

    exit_code = 70


class SaveError(DragomanError):
    """The model or a checkpoint cannot be written."""

    exit_code = 74


class ListenError(DragomanError):
    """The server cannot use its address or port."""

    exit_code = 74


class MissingExtraError(DragomanError):
    """An optional package is not installed; each of `extras` contains it."""

    exit_code = 6

    def __init__(self, job: str, package: str, *extras: str) -> None:
        commands = " or: ".join(f"pip install 'dragoman[{extra}]'" for extra in extras)
        super().__init__(
            f"{job} needs the package {package}, which is not installed.\nType: {commands}"
        )


class Stopped(DragomanError):  # noqa: N818  (an interruption is not an error)
    """Interrupted: finished work is kept, and the same command continues."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h: try again later.


def suggest(name: str, choices: Sequence[str]) -> str:
    """Suggest the choice that was probably meant; list all choices if they are few."""
    all_choices = ", ".join(choices)
    close = get_close_matches(name, choices, n=1)
    if not close:
        return f"expected one of: {all_choices}"
    meant = f"did you mean {close[0]!r}?"
    return f"{meant} Available: {all_choices}" if len(choices) <= 8 else meant


class RefusedError(DragomanError):
    """An adapted model did not pass the gate; it is kept aside, and its parent stays in use."""

    exit_code = 8


class FlaggedError(DragomanError):
    """Documents were translated, but some texts need a person (`translate --strict`)."""

    exit_code = 7

    def __init__(self, count: int) -> None:
        units = "1 text was" if count == 1 else f"{count:,} texts were"
        super().__init__(f"{units} flagged; the list is in the summary (--json)")
