"""Reads and writes the objects of a bucket: S3, Google Cloud Storage, Azure, or a folder.

This is the only module that imports obstore. A bucket is named by a URL: `s3://BUCKET`,
`gs://BUCKET`, `az://CONTAINER`, or `file://` for the local disk. Credentials and the endpoint come
from the environment (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …). A URL that contains credentials
is refused. Errors never contain the text of the server's answer, because it can name a key.

Every request is repeated a bounded number of times: obstore repeats requests that failed, and this
module repeats calls that still failed or returned another number of bytes than the object has.
"""

from __future__ import annotations

import io
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from dragoman.errors import DataError, DragomanError, MissingExtraError

SCHEMES = ("s3", "gs", "az", "file")
BLOCK_BYTES = 8 << 20
"""The number of bytes of one range of a stream, and of one part of a multipart upload."""
_WINDOW_BYTES = 64 << 10
"""Small reads are served from a window of this size; the footer of an Arrow file fits into it."""
_INNER_RETRIES = 3
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*):/+(?P<rest>.*)", re.DOTALL)
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "file": "the permissions of the folder",
}

Value = TypeVar("Value")


class StorageError(DragomanError):
    """A store refused a request, or could not be reached after several attempts."""

    exit_code = 74  # EX_IOERR of sysexits.h


class RemoteURL(NamedTuple):
    """A bucket and the key of an object or a folder in it."""

    bucket: str
    """The URL of the bucket, for example `s3://texts`; `file://` for the local disk."""
    key: str

    def __str__(self) -> str:
        return f"{self.bucket}/{self.key}"


class ObjectInfo(NamedTuple):
    """The size of an object, and a tag that changes when its content changes."""

    size: int
    tag: str


def parse_url(text: str | Path) -> RemoteURL | None:
    """Split a URL into bucket and key; return None for a path.

    A `Path` made of a URL has lost one slash (`s3:/texts`); it is understood too.
    """
    match = _URL.fullmatch(str(text))
    # One letter would be the drive of a Windows path.
    if match is None or len(match["scheme"]) == 1:
        return None
    scheme, rest = match["scheme"], match["rest"]
    if scheme not in SCHEMES:
        listed = ", ".join(f"{name}://" for name in SCHEMES)
        raise DataError(f"found a URL with {scheme}://, expected a path or one of: {listed}")
    if scheme == "file":
        return RemoteURL("file://", _clean_key(rest))
    bucket, _, key = rest.partition("/")
    # Characters of a key are taken as they are, but no bucket has a name with these.
    if "@" in bucket or ":" in bucket:
        raise DataError(
            f"found a {scheme}:// URL that contains a user name or a password; remove it from the "
            f"URL. Credentials are read from the environment: {_CREDENTIALS[scheme]}"
        )
    if "X-Amz-Signature=" in key or "&sig=" in key or "?sig=" in key:
        raise DataError(
            f"found a signed {scheme}:// URL, which contains a credential; give the plain URL. "
            f"Credentials are read from the environment: {_CREDENTIALS[scheme]}"
        )
    if not bucket:
        raise DataError(f"found {text!s}, expected a bucket: {scheme}://BUCKET/KEY")
    return RemoteURL(f"{scheme}://{bucket}", _clean_key(key))


