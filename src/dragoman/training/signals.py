"""When should training stop?

On SIGTERM, SIGINT (Ctrl-C) or SIGUSR1 it finishes the step, saves, and ends; on a second signal it
ends at once, which harms nothing: what is saved is saved.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType


class StopSign:
    """Remembers that somebody asked to stop."""

    def __init__(self) -> None:
        self.is_up = False

    def raise_it(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self.is_up:
            os._exit(128 + number)
        self.is_up = True


@contextlib.contextmanager
def listen() -> Iterator[StopSign]:
    """Listen to the signals that ask to stop."""
    sign = StopSign()
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    before = {number: signal.signal(number, sign.raise_it) for number in numbers}
    try:
        yield sign
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
