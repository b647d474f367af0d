"""A lease on a folder of a store, so that only one machine writes there.

A store has no locks. The objects FOLDER/lease/000001, 000002, … are created by conditional puts,
so each number has one owner, and the highest number holds the lease. The holder writes its object
again every few seconds. Another process may take the next number when the object says that it was
released, when it has not changed for some time, or when the holder belongs to the same job, whose
launcher starts new processes only after the old ones. No clocks are compared: who waits measures on
its own clock. A holder that finds a higher number has lost the lease and must not publish anything.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import threading
import time
from collections.abc import Callable, Iterator

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman.storage.remote import RemoteURL, StorageError, Store, open_store

FOLDER = "lease"
RENEW_SECONDS = 10.0
EXPIRY_SECONDS = 40.0
"""A lease that was not renewed for this time may be taken."""
_NUMBER = re.compile(r"/(\d{6,})\Z")


class LeaseHeldError(Exception):
    """Another process has the lease; the text names it."""


class LeaseEntry(BaseModel):
    """The content of a lease object."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    holder: str
    """Machine and process, for people."""
    job: str = ""
    """The job of the launcher, if it starts processes again by itself."""
    token: str
    """A random text: two processes never write the same bytes."""
    renewals: int = 0
    is_released: bool = False


class Lease:
    """A lease that this process has taken."""

    def __init__(self, store: Store, folder: str, number: int, entry: LeaseEntry) -> None:
        self._store = store
        self._folder = folder
        self._number = number
        self._entry = entry
        self._ended = threading.Event()

    @property
    def is_lost(self) -> bool:
        """Ask the store whether another process has taken the lease."""
        return _newest(self._store, self._folder) > self._number

    def renew_until_ended(self) -> None:
        """Renew the lease again and again, until `end` is called."""
        while not self._ended.wait(RENEW_SECONDS):
            # The store may come back. Until then, nobody can publish anything.
            with contextlib.suppress(StorageError):
                if self.is_lost:
                    return
                self._write(renewals=self._entry.renewals + 1)

    def end(self) -> None:
        """Stop the renewals."""
        self._ended.set()

    def release(self) -> None:
        """Let another process take the lease at once; the renewals must have ended."""
        with contextlib.suppress(StorageError):
            if not self.is_lost:
                self._write(is_released=True)

    def _write(self, **changes: int) -> None:
        self._entry = self._entry.model_copy(update=changes)
        self._store.put(_key(self._folder, self._number), _bytes(self._entry))


@contextlib.contextmanager
def leased(url: RemoteURL, job: str = "", wait: Callable[[str], object] = str) -> Iterator[Lease]:
    """Take the lease of a folder and renew it; raise `LeaseHeldError` if another process has it.

    `wait` is called with the holder's name before the function waits to see whether the holder is
    alive.
    """
    store = open_store(url.bucket)
    entry = LeaseEntry(
        holder=f"process {os.getpid()} of {platform.node()}", job=job, token=os.urandom(8).hex()
    )
    lease = _take(store, url.key, entry, wait)
    renewer = threading.Thread(target=lease.renew_until_ended, name="lease", daemon=True)
    renewer.start()
    try:
        yield lease
    finally:
        lease.end()
        renewer.join()  # A renewal that is still being written would undo the release.
        lease.release()


def _take(store: Store, folder: str, entry: LeaseEntry, wait: Callable[[str], object]) -> Lease:
    while True:
        number = _newest(store, folder)
        current = _read(store, folder, number)
        is_free = current is None or current.is_released
        if current is not None and not is_free and not (entry.job and entry.job == current.job):
            wait(current.holder)
            _wait_for_expiry(store, folder, number, current)
        if store.put_if_absent(_key(folder, number + 1), _bytes(entry)):
            # The object before stays: its holder may only now find out.
            for key in store.list(f"{folder}/{FOLDER}"):
                if _number(key) < number:
                    store.delete(key)
            return Lease(store, folder, number + 1, entry)


def _wait_for_expiry(store: Store, folder: str, number: int, first: LeaseEntry) -> None:
    """Return when a lease was released or has expired; raise an error if its holder is alive."""
    end = time.monotonic() + EXPIRY_SECONDS
    while time.monotonic() < end:
        time.sleep(min(1.0, EXPIRY_SECONDS / 10))
        current = _read(store, folder, number)
        if current is None or current.is_released:
            return
        if current != first:
            raise LeaseHeldError(current.holder)


def _newest(store: Store, folder: str) -> int:
    return max(map(_number, store.list(f"{folder}/{FOLDER}")), default=0)


def _read(store: Store, folder: str, number: int) -> LeaseEntry | None:
    if not number:
        return None
    try:
        return LeaseEntry.model_validate_json(store.read(_key(folder, number)))
    except (FileNotFoundError, ValidationError):
        return None


def _key(folder: str, number: int) -> str:
    return f"{folder}/{FOLDER}/{number:06}"


def _number(key: str) -> int:
    match = _NUMBER.search(key)
    return int(match[1]) if match else 0


def _bytes(entry: LeaseEntry) -> bytes:
    return json.dumps(entry.model_dump(), indent=1).encode()
