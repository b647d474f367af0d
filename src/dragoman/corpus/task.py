"""What is a task of preparation?

A piece of work that can be done alone, anywhere, twice: its settings say everything, it reads
finished files, and its result appears in one move. The result's existence is the only mark that
it is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Task(BaseModel, ABC):
    """Settings that are also the work."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    needs_process: ClassVar[bool] = False
    """Whether it hears no Ctrl-C while it works, so that it cannot work in the driver's process."""

    result: Path
    """Where the result appears."""

    def is_done(self) -> bool:
        """Whether somebody has done it."""
        return self.result.exists()

    @abstractmethod
    def run(self) -> None:
        """Do it."""
