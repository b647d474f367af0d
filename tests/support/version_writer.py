"""Changes a model with versions, and is killed before each of its writes in turn.

`python -m support.version_writer FOLDER ACTION CANDIDATE RECORD` copies FOLDER for every write to
FOLDER.1, FOLDER.2, …, and runs the action on the copy in a child process, which sends itself
SIGKILL before that write. The last copy is that of a child which was not killed. An audit hook sees
the writes: files that are opened for writing, links, renames, removals and new folders.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

from dragoman.adaptation.versions import VersionedModel, VersionRecord

WRITES = {
    "os.chmod",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
}


def die_before(number: int) -> None:
    """Kill this process before its write of this number, counted from 1."""
    count = 0

    def watch(event: str, arguments: tuple) -> None:
        nonlocal count
        is_write = event in WRITES
        if event == "open":
            is_write = bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if is_write:
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def act(folder: Path, action: str, candidate: Path, record: str) -> None:
    """Change a model."""
    if action == "create":
        VersionedModel.create(folder, candidate)
    elif action == "add":
        VersionedModel.open(folder).add(candidate, VersionRecord.model_validate_json(record))
    else:
        VersionedModel.open(folder).rollback()


def main() -> None:
    """Run the action until it is not killed."""
    folder, action, candidate, record = sys.argv[1:]
    os.fsync = lambda _: None  # A kill loses nothing that was written.
    number = 0
    is_killed = True
    while is_killed:
        number += 1
        copy = Path(f"{folder}.{number}")
        if Path(folder).exists():
            shutil.copytree(folder, copy, symlinks=True)
        child = os.fork()
        if not child:
            die_before(number)
            act(copy, action, Path(candidate), record)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        is_killed = os.WIFSIGNALED(status)
        assert is_killed or status == 0, status
    print(number)


if __name__ == "__main__":
    main()
