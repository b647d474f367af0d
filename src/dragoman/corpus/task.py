"""The interface of a preparation task.

A task is a piece of work that any worker can do alone, and do twice without harm. Its settings say
everything, it reads finished files only, and its result appears in one atomic move. A task is done
exactly when its result exists. Its paths have the type `StoredPath`, so that a worker on another
machine finds remote files in its own mirror.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from dragoman.storage import mirror
from dragoman.storage.mirror import StoredPath


class PreparationTask(BaseModel, ABC):
    """The settings of a task, with the method that does the work."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    needs_process: ClassVar[bool] = False
    """True if the task does not react to Ctrl-C, so it must not run in the main process."""

    unit: ClassVar[str] = "tasks"
    """What the progress of the stage counts."""

    result: StoredPath
    """The path at which the result appears."""

    @property
    def amount(self) -> int:
        """How much progress the task makes when it is done."""
        return 1

    def is_done(self) -> bool:
        """Return whether the result exists."""
        return mirror.exists(self.result)

    @abstractmethod
    def run(self) -> None:
        """Do the work and write the result."""
