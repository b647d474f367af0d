"""Where do the tasks of preparation run?

On Daft: in processes of this machine with its native runner, or on a cluster with its Ray runner;
the same program, the same bytes. A task is small enough for one process, writes one result in one
move, and is skipped when its result is there. So whatever is killed, running again goes on.

This is the only file that knows the engine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dragoman.corpus.task import Task
from dragoman.errors import DataError

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
    """Run the tasks that are not done yet; give each one as it is done."""
    # One for each result: files of the same content are read once.
    by_result = {str(task.result): task for task in tasks}
    waiting = [task for task in by_result.values() if not task.is_done()]
    yield from (task for task in by_result.values() if task not in waiting)
    if not waiting:
        return
    worker = _worker(min(workers, len(waiting)))
    frame = daft.from_pydict({"task": [task.model_dump_json() for task in waiting]})
    for row in frame.select(worker.run(frame["task"]).alias("answer")).iter_rows():
        answer = json.loads(str(row["answer"]))
        if answer["failure"]:
            error = DataError(answer["failure"])
            error.exit_code = answer["exit_code"]
            raise error
        yield by_result[answer["result"]]


def _worker(count: int) -> Any:
    # Defined here, so that it travels to the workers by value. One worker needs no process of
    # its own: starting one costs more than cleaning a small corpus.
    @daft.cls(use_process=count > 1, max_concurrency=count)
    class Worker:
        @daft.method.batch(return_dtype=daft.DataType.string(), batch_size=1)
        def run(self, tasks: daft.Series) -> list[str]:
            from dragoman.corpus.pipeline import run_task  # noqa: PLC0415  (in the worker)

            return [run_task(task) for task in tasks.to_pylist()]

    return Worker()


def minhash(texts: Any, count: int, words: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Sign each text of an Arrow array by the least of `count` hashes of its runs of words."""
    series = daft.Series.from_arrow(texts)
    signed = series.minhash(num_hashes=count, ngram_size=words, seed=1, hash_function="xxhash")
    flat = signed.to_arrow().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype=np.uint32).reshape(-1, count)
