"""Write files so that they are complete or do not exist.

Every durable file is written here: write to a temporary name in the same folder, flush it to disk,
rename it, flush the folder. A crash at any moment leaves the old state or the new state, and at
most a temporary file that nobody reads.

If the path stands for a remote one (`mirror.py`), the temporary file is uploaded instead. A store
shows an object when its upload is complete. The files of a folder are uploaded first, under names
that contain a hash of the whole folder; then one conditional put of the folder's manifest makes
them visible. The local copy is not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dragoman.errors import ArtifactError, DataError
from dragoman.storage.folder_manifest import (
    FOLDER_MANIFEST,
    FileEntry,
    FolderManifest,
    files_in,
    read_folder_manifest,
)
from dragoman.storage.mirror import fetch, find_object, locate, open_stream, partial_path
from dragoman.storage.remote import RemoteURL, StorageError, open_store, parse_url

_BLOCK = 1 << 20
_UPLOADS = 4
"""The number of files of a folder that are uploaded at the same time."""
_DELETIONS = 8


@contextlib.contextmanager
def atomic_write(path: Path, *, is_private: bool = False) -> Iterator[Path]:
    """Give a temporary path to write to; then rename it to `path`.

    A private file has mode 0600 from its first byte on.
    """
    url = locate(path)
    if url is not None:
        with _partial(url) as temporary:
            yield temporary
            open_store(url.bucket).put(url.key, temporary)
        return
    refuse_url(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        if is_private:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield temporary
        if not is_private:
            _share(temporary)
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: Path, temporary: Path | None = None) -> Iterator[Path]:
    """Give a temporary folder to fill; then rename it to `path`.

    If two processes do the same work, the result of the first is kept. Processes that fill one
    folder together pass the temporary folder, which may already contain files of the others.
    """
    url = locate(path)
    if url is not None:
        with _partial(url) as own:
            folder = temporary or own
            folder.mkdir(exist_ok=True)
            yield folder
            _publish(folder, url)
        return
    refuse_url(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary or _temporary(path)
    temporary.mkdir(exist_ok=True)
    try:
        yield temporary
        for item in temporary.rglob("*"):
            if item.is_file():
                _share(item)
            _flush(item)
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
    """Write text as UTF-8, with its newlines unchanged."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(text.encode())


def atomic_symlink(target: str, path: Path) -> None:
    """Create a symbolic link, or let an existing one point to another target in one step."""
    if (url := locate(path)) is not None:
        raise StorageError(f"{url} cannot be a symbolic link; use a local folder")
    temporary = _temporary(path)
    try:
        temporary.symlink_to(target)
        temporary.replace(path)
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def link_or_copy(source: Path, path: Path, *, links: bool = True) -> None:
    """Put a finished file at a second path: a hard link if the file system allows it, or a copy.

    A hard link shares changes that a program makes in place; `links=False` always copies. A store
    copies its own objects itself.
    """
    url, found = locate(path), find_object(source)
    if url is not None and found is not None and found[0].bucket == url.bucket:
        store, key = found
        store.copy(key, url.key)
        return
    if url is not None and found is None:
        open_store(url.bucket).put(url.key, source)
        return
    source = fetch(source)
    with atomic_write(path) as temporary:
        if not (links and _link(source, temporary)):
            shutil.copyfile(source, temporary)


def remove(path: Path) -> None:
    """Remove a file or a folder, which need not exist; of a remote folder, the manifest first."""
    url = locate(path)
    if url is None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        return
    if not url.key:
        raise DataError(f"found {url.bucket}, expected a folder in it: a bucket is never emptied")
    store = open_store(url.bucket)
    files = [file.key for file in files_in(store, url.key).values()]
    keys = {url.key, f"{url.key}/{FOLDER_MANIFEST}", *files, *store.list(url.key)}
    manifests = {key for key in keys if key.endswith(f"/{FOLDER_MANIFEST}")}
    for key in sorted(manifests):
        store.delete(key)
    with ThreadPoolExecutor(_DELETIONS) as pool:
        list(pool.map(store.delete, sorted(keys - manifests)))