def _clean_key(key: str) -> str:
    parts = [part for part in key.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise DataError(f"found the key {key!r}, expected a key without '..'")
    return "/".join(parts)


@lru_cache(maxsize=64)
def open_store(bucket: str) -> Store:
    """Return the store of a bucket; one process opens it once."""
    return Store(bucket)


class Store:
    """The objects of one bucket. A method that takes a key raises `FileNotFoundError` without it.

    `attempts` and `pause` bound the repetitions: the pause (seconds) doubles after every attempt.
    """

    def __init__(self, bucket: str, *, attempts: int = 6, pause: float = 0.5) -> None:
        self.bucket = bucket
        self.attempts = attempts
        self.pause = pause
        self._obstore, self._store = _connect(bucket)

    def info(self, key: str) -> ObjectInfo | None:
        """Return the size and the tag of an object, or None if there is none."""
        try:
            meta = self._call("asking for", key, lambda: self._obstore.head(self._store, key))
        except FileNotFoundError:
            return None
        return ObjectInfo(meta["size"], meta["e_tag"] or str(meta["last_modified"]))

    def exists(self, key: str) -> bool:
        """Return whether there is such an object."""
        return self.info(key) is not None

    def size(self, key: str) -> int:
        """Return the number of bytes of an object."""
        info = self.info(key)
        if info is None:
            raise self._missing(key)
        return info.size

    def list(self, prefix: str) -> list[str]:
        """Return the keys of all objects in a folder and its subfolders, sorted.

        No result of Dragoman depends on it: complete folders have a manifest with their names.
        """

        def pages() -> list[str]:
            chunks = self._obstore.list(self._store, prefix or None)
            return sorted(meta["path"] for chunk in chunks for meta in chunk)

        return self._call("listing", prefix, pages)

    def read(self, key: str) -> bytes:
        """Return the bytes of an object."""
        return b"".join(self.stream(key))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Return `length` bytes from `start`; the object must have them."""
        if not length:
            return b""

        def read() -> bytes:
            data = self._obstore.get_range(self._store, key, start=start, length=length)
            if len(data) != length:
                raise _TruncatedError
            return bytes(data)

        return self._call("reading", key, read)

    def stream(self, key: str, start: int = 0) -> Iterator[bytes]:
        """Yield the bytes of an object in blocks; a block that fails is read again, alone."""
        size = self.size(key)
        for position in range(start, size, BLOCK_BYTES):
            yield self.read_range(key, position, min(BLOCK_BYTES, size - position))

    def open(self, key: str, window_bytes: int = _WINDOW_BYTES) -> RemoteFile:
        """Open an object for reading at any position."""
        return RemoteFile(self, key, self.size(key), window_bytes)

    def put(self, key: str, data: bytes | Path) -> None:
        """Write an object from bytes or a file, in parts if it is large; replace an older one."""
        size = data.stat().st_size if isinstance(data, Path) else len(data)

        def put() -> None:
            self._obstore.put(
                self._store, key, data, chunk_size=BLOCK_BYTES, max_concurrency=4, mode="overwrite"
            )
            if self._obstore.head(self._store, key)["size"] != size:
                raise _TruncatedError

        self._call("writing", key, put)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write an object unless it exists; return whether it now has this content.

        If the answer to a request is lost, the next attempt finds the object of the first. So the
        content decides: of writers with different contents, exactly one gets True.
        """
        already_exists = self._obstore.exceptions.AlreadyExistsError

        def put() -> bool:
            try:
                self._obstore.put(self._store, key, data, mode="create")
            except already_exists:
                return False
            return True

        return self._call("writing", key, put) or self.read(key) == data

    def copy(self, key: str, new_key: str) -> None:
        """Copy an object inside the store."""
        self._call("copying", key, lambda: self._obstore.copy(self._store, key, new_key))

    def delete(self, key: str) -> None:
        """Delete an object; it need not exist."""
        # On the local disk, a folder may have this name.
        if self.bucket == "file://" and not self.exists(key):
            return
        try:
            self._call("deleting", key, lambda: self._obstore.delete(self._store, key))
        except FileNotFoundError:
            return

    def _missing(self, key: str) -> FileNotFoundError:
        return FileNotFoundError(f"there is no object {self.bucket}/{key}")

    def _call(self, what: str, key: str, request: Callable[[], Value]) -> Value:
        """Send a request until it succeeds, `attempts` times at most."""
        errors = self._obstore.exceptions
        pause = self.pause
        for attempt in range(1, self.attempts + 1):
            try:
                return request()
            except (FileNotFoundError, errors.NotFoundError):
                if what == "writing":
                    reason = f"there is no bucket {self.bucket}; create it, or correct its name"
                    raise StorageError(f"{what} {key} failed: {reason}") from None
                raise self._missing(key) from None
            except (errors.PermissionDeniedError, errors.UnauthenticatedError, PermissionError):
                raise StorageError(self._refused(what, key)) from None
            except (errors.NotSupportedError, errors.InvalidPathError) as error:
                kind = type(error).__name__
                raise StorageError(f"{what} {self.bucket}/{key} is not possible: {kind}") from None
            except (errors.BaseError, OSError, _TruncatedError) as error:
                # Not every server and not every kind of request says it in obstore's terms.
                if _status(error) in ("401", "403"):
                    raise StorageError(self._refused(what, key)) from None
                # A file where a folder of the key would be: nothing is there.
                if "(os error 20)" in str(error):
                    raise self._missing(key) from None
                if attempt == self.attempts:
                    reason = _reason(error)
                    raise StorageError(self._exhausted(what, key, reason)) from None
            # Workers that failed together must not come back together.
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311  (no secret)
            pause *= 2
        raise AssertionError("unreachable")

    def _refused(self, what: str, key: str) -> str:
        scheme = urlsplit(self.bucket).scheme
        return (
            f"{what} {self.bucket}/{key} was refused: the credentials are missing, wrong or not "
            f"allowed to do this. Check {_CREDENTIALS[scheme]} in the environment of this process"
        )

    def _exhausted(self, what: str, key: str, reason: str) -> str:
        return (
            f"{what} {self.bucket}/{key} failed {self.attempts} times ({reason}; each time up to "
            f"{_INNER_RETRIES + 1} requests). Check the network and the store, then type the same "
            "command again: finished work is kept"
        )


class RemoteFile(io.RawIOBase):
    """An object that is read in ranges, with one window for small reads."""

    def __init__(self, store: Store, key: str, size: int, window_bytes: int) -> None:
        self._store = store
        self._key = key
        self._size = size
        self._window_bytes = window_bytes
        self._window, self._window_start = b"", 0
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, origin + offset)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def size(self) -> int:
        """Return the number of bytes; Arrow asks for it."""
        return self._size

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; return the number of bytes."""
        view = memoryview(buffer).cast("B")
        data = self._read_at(self._position, min(len(view), max(0, self._size - self._position)))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _read_at(self, start: int, length: int) -> bytes:
        offset = start - self._window_start
        if offset >= 0 and offset + length <= len(self._window):
            return self._window[offset : offset + length]
        if length >= self._window_bytes:
            return self._store.read_range(self._key, start, length)
        # Near the end, the window ends with the object: readers go backwards from a footer.
        first = max(0, min(start, self._size - self._window_bytes))
        count = min(self._window_bytes, self._size - first)
        self._window = self._store.read_range(self._key, first, count)
        self._window_start = first
        return self._window[start - first : start - first + length]


class _TruncatedError(Exception):
    """The store returned or kept another number of bytes than expected."""


def _reason(error: BaseException) -> str:
    """Describe an error without the server's answer, which may name a key."""
    if isinstance(error, _TruncatedError):
        return "the number of bytes was wrong"
    if status := _status(error):
        return f"HTTP status {status}"
    local = re.search(r"[A-Z][A-Za-z ]+ \(os error \d+\)", str(error))
    if local:
        return local[0]
    return "no connection, or the connection was lost"


