"""Runs preparation tasks with Daft, on this machine or on a Ray cluster.

The program and the output bytes are the same in both cases. A task fits into one process, writes
one result in one atomic move, and is skipped if its result exists. So whatever was killed, a second
run continues from there. On a cluster, every task is a partition of its own, and Daft spreads the
partitions over the machines. If a machine is lost, the tasks without a result run again. If one
worker is enough, the tasks run in this process, because starting a process takes longer than
cleaning a small corpus.

This is the only module that imports Daft, and it imports Daft when the first task runs. Both Daft
and Ray send usage statistics by default. The text that is prepared is private, so telemetry is
switched off in the environment of the process before they are loaded. Workers inherit it.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from dragoman.corpus.task import PreparationTask
from dragoman.errors import DataError, DragomanError, Stopped
from dragoman.storage.mirror import existing, path_text

_TELEMETRY_OFF = {
    "DAFT_ANALYTICS_ENABLED": "0",
    "DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
_QUIET = {"DAFT_PROGRESS_BAR": "0", "DAFT_SHOW_QUERY_ID": "0"}

_LOST_WORKER = ("UDF process", "UDF unexpectedly failed", "Broken pipe", "Connection reset")
"""The texts by which errors of Daft about a dead worker process are recognized."""
_LOST_MACHINE = frozenset(
    {
        "ActorDiedError",
        "ActorUnavailableError",
        "ActorUnschedulableError",
        "NodeDiedError",
        "ObjectLostError",
        "OwnerDiedError",
        "WorkerCrashedError",
    }
)
"""The errors of Ray by which the loss of a machine is recognized; some are only in texts."""
_MAX_LOSSES = 5
"""How often in a row a stage is run again although no task was finished."""
_PAUSE_AFTER_LOSS = 5.0
"""Seconds in which Ray can notice that the machine is gone."""

_log = logging.getLogger(__name__)


class WorkerDiedError(DragomanError):
    """A worker process ended before its tasks were done."""

    exit_code = 71  # EX_OSERR of sysexits.h
    exits_at_once = True  # Daft sometimes aborts the process when Python ends after this.

    def __init__(self, done: int, total: int) -> None:
        super().__init__(
            f"a worker process died after {done} of {total} tasks of this stage; probably the "
            "machine ran out of memory. Finished tasks are kept: run the same command again, or "
            "run it with fewer --workers"
        )


def load_daft() -> ModuleType:
    """Switch telemetry off, then import Daft."""
    os.environ.update(_TELEMETRY_OFF)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    # Daft logs an error when a worker needs more than five seconds to exit, as on a busy machine.
    # Without a handler, Python would print it. An application that configures logging gets it.
    logger = logging.getLogger("daft_local_execution")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return importlib.import_module("daft")


def use_cluster(address: str) -> None:
    """Run all later tasks on the Ray cluster at this address."""
    try:
        load_daft().set_runner_ray(address, noop_if_initialized=True)
    except ConnectionError as error:
        raise DataError(
            f"cannot connect to the Ray cluster at {address!r}: {error}. Expected the address of a "
            "running cluster, for example ray://HOST:10001; to check the cluster, type: ray status"
        ) from None


def _cluster_cpus() -> int:
    """Return the number of CPUs of the machines that are left.

    Daft would wait for more workers than this until a time-out.
    """
    ray = importlib.import_module("ray")
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


class PreparationProgress(NamedTuple):
    """How many tasks of a stage are done, or how many sentences."""

    stage: str
    done: int
    total: int
    unit: str = "tasks"
    host: str = ""
    """The machine on which the last task ran; empty if no task ran yet."""


class FinishedTask(NamedTuple):
    """A task that is done, and where it ran."""

    task: PreparationTask
    host: str
    """The name of the machine; empty if its answer was lost with another machine."""


def run_stage(
    stage: str,
    tasks: Sequence[PreparationTask],
    workers: int,
    on_progress: Callable[[PreparationProgress], None],
) -> None:
    """Run the tasks of one stage that are not done yet, and report the progress."""
    if not tasks:
        return
    # Two tasks with the same result are the same work.
    by_result = {task.result: task for task in tasks}
    finished = existing(list(by_result))
    waiting = [task for result, task in by_result.items() if result not in finished]
    total = sum(task.amount for task in by_result.values())
    done = total - sum(task.amount for task in waiting)
    unit = tasks[0].unit
    on_progress(PreparationProgress(stage, done, total, unit))
    for task, host in run(waiting, workers):
        done += task.amount
        on_progress(PreparationProgress(stage, done, total, unit, host))


def run(tasks: Sequence[PreparationTask], workers: int) -> Iterator[FinishedTask]:
    """Run tasks whose results do not exist and differ; yield each task when it is done."""
    waiting = {path_text(task.result): task for task in tasks}
    count = min(workers, len(waiting))
    if not waiting:
        return
    if load_daft().get_or_infer_runner_type() != "native":
        yield from _run_on_cluster(waiting, count)
    elif count == 1 and not any(task.needs_process for task in waiting.values()):
        for task in waiting.values():
            task.run()
            yield FinishedTask(task, socket.gethostname())
    else:
        yield from _run_on_daft(waiting, count, os.getpid())


def _run_on_cluster(waiting: dict[str, PreparationTask], count: int) -> Iterator[FinishedTask]:
    """Run tasks on Ray. If a machine is lost, Daft runs its tasks again on the others.

    Sometimes Daft gives up instead. Then the rest runs again, and the loss costs the tasks that are
    running on all machines. Results are in files, so finished tasks are kept.
    """
    total, losses = len(waiting), 0
    while waiting:
        done = 0
        try:
            workers = min(count, len(waiting), _cluster_cpus())
            for finished in _run_on_daft(dict(waiting), workers, None):
                del waiting[path_text(finished.task.result)]
                done += 1
                yield finished
        except WorkerDiedError as error:
            losses = 0 if done else losses + 1
            if losses > _MAX_LOSSES:
                raise WorkerDiedError(total - len(waiting), total) from error
            _log.warning("a machine of the cluster was lost; %d tasks run again", len(waiting))
            time.sleep(_PAUSE_AFTER_LOSS)
            yield from _take_finished(waiting)


def _take_finished(waiting: dict[str, PreparationTask]) -> Iterator[FinishedTask]:
    """Yield the tasks whose result exists, and remove them from those that wait."""
    finished = existing([task.result for task in waiting.values()])
    for name, task in list(waiting.items()):
        if task.result in finished:
            yield FinishedTask(waiting.pop(name), "")


def _run_on_daft(
    waiting: dict[str, PreparationTask], count: int, driver: int | None
) -> Iterator[FinishedTask]:
    done = 0
    for answer in _answers(waiting, count, driver):
        if answer["failure"]:
            error = DataError(answer["failure"])
            error.exit_code = answer["exit_code"]
            raise error
        done += 1
        yield FinishedTask(waiting[answer["result"]], answer["host"])
    # After Ctrl-C, Daft ends the stream too, but then Python's own handler has raised already.
    if done < len(waiting):
        raise WorkerDiedError(done, len(waiting))


def _answers(
    waiting: dict[str, PreparationTask], count: int, driver: int | None
) -> Iterator[dict[str, Any]]:
    """Yield the answers of the workers; raise `WorkerDiedError` if Daft reports a dead worker."""
    daft = load_daft()
    worker = _worker(type(next(iter(waiting.values()))), count, driver)
    frame = daft.from_pydict({"task": [task.model_dump_json() for task in waiting.values()]})
    if driver is None:
        # Daft spreads partitions over the machines, not rows.
        frame = frame.into_partitions(len(waiting))
    rows = frame.select(worker.run(frame["task"]).alias("answer")).iter_rows()
    done = 0
    while True:
        try:
            row = next(rows, None)
        except Exception as error:
            if not _is_lost_worker(error):
                raise
            raise WorkerDiedError(done, len(waiting)) from error
        if row is None:
            return
        done += 1
        yield json.loads(str(row["answer"]))


def _is_lost_worker(error: Exception) -> bool:
    """Return whether an error of Daft or Ray says that a process or a machine ended."""
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(names & _LOST_MACHINE) or (
        isinstance(error, RuntimeError | OSError)
        and any(text in str(error) for text in (*_LOST_WORKER, *_LOST_MACHINE))
    )


def _worker(kind: type[PreparationTask], count: int, driver: int | None) -> Any:
    daft = load_daft()

    # The class is defined here, so it is sent to the workers by value. The class of the task is
    # sent by name, so a worker imports only what this stage needs.
    # Ray would start the worker of a lost machine again, and wait for a free CPU for ever if the
    # other workers have them all. Without that, Daft gives up, and the remaining tasks run again.
    ray_options = {"max_restarts": 0, "max_task_retries": 0} if driver is None else None

    @daft.cls(use_process=driver is not None, max_concurrency=count, ray_options=ray_options)
    class Worker:
        def __init__(self) -> None:
            if driver is not None:
                # Ctrl-C reaches all processes of a terminal, but only the driver decides.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                threading.Thread(target=_exit_with, args=(driver,), daemon=True).start()

        @daft.method.batch(return_dtype=daft.DataType.string(), batch_size=1)  # type: ignore[untyped-decorator]
        def run(self, tasks: Any) -> list[str]:
            return [_run_task(kind.model_validate_json(text)) for text in tasks.to_pylist()]

    return Worker()


def _exit_with(driver: int) -> None:
    """End this process when the driver has ended, because nothing reads its answer any more."""
    while os.getppid() == driver:
        time.sleep(0.2)
    os._exit(Stopped.exit_code)


def _run_task(task: PreparationTask) -> str:
    """Run a task that is not done yet, and return the answer as JSON.

    An error in the data is part of the answer, because Daft would wrap an exception in its own.
    """
    failure, exit_code = "", 0
    try:
        if not task.is_done():
            task.run()
    except DragomanError as error:
        failure, exit_code = str(error), error.exit_code
    answer = {"result": path_text(task.result), "host": socket.gethostname()}
    return json.dumps(answer | {"failure": failure, "exit_code": exit_code})


def minhash(texts: Any, count: int, words: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Compute MinHash signatures: `count` hashes of word n-grams (n = `words`) for each text."""
    series = load_daft().Series.from_arrow(texts)
    signatures = series.minhash(num_hashes=count, ngram_size=words, seed=1, hash_function="xxhash")
    flat = signatures.to_arrow().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype=np.uint32).reshape(-1, count)
