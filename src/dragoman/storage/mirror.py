"""Local paths that stand for remote files, so that most of the program only knows `Path`.

A *mirror* is a local folder that stands for a bucket:

    CACHE/s3-1f0c….mirror/url          the URL of the bucket
    CACHE/s3-1f0c….mirror/files/KEY    the path that stands for the object KEY; no file is there
    CACHE/s3-1f0c….mirror/copies/KEY   the copy of the object, once it was fetched; a plain path
    CACHE/s3-1f0c….mirror/tags/KEY     which version of it was fetched
    CACHE/s3-1f0c….mirror/partial/     files that are being written; they stand for nothing remote
    CACHE/s3-1f0c….mirror/runs/KEY     the working folder of a run in the store; a plain path

`local_path` turns a URL into a path in a mirror, and `locate` finds the URL again, from the path
alone. A plain path belongs to no mirror, and all functions here do for it what `Path` does.
The mirror is a cache: it may be deleted at any time. CACHE is `DRAGOMAN_CACHE`, by default
`~/.cache/dragoman`.

A folder that was written as a whole (`files.atomic_folder`) is read by its manifest
(`folder_manifest.py`).
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import io
import os
import posixpath
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

from pydantic import BeforeValidator, PlainSerializer

from dragoman.errors import DataError
from dragoman.storage.folder_manifest import FOLDER_MANIFEST, StoredFile, files_in, find_file
from dragoman.storage.remote import (
    BLOCK_BYTES,
    ObjectInfo,
    RemoteURL,
    StorageError,
    Store,
    open_store,
    parse_url,
)

_SUFFIX, _URL = ".mirror", "url"
_FILES, _COPIES, _TAGS, _PARTIAL, _RUNS = "files", "copies", "tags", "partial", "runs"
_THREADS = 8
_ATTEMPTS = 10
_WILDCARDS = "*?["


def local_path(text: str | Path, base_folder: Path = Path()) -> Path:
    """Return the path of a file that a user named: relative to a folder, or by its URL."""
    url = parse_url(text)
    return base_folder / text if url is None else _mirror(url.bucket) / _FILES / url.key


def locate(path: Path) -> RemoteURL | None:
    """Return the URL that a path in a mirror stands for; None for a plain path."""
    # The name comes first: a plain path costs no system call.
    return _url_of(path, (_FILES,)) if _SUFFIX in str(path) else None


def _url_of(path: Path, trees: Sequence[str]) -> RemoteURL | None:
    parts = path.parts
    for index, (folder, inner) in enumerate(pairwise(parts), start=1):
        if folder.endswith(_SUFFIX) and inner in trees:
            bucket = _bucket_of(Path(*parts[:index]))
            if bucket is not None:
                key = posixpath.normpath("/".join(parts[index + 1 :]) or ".")
                if key == ".." or key.startswith("../"):
                    raise DataError(f"{bucket}/{key} is outside of the bucket")
                return RemoteURL(bucket, "" if key == "." else key)
    return None


def partial_path(url: RemoteURL) -> Path:
    """Return a new local path for a file or folder before its upload."""
    folder = _mirror(url.bucket) / _PARTIAL / os.urandom(6).hex()
    folder.mkdir(parents=True)
    # The name stays: some libraries write it into the file, or look at its extension.
    return folder / (posixpath.basename(url.key) or "bucket")


def working_folder(url: RemoteURL) -> Path:
    """Return the local folder in which this machine works on a run of the store."""
    return _mirror(url.bucket) / _RUNS / url.key


def path_text(path: Path) -> str:
    """Return the URL of a path or copy, and a plain path as it is: for people and recipes."""
    url = _url_of(path, (_FILES, _COPIES, _RUNS)) if _SUFFIX in str(path) else None
    return str(path) if url is None else str(url)


def _read_path(value: Any) -> Any:
    return str(local_path(value)) if isinstance(value, str) else value


StoredPath = Annotated[
    Path, BeforeValidator(_read_path), PlainSerializer(path_text, return_type=str)
]
"""A path that is sent to other machines: as URL, if it has one. There it names their mirror."""


def exists(path: Path) -> bool:
    """Return whether a file or a complete folder exists; a store is asked, not the mirror."""
    url = locate(path)
    if url is None:
        return path.exists()
    store = open_store(url.bucket)
    return store.exists(url.key) or store.exists(posixpath.join(url.key, FOLDER_MANIFEST))


def existing(paths: Sequence[Path]) -> set[Path]:
    """Return those of many paths that exist; a store is asked about several at once."""
    return {path for path, found in zip(paths, _map(exists, paths), strict=True) if found}


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder; remote: whether some object is in it."""
    url = locate(path)
    if url is None:
        return path.is_dir()
    store = open_store(url.bucket)
    return not store.exists(url.key) and bool(files_in(store, url.key))


