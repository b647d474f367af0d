"""Runs slow tasks on a cluster, and notes in the store every time that a task begins.

python slow_tasks.py URL COUNT SECONDS WORKERS CLUSTER
"""

import json
import socket
import sys
import time
import uuid

from dragoman.corpus import runner
from dragoman.corpus.task import PreparationTask
from dragoman.storage.files import write_text
from dragoman.storage.mirror import StoredPath, local_path


class SlowTask(PreparationTask):
    """A task that notes its beginning, waits, and writes its name."""

    beginnings: StoredPath
    seconds: float

    def run(self) -> None:
        """Do what the class says."""
        note = f"{self.result.name} {socket.gethostname()}"
        write_text(self.beginnings / uuid.uuid4().hex, note)
        time.sleep(self.seconds)
        write_text(self.result, self.result.name)


def main(url: str, count: int, seconds: float, workers: int, address: str) -> None:
    """Run the tasks and print the progress."""
    folder = local_path(url)
    runner.use_cluster(address)
    tasks = [
        SlowTask(
            result=folder / "results" / str(number),
            beginnings=folder / "beginnings",
            seconds=seconds,
        )
        for number in range(count)
    ]
    runner.run_stage(
        "slow", tasks, workers, lambda done: print(json.dumps(["progress", *done]), flush=True)
    )


if __name__ == "__main__":
    # The workers import the class by its name, so it may not be a member of `__main__`.
    from support import slow_tasks

    words = sys.argv[1:]
    slow_tasks.main(words[0], int(words[1]), float(words[2]), int(words[3]), words[4])
