"""Runs tasks whose worker processes are killed, as the kernel does when memory runs out.

python dying_worker.py FOLDER
"""

import os
import signal
import sys
from pathlib import Path

# Workers import the class of a task by its name.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
)
sys.path.insert(0, str(Path(__file__).parents[1]))

from dragoman.cli.app import exit_with
from dragoman.corpus import runner
from dragoman.corpus.task import PreparationTask
from dragoman.errors import DragomanError


class DyingTask(PreparationTask):
    """A task that kills the process that runs it."""

    def run(self) -> None:
        """Die."""
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    from support.dying_worker import DyingTask as ImportableTask

    folder = Path(sys.argv[1])
    tasks = [ImportableTask(result=folder / str(number)) for number in range(4)]
    try:
        list(runner.run(tasks, 2))
    except DragomanError as error:
        print(error)
        exit_with(error)