def size(path: Path) -> int:
    """Return the number of bytes of a file."""
    return int(fingerprint(path)[0])


def fingerprint(path: Path) -> tuple[int, int | str]:
    """Return the size of a file, and a value that changes with its content."""
    url = locate(path)
    if url is None:
        status = path.stat()
        return status.st_size, status.st_mtime_ns
    store, key = _find_object(url)
    return _info(store, key)


def open_input(path: Path) -> BinaryIO:
    """Open a file for reading at any position; an object is read in ranges."""
    url = locate(path)
    if url is None:
        return path.open("rb")
    store, key = _find_object(url)
    return cast(BinaryIO, store.open(key))


def open_stream(path: Path) -> BinaryIO:
    """Open a file that is read from beginning to end; an object is not kept on the disk."""
    url = locate(path)
    if url is None:
        return path.open("rb")
    store, key = _find_object(url)
    return cast(BinaryIO, io.BufferedReader(store.open(key, BLOCK_BYTES)))


def read_text(path: Path) -> str:
    """Read a small text file."""
    with open_stream(path) as file:
        return file.read().decode()


def names(folder: Path) -> list[str]:
    """Return the names of all files in a folder and its subfolders, sorted; none without it."""
    url = locate(folder)
    if url is None:
        files = (file for file in folder.rglob("*") if file.is_file())
        return sorted(file.relative_to(folder).as_posix() for file in files)
    return list(files_in(open_store(url.bucket), url.key))


def is_pattern(name: str) -> bool:
    """Return whether a path or a URL that a user named stands for several files."""
    return any(sign in name for sign in _WILDCARDS) and not Path(name).exists()


def matches(pattern: Path) -> list[Path]:
    """Return the files of a store that match a pattern, sorted; `*` does not match a slash."""
    url = locate(pattern)
    assert url is not None
    parts = url.key.split("/")
    fixed = list(takewhile(lambda part: not any(sign in part for sign in _WILDCARDS), parts))
    root = pattern
    for _ in range(len(parts) - len(fixed)):
        root = root.parent
    rest = parts[len(fixed) :]
    return [
        root / name
        for name in names(root)
        if len(name.split("/")) == len(rest)
        and all(map(fnmatch.fnmatchcase, name.split("/"), rest))
    ]


def fetch(path: Path, *, leave_out: Sequence[str] = ()) -> Path:
    """Copy a remote file or folder to this machine, unless the same version is here.

    Return the path of the copy, which is a plain path. It does not exist if there is no such file.
    Files that other programs have put beside the copy stay. `leave_out` names subfolders that are
    not needed.
    """
    url = locate(path)
    if url is None:
        return path
    store, root = open_store(url.bucket), _mirror(url.bucket)
    try:
        files = {"": find_file(store, url.key)}
    except FileNotFoundError:
        files = {
            name: file
            for name, file in files_in(store, url.key).items()
            if name.partition("/")[0] not in leave_out
        }
    _remove_others(root, url.key, files)

    def fetch_one(name: str) -> None:
        _fetch_file(store, root, posixpath.join(url.key, name).rstrip("/"), files[name])

    _map(fetch_one, files)
    return root / _COPIES / url.key


def fetch_all(folder: Path, names_: Sequence[str]) -> Path:
    """Fetch some files of a folder, several at once; return the path of the folder's copy."""
    _map(fetch, [folder / name for name in names_])
    url = locate(folder)
    return folder if url is None else _mirror(url.bucket) / _COPIES / url.key


def find_object(path: Path) -> tuple[Store, str] | None:
    """Return the store and the key of the object that a path stands for; None for a plain path."""
    url = locate(path)
    return None if url is None else _find_object(url)


def _find_object(url: RemoteURL) -> tuple[Store, str]:
    store = open_store(url.bucket)
    return store, find_file(store, url.key).key


