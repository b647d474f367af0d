"""Trains small runs in processes that a test can kill, in about a second each.

Importing PyTorch takes seconds, so a server imports it once and forks a trainee for each job.

    python train_small.py          reads jobs from its input, and answers each with a line of JSON
    python train_small.py JOB      is a trainee itself; so torchrun starts it

A job is what the command line would say, and the faults that happen on the way. `trainees.py` is
the other end.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed.run
from torch.multiprocessing.spawn import ProcessContext

from dragoman import cli, display  # noqa: F401  (loaded once, for all trainees)
from dragoman.data.sampler import Sampler
from dragoman.training import checkpoint, parallel
from dragoman.training.run import Run
from dragoman.training.trainer import Trainer
from dragoman.workflow import training

# No thread may have been started when a process is forked.
torch.set_num_threads(1)

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def at_step(step: int, signals: list[str]) -> None:
    """Send itself signals in the middle of a step: it has been counted, and not yet learned."""
    learn = Trainer._update

    def learn_or_fall(self: Trainer, *work: Any) -> Any:
        if self.state.step == step:
            _strike(signals)
        return learn(self, *work)

    Trainer._update = learn_or_fall


def at_call(step: int, call: int, signals: list[str], list_to: str = "") -> None:
    """Send itself signals just before a call of the file system in the save of a step.

    Weights are written by one call that can be torn, so it counts twice. Step 0 stands for all
    that comes before the first step, -1 for all that comes after the last.
    """
    calls = _Calls(call, signals, Path(list_to) if list_to else None)
    save, run, finish = Trainer._save, Trainer.run, Run.finish

    def watch_save(self: Trainer) -> Any:
        calls.is_counting = self.state.step == step
        yield from save(self)
        calls.is_counting = False

    def watch_beginning(self: Trainer) -> Any:
        calls.is_counting = False
        yield from run(self)

    def watch_end(self: Run, *given: Any) -> None:
        calls.is_counting = step == -1
        finish(self, *given)
        calls.is_counting = False

    Trainer._save, Trainer.run, Run.finish = watch_save, watch_beginning, watch_end
    calls.is_counting = step == 0


class _Calls:
    """Counts calls of the file system that change something."""

    _EVENTS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "shutil.rmtree")

    def __init__(self, fatal: int, signals: list[str], listed: Path | None) -> None:
        self.fatal, self.signals, self.listed = fatal, signals, listed
        self.is_counting = False
        self.count = 0
        sys.addaudithook(self._hear)
        flush, save_file = os.fsync, checkpoint.save_file

        def flush_or_fall(descriptor: int) -> None:
            self.add("fsync")
            flush(descriptor)

        def save_or_fall(tensors: Any, path: Path) -> None:
            self.add(f"save_file {path.name}")
            save_file(tensors, path)
            if self.count + 1 == self.fatal:
                os.truncate(path, path.stat().st_size // 2)
            self.add(f"half of save_file {path.name}")

        os.fsync, checkpoint.save_file = flush_or_fall, save_or_fall

    def _hear(self, event: str, details: tuple[Any, ...]) -> None:
        if not self.is_counting:
            return
        if event in self._EVENTS:
            self.add(f"{event} {Path(os.fsdecode(details[0])).name}")
        elif event == "open" and details[2] & (os.O_WRONLY | os.O_RDWR):
            self.add(f"open {Path(os.fsdecode(details[0])).name}")

    def add(self, name: str) -> None:
        if not self.is_counting:
            return
        self.count += 1
        if self.listed is not None:
            self.is_counting = False
            with self.listed.open("a", encoding="utf-8") as file:
                file.write(f"{name}\n")
            self.is_counting = True
        if self.count == self.fatal:
            _strike(self.signals)


def full_disk(folder: str, step: int, until: int, leave: int) -> None:
    """Fill the disk from one step to another, but for some bytes; step -1 is after the last."""
    ballast = Path(folder) / "ballast"

    def fill() -> None:
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        os.truncate(ballast, max(ballast.stat().st_size - leave, 0))

    _between(step, until, fill, lambda: ballast.unlink(missing_ok=True))


def small_files(step: int, until: int, size: int) -> None:
    """Let the kernel refuse to write larger files: the like of a full disk where none can be."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(number: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (number, most))

    _between(step, until, lambda: limit(size), lambda: limit(most))


