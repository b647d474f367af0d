"""How is a file written so that it is there complete, or not at all?

Everything durable goes through here: write beside the place under a temporary name, flush it to
the disk, rename, flush the folder. A crash at any moment leaves the old state or the new one, and
at most a temporary file, which nobody reads.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

_BLOCK = 1 << 20


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Give a temporary place to write to, and put what was written at `path` in one move."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        yield temporary
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def new_folder(path: Path, temporary: Path | None = None) -> Iterator[Path]:
    """Give a temporary folder to fill, and put it at `path` in one move.

    Where two do the same work at once, the first to finish stays. Who fills it together with
    others names the temporary folder, which may already have their files.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary or _temporary(path)
    temporary.mkdir(exist_ok=True)
    try:
        yield temporary
        for file in temporary.iterdir():
            _flush(file)
        _flush(temporary)
        try:
            temporary.rename(path)
        except OSError:
            if not path.exists():
                raise
        _flush(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a text as it stands: UTF-8, its line ends untouched."""
    with new_file(path) as temporary:
        temporary.write_bytes(text.encode())


def place(source: Path, path: Path) -> None:
    """Put a finished file at a second place, by a link where the file system knows them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as temporary:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)


def sweep(folder: Path) -> None:
    """Remove the temporary files that a crash has left; nobody may be writing there now."""
    for left_over in folder.rglob(".*.tmp"):
        if left_over.is_file():
            left_over.unlink()


def sha256(path: Path) -> str:
    """Hash a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def damages(folder: Path, hashes: Mapping[str, str]) -> Iterator[str]:
    """Say which files of a folder are not those that were hashed."""
    for name, digest in hashes.items():
        file = folder / name
        if not file.is_file():
            yield f"{name} is missing"
        elif sha256(file) != digest:
            yield f"{name} is not what was written"


def _temporary(path: Path) -> Path:
    # The process and a random part: another machine may be at the same work.
    return path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