def _info(store: Store, key: str) -> ObjectInfo:
    info = store.info(key)
    if info is None:
        raise FileNotFoundError(f"there is no object {store.bucket}/{key}")
    return info


def _fetch_file(store: Store, root: Path, name: str, file: StoredFile) -> None:
    """Fetch a file; in the mirror it has the name `name`."""
    size_, tag = file.entry or _info(store, file.key)
    if _is_fetched(root, name, size_, tag):
        return
    path = root / _COPIES / name
    digest = download(store, file.key, size_, path)
    if file.entry is not None and digest != tag:
        path.unlink(missing_ok=True)
        raise StorageError(
            f"{store.bucket}/{file.key} is damaged: its hash is not the one in {FOLDER_MANIFEST}; "
            "delete the folder, and make it again"
        )
    _write_tag(root, name, tag)


def _is_fetched(root: Path, key: str, size_: int, tag: str) -> bool:
    file, tag_file = root / _COPIES / key, root / _TAGS / key
    try:
        return file.stat().st_size == size_ and tag_file.read_text(encoding="utf-8") == tag
    except OSError:
        return False


def download(store: Store, key: str, size_: int, path: Path) -> str:
    """Write an object to a path, by a temporary file beside it; return its hash."""
    temporary = _new_temporary(path)
    digest = hashlib.sha256()
    try:
        with temporary.open("wb") as file:
            for start in range(0, size_, BLOCK_BYTES):
                block = store.read_range(key, start, min(BLOCK_BYTES, size_ - start))
                digest.update(block)
                file.write(block)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return digest.hexdigest()


def _new_temporary(path: Path) -> Path:
    """Create an empty file beside a path.

    Between making the folder and the file, another process can remove the folder, because it is
    still empty (`_remove_others`).
    """
    temporary = path.with_name(f".{os.getpid()}.{os.urandom(6).hex()}.tmp")
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch(exist_ok=False)
        except FileNotFoundError:
            if not attempts_left:
                raise
        else:
            break
    return temporary


def _write_tag(root: Path, key: str, tag: str) -> None:
    path = root / _TAGS / key
    temporary = _new_temporary(path)
    temporary.write_text(tag, encoding="utf-8")
    temporary.replace(path)


def _remove_others(root: Path, key: str, kept: Iterable[str]) -> None:
    """Remove the copies that an earlier version of a file or folder had, by their tags."""
    tags = root / _TAGS / key
    wanted = {tags / name for name in kept}
    found = [tags] if tags.is_file() else [tag for tag in tags.rglob("*") if tag.is_file()]
    for tag in found:
        if tag not in wanted and not tag.name.endswith(".tmp"):
            (root / _COPIES / tag.relative_to(root / _TAGS)).unlink(missing_ok=True)
            tag.unlink(missing_ok=True)
    for folder in (root / _COPIES / key, tags):
        # A folder of which nothing is left must not look like one that exists.
        for inner in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
            _remove_if_empty(inner)
        _remove_if_empty(folder)


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _map(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Apply a function to all items, several at once if they are remote."""
    listed = list(items)
    is_remote = any(not isinstance(item, Path) or locate(item) for item in listed)
    if not is_remote or len(listed) < 2:
        return [function(item) for item in listed]
    with ThreadPoolExecutor(min(_THREADS, len(listed))) as pool:
        return list(pool.map(function, listed))


def _mirror(bucket: str) -> Path:
    """Return the folder that stands for a bucket, with its marker."""
    cache = os.environ.get("DRAGOMAN_CACHE")
    folder = Path(cache) if cache else Path.home() / ".cache" / "dragoman"
    scheme = bucket.partition(":")[0]
    digest = hashlib.sha256(bucket.encode()).hexdigest()[:16]
    root = folder.absolute() / f"{scheme}-{digest}{_SUFFIX}"
    marker = root / _URL
    if _bucket_of(root) is None:
        root.mkdir(parents=True, exist_ok=True)
        temporary = root / f".{os.getpid()}.{os.urandom(6).hex()}.tmp"
        temporary.write_text(bucket, encoding="utf-8")
        temporary.replace(marker)
        _bucket_of.cache_clear()
    return root


@lru_cache(maxsize=64)
def _bucket_of(root: Path) -> str | None:
    """Read the marker of a mirror; None if the folder only has such a name."""
    try:
        return (root / _URL).read_text(encoding="utf-8")
    except OSError:
        return None