def _between(step: int, until: int, begin: Callable[[], None], end: Callable[[], None]) -> None:
    learn, finish = Trainer._update, Run.finish

    def learn_between(self: Trainer, *work: Any) -> Any:
        if self.state.step == step:
            begin()
        if self.state.step == until:
            end()
        return learn(self, *work)

    def finish_between(self: Run, *given: Any) -> None:
        if step == -1:
            begin()
        finish(self, *given)

    Trainer._update, Run.finish = learn_between, finish_between


def little_space(free: int) -> None:
    """Let the disk say that this is all it has, where it cannot be made small."""
    usage = shutil.disk_usage("/")._replace(free=free)
    shutil.disk_usage = lambda _: usage


def late(seconds: float) -> None:
    """Come late to where the ranks meet."""
    time.sleep(seconds)


def impatient(seconds: float) -> None:
    """Give up on silent ranks sooner."""
    parallel._PATIENCE = dict.fromkeys(parallel._PATIENCE, timedelta(seconds=seconds))


def listed_rows(path: str) -> None:
    """List each row that is read, with the place where the stream goes on after its step."""
    share = Sampler.share

    def share_and_tell(self: Sampler, *given: Any) -> Any:
        for each in share(self, *given):
            for number, planned in each.batches.items():
                line = [list(each.then), number, planned.shard_number, planned.rows.tolist()]
                line.append(planned.then.epoch)
                with Path(path).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
            yield each

    Sampler.share = share_and_tell


def _strike(signals: list[str]) -> None:
    for name in signals:
        os.kill(os.getpid(), signal.Signals[name])


_FAULTS = {
    each.__name__: each
    for each in (
        *(at_step, at_call, full_disk, small_files, little_space),
        *(late, impatient, listed_rows),
    )
}


def train(job: dict[str, Any]) -> None:
    """Be a trainee, until the command exits."""
    rank, attempt = (int(os.environ.get(name, "0")) for name in _PLACE)
    for fault in job["faults"]:
        if fault.pop("rank", rank) == rank and fault.pop("attempt", attempt) == attempt:
            _FAULTS[fault.pop("kind")](**fault)
    sys.path[:0] = job["path"]
    # The picture of the curve would take as long as the rest.
    training.draw_curve = lambda *_: None
    sys.argv = ["dragoman", "train", *job["arguments"]]
    cli.main()


_PLACE = ("RANK", "TORCHELASTIC_RESTART_COUNT")


def _start(job: dict[str, Any]) -> int:
    """Fork a process with a session of its own; it writes to the job's log."""
    process = os.fork()
    if process:
        return process
    os.setsid()
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor, opened in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
        os.dup2(opened, descriptor)
    code = 1
    try:
        if job["torchrun"]:
            _be_gracious(job["grace"])
            fork = ("--standalone", "--run-path", "--start-method", "fork")
            torch.distributed.run.main([*fork, *job["torchrun"], __file__, json.dumps(job)])
            code = 0
        else:
            train(job)
    except SystemExit as left:
        code = int(left.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _be_gracious(most: float) -> None:
    """Let torchrun wait no longer than this for a rank that does not end; it has 30 s in stone."""
    join = ProcessContext._join_procs_with_timeout

    def join_soon(self: ProcessContext, seconds: float) -> None:
        join(self, min(seconds, most))

    ProcessContext._join_procs_with_timeout = join_soon


def _wait(process: int, seconds: float) -> int | None:
    """The exit code, less than zero for a signal, or None if it goes on."""
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            return None
        time.sleep(0.005)


def _serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = _wait(request["wait"], request["seconds"])
        else:
            answer = _start(request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(json.loads(sys.argv[1]))
    else:
        _serve()
