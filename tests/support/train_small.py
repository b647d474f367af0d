"""Trains small runs in processes that a test can kill, in about a second each.

Importing PyTorch takes seconds, so a server imports it once and forks a process for each job.

    python train_small.py          reads jobs from stdin, and answers each with a line of JSON
    python train_small.py JOB      trains one job itself; torchrun starts it like this

A job has the arguments of the command line, and the faults that happen during training.
`trainees.py` is the other end.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
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

from dragoman.cli import app
from dragoman.cli.display import training as training_display  # noqa: F401  (imported once)
from dragoman.data.sampler import Sampler
from dragoman.storage import lease
from dragoman.storage.remote import Store
from dragoman.training import checkpoint, finish, parallel
from dragoman.training.trainer import Trainer
from dragoman.workflow import training

# A process must not have started threads when it is forked.
torch.set_num_threads(1)

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def at_step(step: int, signals: list[str]) -> None:
    """Send signals to this process in the middle of a step, before its update."""
    original = Trainer.forward_backward

    def with_signals(self: Trainer, *data: Any) -> Any:
        if self.state.step == step:
            _send(signals)
        return original(self, *data)

    Trainer.forward_backward = with_signals


def at_call(step: int, call: int, signals: list[str], list_to: str = "") -> None:
    """Send signals to this process just before a file system call in the save of a step.

    Writing weights is one call that can be interrupted halfway, so it counts twice. Step 0 means
    everything before the first step, -1 everything after the last.
    """
    calls = _FileSystemCalls(call, signals, Path(list_to) if list_to else None)
    save, run, finish_run = Trainer.save_checkpoint, Trainer.run, training.finish_run

    def count_save(self: Trainer, **options: Any) -> None:
        calls.is_counting = self.state.step == step
        save(self, **options)
        calls.is_counting = False

    def count_beginning(self: Trainer) -> None:
        calls.is_counting = False
        run(self)

    def count_end(*arguments: Any) -> Any:
        calls.is_counting = step == -1
        card = finish_run(*arguments)
        calls.is_counting = False
        return card

    Trainer.save_checkpoint, Trainer.run = count_save, count_beginning
    training.finish_run = count_end
    calls.is_counting = step == 0


class _FileSystemCalls:
    """Counts the file system calls that change something."""

    _EVENTS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "shutil.rmtree")

    def __init__(self, fatal: int, signals: list[str], list_to: Path | None) -> None:
        self.fatal, self.signals, self.list_to = fatal, signals, list_to
        self.is_counting = False
        self.count = 0
        sys.addaudithook(self._on_audit_event)
        fsync, save_file = os.fsync, checkpoint.save_file

        def counted_fsync(descriptor: int) -> None:
            self.add("fsync")
            fsync(descriptor)

        def counted_save_file(tensors: Any, path: Path) -> None:
            self.add(f"save_file {path.name}")
            save_file(tensors, path)
            if self.count + 1 == self.fatal:
                os.truncate(path, path.stat().st_size // 2)
            self.add(f"half of save_file {path.name}")

        os.fsync, checkpoint.save_file = counted_fsync, counted_save_file

    def _on_audit_event(self, event: str, details: tuple[Any, ...]) -> None:
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
        if self.list_to is not None:
            self.is_counting = False
            with self.list_to.open("a", encoding="utf-8") as file:
                file.write(f"{name}\n")
            self.is_counting = True
        if self.count == self.fatal:
            _send(self.signals)


def full_disk(folder: str, step: int, until: int, leave: int) -> None:
    """Fill the disk from one step to another, except for some bytes; -1 is after the last step."""
    ballast = Path(folder) / "ballast"

    def fill() -> None:
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        os.truncate(ballast, max(ballast.stat().st_size - leave, 0))

    _between(step, until, fill, lambda: ballast.unlink(missing_ok=True))


def small_files(step: int, until: int, size: int) -> None:
    """Let the kernel refuse larger files: similar to a full disk, where none can be mounted."""
    _, maximum = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(number: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (number, maximum))

    _between(step, until, lambda: limit(size), lambda: limit(maximum))


def _between(step: int, until: int, begin: Callable[[], None], end: Callable[[], None]) -> None:
    forward_backward, finish_run = Trainer.forward_backward, training.finish_run

    def forward_backward_between(self: Trainer, *data: Any) -> Any:
        if self.state.step == step:
            begin()
        if self.state.step == until:
            end()
        return forward_backward(self, *data)

    def finish_between(*arguments: Any) -> Any:
        if step == -1:
            begin()
        return finish_run(*arguments)

    Trainer.forward_backward, training.finish_run = forward_backward_between, finish_between


def little_space(free: int) -> None:
    """Let the disk report this much free space."""
    usage = shutil.disk_usage("/")._replace(free=free)
    shutil.disk_usage = lambda _: usage


def late(seconds: float) -> None:
    """Join the other ranks late."""
    time.sleep(seconds)


def impatient(seconds: float) -> None:
    """Wait for silent ranks for a shorter time."""
    parallel._TIMEOUT = dict.fromkeys(parallel._TIMEOUT, timedelta(seconds=seconds))


def at_upload(call: int, signals: list[str]) -> None:
    """Send signals to this process just before an upload to a store, counted from 1."""
    put, calls = Store.put, itertools.count(1)

    def counted_put(self: Store, key: str, data: bytes | Path) -> None:
        if "/checkpoints/" in key and next(calls) == call:
            _send(signals)
        put(self, key, data)

    Store.put = counted_put


def short_lease(seconds: float) -> None:
    """Let the lease of a run in a store expire sooner."""
    lease.RENEW_SECONDS, lease.EXPIRY_SECONDS = seconds / 4, seconds


def listed_rows(path: str) -> None:
    """List each row that is read, with the stream position after its step."""
    original = Sampler.share

    def listing_share(self: Sampler, *arguments: Any) -> Any:
        for share in original(self, *arguments):
            for number, plan in share.batches.items():
                line = [list(share.then), number, plan.shard_number, plan.rows.tolist()]
                line.append(plan.then.epoch)
                with Path(path).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
            yield share

    Sampler.share = listing_share


def _send(signals: list[str]) -> None:
    for name in signals:
        os.kill(os.getpid(), signal.Signals[name])


_FAULTS = {
    fault.__name__: fault
    for fault in (
        *(at_step, at_call, full_disk, small_files, little_space),
        *(late, impatient, listed_rows, short_lease, at_upload),
    )
}


def train(job: dict[str, Any]) -> None:
    """Run the command `dragoman train` of a job in this process."""
    rank, attempt = (
        int(os.environ.get(name, "0")) for name in ("RANK", "TORCHELASTIC_RESTART_COUNT")
    )
    for fault in job["faults"]:
        if fault.pop("rank", rank) == rank and fault.pop("attempt", attempt) == attempt:
            _FAULTS[fault.pop("kind")](**fault)
    sys.path[:0] = job["path"]
    # Curve and export would take as long as everything else.
    finish.draw_curve = lambda *_: None
    training.export_to_ctranslate2 = lambda _: ""
    sys.argv = ["dragoman", "train", *job["arguments"]]
    app.main()


def _start(job: dict[str, Any]) -> int:
    """Fork a process with its own session; it writes to the log of the job."""
    process = os.fork()
    if process:
        return process
    os.setsid()
    os.environ.update(job["variables"])
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor, opened in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
        os.dup2(opened, descriptor)
    code = 1
    try:
        if job["torchrun"]:
            _limit_grace(job["grace"])
            fork = ("--standalone", "--run-path", "--start-method", "fork")
            torch.distributed.run.main([*fork, *job["torchrun"], __file__, json.dumps(job)])
            code = 0
        else:
            train(job)
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _limit_grace(maximum: float) -> None:
    """Let torchrun wait no longer than this for a rank that does not end; its default is 30 s."""
    join = ProcessContext._join_procs_with_timeout

    def join_soon(self: ProcessContext, seconds: float) -> None:
        join(self, min(seconds, maximum))

    ProcessContext._join_procs_with_timeout = join_soon


def _wait(process: int, seconds: float) -> int | None:
    """Return the exit code, negative for a signal, or None if the process is still running."""
    end = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
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