def remove_partials(folder: Path) -> None:
    """Remove temporary files and folders that a crash has left. No process may write there now."""
    refuse_outside_links(folder)
    for parent, folders, files in os.walk(folder, followlinks=False):
        for name in filter(_is_temporary, files):
            Path(parent, name).unlink(missing_ok=True)
        for name in list(filter(_is_temporary, folders)):
            shutil.rmtree(Path(parent, name), ignore_errors=True)
            folders.remove(name)  # It is not walked through.


def refuse_url(path: Path) -> None:
    """Refuse a URL that was taken for a path: it would become a folder with the name `s3:`."""
    url = parse_url(path)
    if url is not None:
        raise DataError(
            f"found {url}, expected a path: this command writes only to local folders; write "
            "there, and copy the result"
        )


def refuse_outside_links(folder: Path) -> None:
    """Raise an error if a symbolic link in the folder leads outside of it.

    Writing through such a link would change files that are not ours. The folder itself may be a
    link: its owner chose that.
    """
    root = folder.resolve()
    for parent, folders, files in os.walk(folder, followlinks=False):
        for name in (*folders, *files):
            path = Path(parent, name)
            # Not `Path.resolve`: before Python 3.13 it fails for a link that leads to itself.
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):
                raise ArtifactError(
                    f"{str(path)!r} is a symbolic link that leads out of {str(folder)!r}, where "
                    f"Dragoman would write; remove it: rm {shlex.quote(str(path))}"
                )


def sha256(path: Path) -> str:
    """Hash a file."""
    digest = hashlib.sha256()
    with open_stream(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def verify_hashes(folder: Path, hashes: Mapping[str, str]) -> Iterator[str]:
    """Report the files of a folder that are missing or have another hash."""
    for name, digest in hashes.items():
        file = folder / name
        if not file.is_file():
            yield f"{name} is missing"
        elif sha256(file) != digest:
            yield f"{name} is not what was written"


@contextlib.contextmanager
def _partial(url: RemoteURL) -> Iterator[Path]:
    """Give a local path for what will be uploaded, and remove it at the end."""
    path = partial_path(url)
    try:
        yield path
    finally:
        shutil.rmtree(path.parent, ignore_errors=True)


def _publish(folder: Path, url: RemoteURL) -> None:
    """Upload the files of a local folder, and then the manifest, unless another process did."""
    store = open_store(url.bucket)
    if read_folder_manifest(store, url.key) is not None:
        return
    files = {file.relative_to(folder).as_posix(): file for file in _files(folder)}
    manifest = FolderManifest.of(
        {name: FileEntry(file.stat().st_size, sha256(file)) for name, file in files.items()}
    )
    with ThreadPoolExecutor(_UPLOADS) as pool:
        uploads = [
            pool.submit(store.put, manifest.key(url.key, name), file)
            for name, file in files.items()
        ]
        for upload in uploads:
            upload.result()
    text = manifest.model_dump_json(indent=1).encode()
    if not store.put_if_absent(f"{url.key}/{FOLDER_MANIFEST}", text):
        # Another process has published other content; ours is visible to nobody.
        for name in files:
            store.delete(manifest.key(url.key, name))


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.rglob("*")) if file.is_file())


def _temporary(path: Path) -> Path:
    # Process id and a random part: a process on another machine may write the same file.
    return path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")


def _link(source: Path, path: Path) -> bool:
    """Make a hard link; return whether the file system allows it."""
    try:
        os.link(source, path)
    except OSError:
        return False
    return True


def _share(path: Path) -> None:
    """Give a private file the permissions of any new file; safetensors writes private files."""
    status = path.stat()
    is_private = not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    if is_private and status.st_nlink == 1:  # A hard link keeps the permissions of its source.
        path.chmod(_default_mode(path))


def _default_mode(path: Path) -> int:
    """Give the permissions of a new file in the folder of `path`, by creating one.

    They depend on the umask, which cannot be read without changing it for all threads.
    """
    probe = _temporary(path)
    descriptor = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)
        probe.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
