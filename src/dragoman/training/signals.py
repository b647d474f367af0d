"""When should training stop?

On SIGTERM, SIGINT (Ctrl-C) or SIGUSR1 it finishes the step, saves, and ends; on a second signal it
ends at once, which harms nothing: what is saved is saved.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from types import FrameType

_SAME_WISH = 1.0
"""Seconds within which the same signal again is the first one: managers of jobs signal every
process, and torchrun hands on what it was told."""


class StopSign:
    """Remembers that somebody asked to stop."""

    def __init__(self) -> None:
        self.is_up = False
        self._first = (0, 0.0)

    def raise_it(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        now = time.monotonic()
        if not self.is_up:
            self.is_up, self._first = True, (number, now)
        elif number != self._first[0] or now - self._first[1] > _SAME_WISH:
            os._exit(128 + number)


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
