"""The manifest of a prepared folder (`manifest.json`): what belongs to it, with all hashes.

A prepared folder is complete exactly when its manifest exists. `format` is the version of the
folder's format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman.errors import DataError
from dragoman.recipe.schema import LanguagesRecipe, TokenizerRecipe
from dragoman.storage.mirror import path_text, read_text

FORMAT = 1
MANIFEST = "manifest.json"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ShardCounts(_Frozen):
    """The counts in the metadata of a shard."""

    rows: int
    too_long: int = 0
    """The pairs that were left out because a side has more tokens than `corpus.max_tokens`."""
    augmented: int = 0
    """The pairs with span tokens (`corpus.span_augmentation`), before long ones were left out."""
    annotated: int = 0
    """The pairs with terms of `corpus.glossary`, before long ones were left out."""
    source_tokens: int = 0
    target_tokens: int = 0
    longest: int = 0
    """The number of tokens of the longest side."""
    origins: Mapping[int, int] = {}
    """The number of pairs of each corpus, by the number of the corpus."""


class ManifestShard(ShardCounts):
    """One training shard."""

    file: str
    sha256: str = ""


class ManifestHeader(_Frozen):
    """Where the prepared data comes from. Corpora are numbered in the order of the recipe."""

    languages: LanguagesRecipe = LanguagesRecipe()
    tokenizer: TokenizerRecipe | None = None
    """What the recipe asked for; None if an older version prepared the corpus."""
    recipe_sha256: str = ""
    corpora: tuple[str, ...] = ()
    """The names of the corpora."""
    weights: Mapping[int, float] = {}
    """The sampling weight of each corpus."""


class Manifest(ManifestHeader):
    """The content of `manifest.json`."""

    format: int = FORMAT
    train: tuple[ManifestShard, ...]
    files: Mapping[str, str] = {}
    """The SHA-256 of tokenizers and held-out texts, by file name."""
    origins: Mapping[int, int] = {}
    """The number of training pairs of each corpus."""

    @property
    def content_sha256(self) -> str:
        """Hash of all that decides the numbers of a run: no names of corpora, no other settings."""
        parts = {"languages", "train", "files", "weights"}
        # Without defaults: a field that a later version adds does not change the hash.
        content = self.model_dump(mode="json", include=parts, exclude_defaults=True)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        """Return the text of `manifest.json`."""
        content = self.model_dump(mode="json")
        return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def read_manifest(folder: Path, command: str = "dragoman prepare RECIPE") -> Manifest:
    """Read the manifest of a prepared folder; `command` is what to type if there is none."""
    try:
        content = json.loads(read_text(folder / MANIFEST))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"{path_text(folder)!r} is not a prepared folder, or its preparation was not finished; "
            f"type: {command}"
        ) from None
    except ValueError:
        content = None
    if isinstance(content, dict) and content.get("format") != FORMAT:
        raise DataError(
            f"{path_text(folder)!r} has format {content.get('format')}, expected {FORMAT}; prepare "
            f"it again with this version of Dragoman: {command}"
        )
    try:
        return Manifest.model_validate(content)
    except ValidationError:
        raise DataError(
            f"the manifest of {path_text(folder)!r} is damaged; type: {command}"
        ) from None
