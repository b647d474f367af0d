"""The folder of a CTranslate2 export: how it is written, read and verified.

    model.bin, config.json, …_vocabulary.json     what CTranslate2 reads
    tokenizer/                                    source and target
    recipe.yaml                                   the recipe of the model
    README.md                                     the model card, which users may edit
    dragoman.json                                 `ExportFacts`

An export translates alone: without the run and without PyTorch, which this file does not import.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from dragoman.errors import ArtifactError, RecipeError
from dragoman.recipe.files import dump_recipe, load_recipe
from dragoman.recipe.schema import Recipe
from dragoman.storage.files import atomic_folder, link_or_copy, sha256, verify_hashes, write_text

FORMAT = 1
"""Version of this layout."""
FOLDER = "ctranslate2"
"""Name of the export inside a run."""

Quantization = Literal["float32", "int8", "int8_float32", "int16", "float16", "bfloat16"]

FACTS, _RECIPE, _TOKENIZER, _README = "dragoman.json", "recipe.yaml", "tokenizer", "README.md"


class ExportFacts(BaseModel):
    """The content of `dragoman.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    model: str
    """SHA-256 of the weights file that the export was made from."""
    quantization: Quantization
    max_positions: int | None
    """Maximum tokens of a source with its end, or a target with its begin (None = unlimited)."""
    sha256: dict[str, str]
    """SHA-256 of each file, by its path relative to the folder."""


class _Version(BaseModel):
    """The part of `dragoman.json` that every version has."""

    format: int


@dataclass(frozen=True, slots=True)
class Export:
    """An export whose files match their hashes."""

    folder: Path
    recipe: Recipe
    facts: ExportFacts

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizers."""
        return self.folder / _TOKENIZER


def is_export(folder: Path) -> bool:
    """Whether a folder is a CTranslate2 export (and not a run)."""
    return (folder / FACTS).is_file()


@contextlib.contextmanager
def new_export(
    folder: Path,
    recipe: Recipe,
    tokenizer: Path,
    *,
    model_hash: str,
    quantization: Quantization,
    max_positions: int | None,
    model_card: str,
) -> Iterator[Path]:
    """Yield a temporary folder for the engine's files, then move the whole export to `folder`.

    An older export at `folder` is replaced. Any other existing folder is an error.
    """
    if folder.exists() and not is_export(folder):
        raise ArtifactError(
            f"{str(folder)!r} exists and is not an export; choose another folder, or remove it"
        )
    folder = folder.absolute()  # "." has no name, and its neighbours below are named after it.
    is_replaced = folder.exists()
    new, old = (folder.with_name(f".{folder.name}.{word}") for word in ("new", "old"))
    _remove(new, old)  # Left by an export that was killed.
    with atomic_folder(new if is_replaced else folder) as temporary:
        yield temporary
        write_text(temporary / _RECIPE, dump_recipe(recipe))
        for file in _files(tokenizer):
            link_or_copy(file, temporary / _TOKENIZER / file.relative_to(tokenizer))
        hashes = {
            file.relative_to(temporary).as_posix(): sha256(file) for file in _files(temporary)
        }
        facts = ExportFacts(
            model=model_hash,
            quantization=quantization,
            max_positions=max_positions,
            sha256=dict(sorted(hashes.items())),
        )
        write_text(temporary / FACTS, facts.model_dump_json(indent=1) + "\n")
        write_text(temporary / _README, model_card)  # Not hashed: users may edit it.
    if is_replaced:
        # A folder cannot replace another in one move: for a moment there is none.
        folder.rename(old)
        new.rename(folder)
        _remove(old)


def read_export(folder: Path) -> Export:
    """Open an export, or raise with what is wrong with it."""
    try:
        content = (folder / FACTS).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ArtifactError(
            f"there is no export in {str(folder)!r}; to make one, type: "
            f"dragoman export RUN -o {shlex.quote(str(folder))}"
        ) from None
    try:
        number = TypeAdapter(_Version).validate_json(content).format
        if number > FORMAT:
            raise ArtifactError(
                f"{str(folder)!r} has format {number}, this version of Dragoman reads up to "
                f"{FORMAT}; install a newer version, or export the model again"
            )
        facts = ExportFacts.model_validate_json(content)
    except ValidationError:
        raise ArtifactError(
            f"{FACTS} of {str(folder)!r} cannot be read; export the model again"
        ) from None
    damaged = list(verify_hashes(folder, facts.sha256))
    if damaged:
        raise ArtifactError(
            f"the export in {str(folder)!r} is damaged: {'; '.join(damaged)}; export it again"
        )
    try:
        recipe = load_recipe(folder / _RECIPE)
    except RecipeError as error:
        raise ArtifactError(f"the recipe of {str(folder)!r} cannot be read: {error}") from None
    return Export(folder, recipe, facts)


def _remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())
