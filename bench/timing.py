"""Wall-clock and CPU seconds for the benchmarks.

Machines are shared and processor time is stolen, so every benchmark reports the ratio of CPU
seconds beside the ratio of wall-clock time, as medians over alternating repeats.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import psutil

Result = TypeVar("Result")


class Seconds(NamedTuple):
    """Time that something took."""

    wall: float
    cpu: float
    """User and system time of this process and all its children."""


def now() -> Seconds:
    """Read both clocks."""
    return Seconds(time.perf_counter(), _cpu_seconds())


def since(start: Seconds) -> Seconds:
    """Time since both clocks were read."""
    end = now()
    return Seconds(end.wall - start.wall, end.cpu - start.cpu)


def timed(function: Callable[[], Result]) -> tuple[Result, Seconds]:
    """Call a function and time it."""
    start = now()
    result = function()
    return result, since(start)


def alternate(repeats: int, *runs: Callable[[], Seconds]) -> list[list[Seconds]]:
    """Repeat the runs in turn, so that a busy moment of the machine affects all of them."""
    times: list[list[Seconds]] = [[] for _ in runs]
    for _ in range(repeats):
        for index, run in enumerate(runs):
            times[index].append(run())
    for series in times:
        for name in Seconds._fields:
            values = " ".join(f"{getattr(seconds, name):8.2f}" for seconds in series)
            print(f"    {name:<5}{values}", file=sys.stderr)
    return times


def median(series: Sequence[Seconds]) -> Seconds:
    """The median of each clock."""
    return Seconds(
        statistics.median(seconds.wall for seconds in series),
        statistics.median(seconds.cpu for seconds in series),
    )


def ratios(name: str, ours: Sequence[Seconds], theirs: Sequence[Seconds]) -> dict[str, float]:
    """Median over the repeats of theirs / ours; above 1 we are faster. For wall clock and CPU."""
    pairs = list(zip(ours, theirs, strict=True))
    return {
        name: round(statistics.median(b.wall / a.wall for a, b in pairs), 3),
        f"{name}_cpu": round(statistics.median(b.cpu / a.cpu for a, b in pairs), 3),
    }


def _cpu_seconds() -> float:
    process = psutil.Process()
    total = 0.0
    for member in (process, *process.children(recursive=True)):
        try:
            times = member.cpu_times()
        except psutil.Error:  # It has ended; its parent now counts its time.
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
