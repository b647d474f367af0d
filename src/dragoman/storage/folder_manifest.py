"""Folders in a store that are complete or invisible.

The objects of such a folder are at FOLDER/VERSION/NAME, where VERSION is a hash of all names and
contents, and one object FOLDER/folder-manifest.json names them. Two processes that write different
content never overwrite each other's objects, and one conditional put of the manifest decides. Who
reads the folder starts from the manifest, never from a list of objects, which may be incomplete.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dragoman.storage.remote import StorageError, Store

FOLDER_MANIFEST = "folder-manifest.json"


_VERSION = r"[0-9a-f]{16}"


class FileEntry(NamedTuple):
    """One file of a complete folder."""

    size: Annotated[int, Field(ge=0)]
    sha256: str


def _check_name(name: str) -> str:
    """Refuse a name that leads out of the folder: a manifest can come from a stranger."""
    if "\\" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError("not the name of a file in the folder")
    return name


class StoredFile(NamedTuple):
    """The object with the content of a file, and what a manifest says about it."""

    key: str
    entry: FileEntry | None = None


class FolderManifest(BaseModel):
    """The files of a folder that was written as a whole."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = 1
    version: Annotated[str, Field(pattern=f"^{_VERSION}$")]
    """Hash of all names and contents; the objects are in a folder of this name."""
    files: dict[Annotated[str, AfterValidator(_check_name)], FileEntry]

    @classmethod
    def of(cls, files: Mapping[str, FileEntry]) -> FolderManifest:
        """Make the manifest of some files."""
        ordered = {name: files[name] for name in sorted(files)}
        text = json.dumps(ordered)
        return cls(version=hashlib.sha256(text.encode()).hexdigest()[:16], files=ordered)

    def key(self, folder: str, name: str) -> str:
        """Return the key of a file."""
        return f"{folder}/{self.version}/{name}"


def read_folder_manifest(store: Store, folder: str) -> FolderManifest | None:
    """Read the manifest of a complete folder; None if the folder is not complete, or no folder."""
    key = posixpath.join(folder, FOLDER_MANIFEST)
    try:
        return FolderManifest.model_validate_json(store.read(key))
    except FileNotFoundError:
        return None
    except ValidationError:
        raise StorageError(f"{store.bucket}/{key} is damaged; delete this folder") from None


def is_unfinished(names: Iterable[str]) -> bool:
    """Return whether all names are those of versions that no manifest made visible, or none."""
    return all(re.match(f"{_VERSION}/", name) for name in names)


def find_file(store: Store, key: str) -> StoredFile:
    """Return the object of a file; its key differs if its folder was written as a whole."""
    if store.exists(key):
        return StoredFile(key)
    folder, name = posixpath.split(key)
    while folder:
        manifest = read_folder_manifest(store, folder)
        if manifest is not None and name in manifest.files:
            return StoredFile(manifest.key(folder, name), manifest.files[name])
        folder, last = posixpath.split(folder)
        name = f"{last}/{name}"
    raise FileNotFoundError(f"there is no object {store.bucket}/{key}")


def files_in(store: Store, folder: str) -> dict[str, StoredFile]:
    """Return the files in a folder and its subfolders by their names; none without the folder.

    A folder without a manifest is one that a user has uploaded. It is listed.
    """
    manifest = read_folder_manifest(store, folder)
    if manifest is not None:
        return {
            name: StoredFile(manifest.key(folder, name), entry)
            for name, entry in manifest.files.items()
        }
    prefix = f"{folder}/" if folder else ""
    listed = [key.removeprefix(prefix) for key in store.list(folder) if key.startswith(prefix)]
    end = f"/{FOLDER_MANIFEST}"
    complete = [name.removesuffix(end) for name in listed if name.endswith(end)]
    files = {
        name: StoredFile(prefix + name)
        for name in listed
        if not any(name.startswith(f"{inner}/") for inner in complete)
    }
    for inner in complete:
        for name, file in files_in(store, prefix + inner).items():
            files[f"{inner}/{name}"] = file
    return dict(sorted(files.items()))
