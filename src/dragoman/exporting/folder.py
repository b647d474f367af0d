"""What is an exported model, and is it still what was written?

    model.bin, config.json, …_vocabulary.json     what CTranslate2 reads
    tokenizer/                                    source and target
    recipe.yaml                                   of the model
    dragoman.json    a number for this layout, the model it comes from, the SHA-256 of each file

It is served alone: without the run, and without PyTorch, which this file does not import.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman.durable import damages, new_folder, place, sha256, write_text
from dragoman.errors import ArtifactError, RecipeError
from dragoman.recipe import Recipe
from dragoman.recipe_file import dump_recipe, load_recipe

FORMAT = 1
FOLDER = "ctranslate2"
"""Where in a run it goes, unless another place is named."""

Quantization = Literal["float32", "int8", "int8_float32", "int16", "float16", "bfloat16"]

FACTS, _RECIPE, _TOKENIZER = "dragoman.json", "recipe.yaml", "tokenizer"


@dataclass(frozen=True, slots=True)
class Export:
    """An exported model whose files are what they were when it was written."""

    folder: Path
    recipe: Recipe
    quantization: str
    model_hash: str
    """The SHA-256 of the `model.safetensors` that it was made of."""
    longest: int | None
    """The most tokens that a source with its end, or a target with its begin, may have."""

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizers."""
        return self.folder / _TOKENIZER


@contextlib.contextmanager
def new_export(
    folder: Path, recipe: Recipe, tokenizer: Path, **facts: str | int | None
) -> Iterator[Path]:
    """Give a place for the engine's own files, and put the complete export at `folder`.

    An older export there is replaced; anything else stays, and is an error.
    """
    if folder.exists() and not (folder / FACTS).is_file():
        raise ArtifactError(
            f"{str(folder)!r} is there, and is not an export; name another place, or remove it"
        )
    fresh, older = (folder.with_name(f".{folder.name}.{word}") for word in ("new", "old"))
    _remove(fresh, older)  # Of an export that was killed.
    with new_folder(fresh) as temporary:
        yield temporary
        write_text(temporary / _RECIPE, dump_recipe(recipe))
        for file in _files(tokenizer):
            place(file, temporary / _TOKENIZER / file.relative_to(tokenizer))
        hashes = {
            file.relative_to(temporary).as_posix(): sha256(file) for file in _files(temporary)
        }
        content = {"format": FORMAT, **facts, "sha256": hashes}
        write_text(temporary / FACTS, json.dumps(content, indent=1, sort_keys=True) + "\n")
    # A folder cannot take the place of another: for a moment there is none.
    if folder.exists():
        folder.rename(older)
    fresh.rename(folder)
    _remove(older)


def read_export(folder: Path) -> Export:
    """Open an exported model, or say what is wrong with it."""
    try:
        content = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        number = int(content["format"])
    except (FileNotFoundError, NotADirectoryError):
        raise ArtifactError(
            f"there is no exported model in {str(folder)!r}; type: dragoman export RUN"
        ) from None
    except (ValueError, TypeError, KeyError):
        raise _unreadable(folder) from None
    if number > FORMAT:
        raise ArtifactError(
            f"{str(folder)!r} has format {number}, this Dragoman reads up to {FORMAT}; "
            "take a newer one, or export the model again"
        )
    try:
        hashes = dict(content["sha256"])
        quantization, model, longest = (
            content[key] for key in ("quantization", "model", "longest")
        )
    except (ValueError, TypeError, KeyError):
        raise _unreadable(folder) from None
    damaged = list(damages(folder, hashes))
    if damaged:
        raise ArtifactError(
            f"the export in {str(folder)!r} is damaged: {'; '.join(damaged)}; export it again"
        )
    try:
        recipe = load_recipe(folder / _RECIPE)
    except RecipeError as error:
        raise ArtifactError(f"the recipe of {str(folder)!r} cannot be read: {error}") from None
    return Export(folder, recipe, quantization, model, longest)


def _unreadable(folder: Path) -> ArtifactError:
    return ArtifactError(f"{FACTS} of {str(folder)!r} cannot be read; export the model again")


def _remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())
