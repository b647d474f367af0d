"""A lock on a folder, so that only one process writes there.

The operating system releases the lock when the process ends, also when the process is killed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from dragoman.storage.files import refuse_outside_links, refuse_url, write_text

LOCK = ".lock"
# A separate file: on some systems a locked file cannot be read by other processes.
HOLDER = ".lock.pid"
_UNKNOWN = "unknown"


class FolderLockedError(Exception):
    """Another process has locked the folder."""

    def __init__(self, pid: str) -> None:
        super().__init__(f"locked by process {pid}")
        self.pid = pid
        """The process id of the holder, or "unknown"."""


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create the folder if necessary and lock it; raise `FolderLockedError` if it is locked.

    A folder with symbolic links that lead outside is refused. Other problems, for example a
    read-only file system, stay `OSError`.
    """
    refuse_url(folder)
    folder.mkdir(parents=True, exist_ok=True)
    refuse_outside_links(folder)
    holder = folder / HOLDER
    lock = FileLock(folder / LOCK, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise FolderLockedError(_read_pid(holder)) from None
    try:
        write_text(holder, f"{os.getpid()}\n")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _read_pid(holder: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return holder.read_text(encoding="utf-8").strip() or _UNKNOWN
    return _UNKNOWN
