"""Where do the tasks of preparation run?

On Daft: in processes of this machine with its native runner, or on a cluster with its Ray runner;
the same program, the same bytes. A task is small enough for one process, writes one result in one
move, and is skipped when its result is there. So whatever is killed, running again goes on.

A worker that would be alone is this process: to start one costs more than to clean a small corpus.

This is the only file that knows the engine.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dragoman.corpus.task import Task
from dragoman.errors import DataError, DragomanError, Stopped

# Before the import, for both report usage by default; the text that passes here is private.
os.environ["DAFT_ANALYTICS_ENABLED"] = "0"
os.environ["DO_NOT_TRACK"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ.setdefault("DAFT_PROGRESS_BAR", "0")

import daft


def use_cluster(address: str) -> None:
    """Run all later tasks on the Ray cluster at this address."""
    daft.set_runner_ray(address, noop_if_initialized=True)


def run(tasks: Sequence[Task], workers: int) -> Iterator[Task]:
    """Run the tasks of one stage that are not done yet; give each one as it is done."""
    # One for each result: files of the same content are read once.
    by_result = {str(task.result): task for task in tasks}
    waiting = {name: task for name, task in by_result.items() if not task.is_done()}
    yield from (task for name, task in by_result.items() if name not in waiting)
    count = min(workers, len(waiting))
    is_native = daft.get_or_infer_runner_type() == "native"
    if is_native and count == 1 and not any(task.needs_process for task in waiting.values()):
        for task in waiting.values():
            task.run()
            yield task
    elif waiting:
        yield from _run_on_daft(waiting, count, os.getpid() if is_native else None)


def _run_on_daft(waiting: dict[str, Task], count: int, driver: int | None) -> Iterator[Task]:
    worker = _worker(type(next(iter(waiting.values()))), count, driver)
    frame = daft.from_pydict({"task": [task.model_dump_json() for task in waiting.values()]})
    done = 0
    for row in frame.select(worker.run(frame["task"]).alias("answer")).iter_rows():
        answer = json.loads(str(row["answer"]))
        if answer["failure"]:
            error = DataError(answer["failure"])
            error.exit_code = answer["exit_code"]
            raise error
        done += 1
        yield waiting[answer["result"]]
    if done < len(waiting):  # The engine listens to Ctrl-C on its own account, and just ends.
        raise KeyboardInterrupt


def _worker(kind: type[Task], count: int, driver: int | None) -> Any:
    # Defined here, so that it travels to the workers by value; the task's class travels by its
    # name, so that a worker imports what this stage needs and nothing else.
    @daft.cls(use_process=driver is not None, max_concurrency=count)
    class Worker:
        def __init__(self) -> None:
            if driver is not None:
                # Ctrl-C reaches all processes of a terminal; the driver alone decides.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                threading.Thread(target=_end_with, args=(driver,), daemon=True).start()

        @daft.method.batch(return_dtype=daft.DataType.string(), batch_size=1)
        def run(self, tasks: daft.Series) -> list[str]:
            return [_answer(kind.model_validate_json(text)) for text in tasks.to_pylist()]

    return Worker()


def _end_with(driver: int) -> None:
    """End this process when its driver has ended: nobody would take the answer."""
    while os.getppid() == driver:
        time.sleep(0.2)
    os._exit(Stopped.exit_code)


def _answer(task: Task) -> str:
    """Run a task where nobody has done it yet.

    What is wrong with the data is an answer, not an accident: it travels back as text, for an
    exception would come back wrapped in the engine's own.
    """
    failure, exit_code = "", 0
    try:
        if not task.is_done():
            task.run()
    except DragomanError as error:
        failure, exit_code = str(error), error.exit_code
    return json.dumps({"result": str(task.result), "failure": failure, "exit_code": exit_code})


def minhash(texts: Any, count: int, words: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Sign each text of an Arrow array by the least of `count` hashes of its runs of words."""
    series = daft.Series.from_arrow(texts)
    signed = series.minhash(num_hashes=count, ngram_size=words, seed=1, hash_function="xxhash")
    flat = signed.to_arrow().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype=np.uint32).reshape(-1, count)
