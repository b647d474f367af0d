"""Starts small training runs in other processes, disturbs them, and compares their results."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.storage.files import sha256
from dragoman.training.journal import read_journal

SCRIPT = Path(__file__).with_name("train_small.py")
_WIDE = {"COLUMNS": "200"}
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Trainee:
    """A process that trains, or a torchrun with its ranks."""

    process: int
    log: Path

    @property
    def text(self) -> str:
        """Everything that it has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def exit_codes(self) -> set[str]:
        """The exit codes of the ranks in torchrun's report, except ranks that torchrun ended."""
        codes = set(re.findall(r"exitcode *: (-?\d+)", self.text))
        assert codes, self.text
        return codes - {str(-signal.SIGTERM)}

    def wait(self, seconds: float = 120) -> int:
        """Wait for its exit code, negative for a signal; it must end in time."""
        code = _request({"wait": self.process, "seconds": seconds})
        if code is None:
            self.kill()
            raise AssertionError(f"still running after {seconds} s:\n{self.text}")
        _living.discard(self.process)
        return code

    def kill(self) -> int:
        """Kill it with all its processes; return the exit code, as it may have ended before."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)
        return self.wait()

    def orphans(self, seconds: float = 5) -> list[int]:
        """Return processes of its session that do not end."""
        end = time.monotonic() + seconds
        while (processes := session(self.process)) and time.monotonic() < end:
            time.sleep(0.05)
        return processes


def start(
    recipe: Path,
    *settings: str,
    faults: Sequence[dict[str, Any]] = (),
    ranks: int = 0,
    torchrun: Sequence[str] = (),
    grace: int = 30,
    path: Sequence[Path] = (),
    variables: Mapping[str, str] | None = None,
) -> Trainee:
    """Start `dragoman train`; with ranks, under torchrun."""
    log = recipe.parent / f"log-{next(_numbers):03}.txt"
    job = {
        "arguments": [str(recipe), *settings],
        "faults": list(faults),
        "torchrun": ["--nproc-per-node", str(ranks), *torchrun] if ranks else [],
        "grace": grace,
        "path": [str(folder) for folder in path],
        "variables": dict(variables or {}),
        "log": str(log),
    }
    trainee = Trainee(_request(job), log)
    _living.add(trainee.process)
    return trainee


def train(recipe: Path, *settings: str, **options: Any) -> Path:
    """Train to the end, and return the run folder."""
    trainee = start(recipe, *settings, **options)
    assert trainee.wait() == 0, trainee.text
    prefix = "training.folder="
    names = [text.removeprefix(prefix) for text in settings if text.startswith(prefix)]
    return recipe.parent / (names or ["run"])[-1]


def kill_all() -> None:
    """Kill every process that a test has left running."""
    for process in tuple(_living):
        Trainee(process, Path(os.devnull)).kill()


_living: set[int] = set()


@functools.cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | _WIDE,
    )

    @atexit.register
    def stop() -> None:
        kill_all()
        server.kill()
        server.communicate()

    return server


def _request(request: dict[str, Any]) -> Any:
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


def session(process: int) -> list[int]:
    """Return the living processes of the session that a process started."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, leader, *_ = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(leader) == process and state != "Z":
            processes.append(int(path.parent.name))
    return processes


def wait_for(condition: Callable[[], Any], seconds: float = 180) -> Any:
    """Wait until a condition holds, and return its value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError(f"did not happen in {seconds} s")


def journal(folder: Path) -> list[dict[str, Any]]:
    """Return the journal of a run without what depends on the clock; floats are exact."""
    clock_fields = {"seconds", "tokens_per_second"}
    return [
        {name: value for name, value in entry.items() if name not in clock_fields}
        for entry in read_journal(folder / "journal.jsonl")
    ]


def losses(folder: Path) -> dict[int, float]:
    """Return the training loss of each step."""
    entries = journal(folder)
    return {entry["step"]: entry["loss"] for entry in entries if entry["kind"] == "progress"}


def outcome(folder: Path) -> tuple[list[dict[str, Any]], str]:
    """Return what must be bit-identical: the whole journal, and the model."""
    return journal(folder), sha256(folder / "model.safetensors")


def saved_steps(folder: Path) -> list[int]:
    """Return the steps of the checkpoints of a run."""
    return sorted(int(path.name[5:]) for path in (folder / "checkpoints").glob("step-*"))


def left_over(folder: Path) -> list[str]:
    """Return the incomplete files of a crash that were not removed; lock files may stay."""
    hidden = (path for path in folder.rglob(".*") if not path.name.startswith(".lock"))
    return sorted(str(path.relative_to(folder)) for path in hidden)


@contextlib.contextmanager
def real_torchrun(ranks: int, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command `torchrun` itself, which starts the command `dragoman`."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={ranks}", "-m", "dragoman", "train", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | _WIDE)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
