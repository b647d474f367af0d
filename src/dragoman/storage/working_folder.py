"""Files of a store that a program changes in a local folder and publishes again.

`mirror.fetch` keeps copies that are only read. Here the local folder belongs to the program: it
fetches the files that it needs, writes others beside them, and uploads what has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dragoman.storage.files import atomic_write, sha256
from dragoman.storage.folder_manifest import FOLDER_MANIFEST, FolderManifest, read_folder_manifest
from dragoman.storage.mirror import download
from dragoman.storage.remote import RemoteURL, open_store


def fetch_files(url: RemoteURL, folder: Path, names: Iterable[str]) -> None:
    """Replace local files by those of the store; a file that is not there is removed."""
    store = open_store(url.bucket)
    for name in names:
        path = folder / name
        try:
            content = store.read(f"{url.key}/{name}")
        except FileNotFoundError:
            path.unlink(missing_ok=True)
            continue
        with atomic_write(path) as temporary:
            temporary.write_bytes(content)


def fetch_folder(url: RemoteURL, folder: Path) -> None:
    """Fetch the files of a complete folder; local files with the same content are kept.

    Raise `FileNotFoundError` if there is no complete folder.
    """
    store = open_store(url.bucket)
    manifest = read_folder_manifest(store, url.key)
    if manifest is None:
        raise FileNotFoundError(f"{url} is not complete: it has no {FOLDER_MANIFEST}")
    for name, entry in manifest.files.items():
        path = folder / name
        is_same = path.is_file() and path.stat().st_size == entry.size
        # Another run can have left a file of this size here.
        if not is_same or sha256(path) != entry.sha256:
            download(store, manifest.key(url.key, name), entry.size, path)


def upload(url: RemoteURL, folder: Path, names: Iterable[str]) -> None:
    """Put files of a local folder into the store, in this order; delete those that do not exist."""
    store = open_store(url.bucket)
    for name in names:
        if (folder / name).exists():
            store.put(f"{url.key}/{name}", folder / name)
        else:
            store.delete(f"{url.key}/{name}")


def upload_part(url: RemoteURL, folder: Path, manifest: FolderManifest) -> list[str]:
    """Upload the files of a folder that are on this machine; return the names of the others."""
    store = open_store(url.bucket)
    missing = []
    for name in manifest.files:
        if (folder / name).is_file():
            store.put(manifest.key(url.key, name), folder / name)
        else:
            missing.append(name)
    return missing


def is_uploaded(url: RemoteURL, manifest: FolderManifest, names: Iterable[str]) -> bool:
    """Return whether other machines have uploaded these files of a folder."""
    store = open_store(url.bucket)
    infos = {name: store.info(manifest.key(url.key, name)) for name in names}
    return all(
        info is not None and info.size == manifest.files[name].size for name, info in infos.items()
    )


def publish(url: RemoteURL, manifest: FolderManifest) -> None:
    """Make a folder visible whose files are uploaded; an earlier version of it is replaced."""
    store = open_store(url.bucket)
    earlier = read_folder_manifest(store, url.key)
    store.put(f"{url.key}/{FOLDER_MANIFEST}", manifest.model_dump_json(indent=1).encode())
    if earlier is not None and earlier.version != manifest.version:
        for name in earlier.files:
            store.delete(earlier.key(url.key, name))


def complete_steps(url: RemoteURL, prefix: str) -> list[int]:
    """Return the numbers N of the complete folders `PREFIX-N` in a folder of the store, sorted."""
    end = f"/{FOLDER_MANIFEST}"
    names = (
        key.removeprefix(f"{url.key}/").removesuffix(end)
        for key in open_store(url.bucket).list(url.key)
        if key.endswith(end)
    )
    numbers = (name.removeprefix(f"{prefix}-") for name in names if name.startswith(f"{prefix}-"))
    return sorted(int(number) for number in numbers if number.isdecimal())
