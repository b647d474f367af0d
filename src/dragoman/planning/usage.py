"""Runs a command and measures it from outside: CPU seconds, peak memory, bytes written.

The measurement and `bench/plan.py` use this one function, so a plan and a real run are compared
like for like:

    CPU seconds     user and system time of the process and all its children (wait4)
    peak memory     the largest sum of the resident sets of the process and all its children, read
                    twenty times per second; at least the largest resident set that the kernel
                    noted for one of them (`VmHWM`; that of wait4 includes the parent's own memory)
    bytes written   what they passed to write (`wchar` of /proc/PID/io)

The kernel keeps these numbers under /proc, so this file needs Linux.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman.errors import DragomanError
from dragoman.planning.figures import Usage

_INTERVAL = 0.05
_PROCESSES = Path("/proc")
OnPoll = Callable[[float, float], None]
"""Receives CPU seconds and wall-clock seconds since the start."""


def run_measured(
    command: Sequence[str | Path], on_poll: OnPoll = lambda cpu, wall: None
) -> tuple[Usage, float]:
    """Run a command to its end; return what it used, and its wall-clock seconds."""
    if sys.platform != "linux":
        raise DragomanError(
            f"--measure reads /proc, which exists on Linux; found {sys.platform}. Plan without it"
        )
    written = _written_bytes()
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(  # noqa: S603  (our own command)
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
        )
        try:
            peak, usage = _wait(process, started, on_poll)
        except BaseException:
            process.kill()
            process.wait()
            raise
        if process.returncode:
            output.seek(0)
            message = output.read().decode(errors="replace").strip()
            raise DragomanError(
                f"the measurement failed: {' '.join(map(str, command[2:4]))} ended with code "
                f"{process.returncode}:\n{message[-1000:]}"
            )
    wall = time.monotonic() - started
    cpu = usage.ru_utime + usage.ru_stime
    # The kernel adds what a child wrote to its parent when the parent has waited for it.
    measured = Usage(cpu, peak, _written_bytes() - written)
    return measured, wall


def _wait(
    process: subprocess.Popen[bytes], started: float, on_poll: OnPoll
) -> tuple[float, os.struct_rusage]:  # type: ignore[name-defined]
    peak = 0.0
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            process.returncode = os.waitstatus_to_exitcode(status)
            return peak, usage
        members = _family(process.pid)
        resident = sum(map(_resident_bytes, members))
        peak = max(peak, resident, *map(_largest_resident_bytes, members))
        on_poll(sum(map(_cpu_seconds, members)), time.monotonic() - started)
        time.sleep(_INTERVAL)


def _family(process: int) -> list[int]:
    """Return a process and all its living descendants."""
    members, waiting = [], [process]
    while waiting:
        member = waiting.pop()
        members.append(member)
        for task in _PROCESSES.glob(f"{member}/task/*/children"):
            waiting += map(int, _read(task).split())
    return members


def _resident_bytes(process: int) -> int:
    fields = _read(_PROCESSES / str(process) / "statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


def _largest_resident_bytes(process: int) -> int:
    for line in _read(_PROCESSES / str(process) / "status").splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    return 0


def _cpu_seconds(process: int) -> float:
    """Return the time of a process and of its children that have ended."""
    text = _read(_PROCESSES / str(process) / "stat").rpartition(")")[2].split()
    return sum(map(int, text[11:15])) / os.sysconf("SC_CLK_TCK") if text else 0.0


def _written_bytes() -> int:
    lines = _read(_PROCESSES / "self/io").splitlines()
    return int(dict(line.split(": ") for line in lines).get("wchar", "0"))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # The process has ended.
        return ""
