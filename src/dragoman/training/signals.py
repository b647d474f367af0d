"""Stop training on a signal.

SIGTERM, SIGINT (Ctrl-C) and SIGUSR1 (some job schedulers) finish the current update, save, and end
the run. A second signal ends the process at once; saved checkpoints stay intact.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

_REPEAT_SECONDS = 1.0
"""The same signal within this time counts as one request: job schedulers signal every process, and
torchrun forwards the signal too."""
_NAMES = ("SIGTERM", "SIGINT", "SIGUSR1")


class StopRequest:
    """Whether somebody asked to stop."""

    def __init__(self) -> None:
        self.is_requested = False
        self._first = (0, 0.0)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        now = time.monotonic()
        if not self.is_requested:
            self.is_requested, self._first = True, (number, now)
        elif number != self._first[0] or now - self._first[1] > _REPEAT_SECONDS:
            os._exit(128 + number)


@contextlib.contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Handle the signals inside a `with` block, and restore the previous handlers.

    Python allows signal handlers in the main thread only; in other threads nothing is handled.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    previous = {number: signal.signal(number, request.handle) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
