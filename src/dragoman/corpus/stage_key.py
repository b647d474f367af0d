"""Computes the keys that name the folders of the stages.

A stage works in a folder whose name is the hash of everything it depends on: its settings and the
stages before it. So a second run finds all stages done, and a changed setting repeats exactly the
stages that depend on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dragoman.recipe.parts import Choice
from dragoman.storage.files import sha256, write_text
from dragoman.storage.mirror import exists, fingerprint, path_text, read_text

VERSION = 5
"""The version of the stages; raise it if a stage writes other bytes for the same settings."""


def stage_key(dependencies: Sequence[Any], length: int = 16) -> str:
    """Hash everything that a stage depends on."""
    text = json.dumps([VERSION, *dependencies], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def part_key(choice: Choice) -> list[Any]:
    """Return what a part depends on: name, options, and the source code if it is a user's part."""
    spec = find_spec(choice.name) if "." in choice.name else None
    source_hash = sha256(Path(spec.origin)) if spec and spec.origin else None
    return [choice.model_dump(), source_hash]


class FileHashes:
    """Hashes of corpus files, cached as long as size and modification time stay the same.

    A remote file has a tag instead of a modification time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, tuple[int, int | str, str]] = {}
        if exists(path):
            content = json.loads(read_text(path))
            self._known = {name: (size, time, key) for name, (size, time, key) in content.items()}

    def hash(self, path: Path) -> str:
        """Return the SHA-256 of a file."""
        current = fingerprint(path)
        name = path_text(path)
        cached = self._known.get(name)
        if cached is None or cached[:2] != current:
            cached = (*current, sha256(path))
            self._known[name] = cached
        return cached[2]

    def save(self) -> None:
        """Write the cache if it has changed."""
        text = json.dumps(self._known, indent=1, sort_keys=True)
        if not exists(self._path) or read_text(self._path) != text:
            write_text(self._path, text)
