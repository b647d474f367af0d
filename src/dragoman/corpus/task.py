"""What is a task of preparation?

A piece of work that can be done alone, anywhere, twice: its settings say everything, it reads
finished files, and its result appears in one move. The result's existence is the only mark that
it is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Task(BaseModel, ABC):
    """Settings that are also the work."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    result: Path
    """Where the result appears."""

    def is_done(self) -> bool:
        """Whether somebody has done it."""
        return self.result.exists()

    @abstractmethod
    def run(self) -> None:
        """Do it."""
