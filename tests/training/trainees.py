"""How do tests start small runs, disturb them, and compare what came out?"""

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.durable import sha256
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
        """All that it has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def exit_codes(self) -> set[str]:
        """Of the ranks, as torchrun tells them; it may have ended some before they ended."""
        found = set(re.findall(r"exitcode *: (-?\d+)", self.text))
        assert found, self.text
        return found - {str(-signal.SIGTERM)}

    def wait(self, seconds: float = 120) -> int:
        """Its exit code, less than zero for a signal; it must end in time."""
        code = _ask({"wait": self.process, "seconds": seconds})
        if code is None:
            self.kill()
            raise AssertionError(f"still running after {seconds} s:\n{self.text}")
        _living.discard(self.process)
        return code

    def kill(self) -> int:
        """Kill it with all that it started; give the exit code, as it may have been quicker."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)
        return self.wait()

    def orphans(self, seconds: float = 5) -> list[int]:
        """Processes of its session that are left, and stay."""
        end = time.monotonic() + seconds
        while (left := session(self.process)) and time.monotonic() < end:
            time.sleep(0.05)
        return left


def start(
    recipe: Path,
    *overrides: str,
    faults: Sequence[dict[str, Any]] = (),
    ranks: int = 0,
    torchrun: Sequence[str] = (),
    grace: int = 30,
    path: Sequence[Path] = (),
) -> Trainee:
    """Start `dragoman train`; with ranks, under torchrun."""
    log = recipe.parent / f"log-{next(_numbers):03}.txt"
    job = {
        "arguments": [str(recipe), *overrides],
        "faults": list(faults),
        "torchrun": ["--nproc-per-node", str(ranks), *torchrun] if ranks else [],
        "grace": grace,
        "path": [str(each) for each in path],
        "log": str(log),
    }
    trainee = Trainee(_ask(job), log)
    _living.add(trainee.process)
    return trainee


def train(recipe: Path, *overrides: str, **more: Any) -> Path:
    """Train to the end, and give the run's folder."""
    trainee = start(recipe, *overrides, **more)
    assert trainee.wait() == 0, trainee.text
    named = [each.partition("=")[2] for each in overrides if each.startswith("training.folder=")]
    return recipe.parent / (named or ["run"])[-1]


def kill_the_rest() -> None:
    """Kill every trainee that a test has left behind."""
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
        kill_the_rest()
        server.kill()
        server.communicate()

    return server


def _ask(request: dict[str, Any]) -> Any:
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


def session(process: int) -> list[int]:
    """Processes, other than dead ones, of the session that one began."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, leader, *_ = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(leader) == process and state != "Z":
            found.append(int(path.parent.name))
    return found


def wait_for(happened: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait until something is so, and give it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := happened():
            return found
        time.sleep(0.005)
    raise AssertionError(f"did not happen in {seconds} s")


def journal(folder: Path) -> list[dict[str, Any]]:
    """A run's journal without what depends on the clock; floats are exact."""
    timed = {"seconds", "tokens_per_second"}
    return [
        {name: value for name, value in line.items() if name not in timed}
        for line in read_journal(folder / "journal.jsonl")
    ]


def losses(folder: Path) -> dict[int, float]:
    """The loss of each step."""
    return {each["step"]: each["loss"] for each in journal(folder) if each["kind"] == "learned"}


def outcome(folder: Path) -> tuple[list[dict[str, Any]], str]:
    """What must be the same to the last bit: the whole story, and the model."""
    return journal(folder), sha256(folder / "model.safetensors")


def saved_steps(folder: Path) -> list[int]:
    """The steps of a run's checkpoints."""
    return sorted(int(each.name[5:]) for each in (folder / "checkpoints").glob("step-*"))


def left_over(folder: Path) -> list[str]:
    """Files that a crash left half done, and nobody swept away."""
    return sorted(
        str(each.relative_to(folder)) for each in folder.rglob(".*") if each.name != ".claim"
    )


@contextlib.contextmanager
def real_torchrun(ranks: int, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command `torchrun` itself, with the command `dragoman` under it."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={ranks}", "-m", "dragoman", "train", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | _WIDE)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