def _status(error: BaseException) -> str:
    """The HTTP status of an answer, or nothing."""
    found = re.search(r"status code: (\d{3}) [A-Z]", str(error))
    return found[1] if found else ""


def _connect(bucket: str) -> tuple[Any, Any]:
    """Import obstore and open a bucket with the settings of the environment."""
    try:
        import obstore  # noqa: PLC0415  (an optional package)
        import obstore.exceptions  # noqa: PLC0415
        import obstore.store  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError(f"{bucket} (a URL)", "obstore", "cloud") from None
    scheme = urlsplit(bucket).scheme
    if scheme == "file":
        return obstore, obstore.store.LocalStore("/")
    kinds = {"s3": obstore.store.S3Store, "gs": obstore.store.GCSStore}
    options: dict[str, Any] = {
        "client_options": {
            "allow_http": _allows_http(),
            "timeout": timedelta(seconds=60),
            "connect_timeout": timedelta(seconds=10),
        },
        "retry_config": {
            "max_retries": _INNER_RETRIES,
            "retry_timeout": timedelta(seconds=120),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        },
    }
    name = bucket.partition("://")[2]
    try:
        return obstore, kinds.get(scheme, obstore.store.AzureStore)(name, **options)
    except obstore.exceptions.BaseError:
        raise StorageError(
            f"{bucket} cannot be opened; check the environment: {_CREDENTIALS[scheme]}"
        ) from None


def _allows_http() -> bool:
    """Return whether a connection without encryption is allowed: to this machine, or if asked."""
    if os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes"):
        return True
    hosts = [
        urlsplit(os.environ.get(name, "")).hostname
        for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3")
    ]
    return any(host in ("127.0.0.1", "localhost", "::1") for host in hosts)
