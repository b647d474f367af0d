"""Speed and remaining time of a training session."""

from __future__ import annotations

import os
import time

_MIN_SECONDS = 5.0
"""CPU use is not judged before this much time has passed."""
_LOW_CPU_SHARE = 0.75


class SessionTimer:
    """Measures one session of a run; a run that is resumed has several."""

    def __init__(self, earlier_seconds: float, earlier_cpu_seconds: float = 0.0) -> None:
        self.earlier_seconds = earlier_seconds
        self.earlier_cpu_seconds = earlier_cpu_seconds
        self.updates = 0
        self._started = self._mark = time.monotonic()
        self._cpu_started = time.process_time()
        self._update_seconds = 0.0
        self._tokens = 0

    @property
    def session_seconds(self) -> float:
        """Time since the start of this session."""
        return time.monotonic() - self._started

    @property
    def total_seconds(self) -> float:
        """Training time of all sessions."""
        return self.earlier_seconds + self.session_seconds

    @property
    def session_cpu_seconds(self) -> float:
        """Processor time of all threads of this process since the start of this session."""
        return time.process_time() - self._cpu_started

    @property
    def total_cpu_seconds(self) -> float:
        """Processor time of all sessions."""
        return self.earlier_cpu_seconds + self.session_cpu_seconds

    def count_update(self, tokens: int) -> None:
        """Add the time since the last update, and the tokens of this one."""
        now = time.monotonic()
        self._update_seconds += now - self._mark
        self._mark = now
        self._tokens += tokens
        self.updates += 1

    def exclude(self) -> None:
        """Exclude the time since the last update from the speed: it was validation or saving."""
        self._mark = time.monotonic()

    def tokens_per_second(self) -> float:
        """Return the speed since the last call."""
        speed = self._tokens / max(self._update_seconds, 1e-9)
        self._update_seconds, self._tokens = 0.0, 0
        return speed

    def seconds_left(self, updates_left: int, minutes: float) -> float:
        """Estimate the time to the last update, or to the time limit if that comes first."""
        left = updates_left * self.session_seconds / max(self.updates, 1)
        if minutes:
            left = min(left, 60 * minutes - self.total_seconds)
        return max(left, 0.0)

    def slow_threads(self, threads: int, cpus: int) -> str:
        """Describe threads that wait for each other on a busy machine; empty if there are none.

        Each parallel operation waits for its slowest thread. When other programs use the machine,
        several threads can therefore be slower than one.
        """
        seconds = self.session_seconds
        if threads == 1 or seconds < _MIN_SECONDS or not hasattr(os, "getloadavg"):
            return ""
        cores = self.session_cpu_seconds / seconds
        load = os.getloadavg()[0]
        if cores > _LOW_CPU_SHARE * threads or load < cpus + 1:
            return ""
        return (
            f"training with {threads} threads gets only {cores:.1f} cores, because other programs "
            f"use this machine (load average {load:.1f} on {cpus} CPUs); "
            "training.threads=1 may be faster"
        )
