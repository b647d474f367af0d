"""Stage 5: train the tokenizer, or copy it from an earlier preparation or run.

It is trained on a sample of the training text. A model that continues training must keep its
tokenizer, so `tokenizer.init_from` copies one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from dragoman.artifact import resolve_model
from dragoman.corpus import table
from dragoman.corpus.counts import SplitCounts
from dragoman.corpus.stages.split import SPLITS
from dragoman.corpus.task import PreparationTask
from dragoman.errors import DataError, Mistake, RecipeError
from dragoman.recipe.schema import Recipe, TokenizerRecipe
from dragoman.storage.files import atomic_folder
from dragoman.storage.mirror import StoredPath, exists, fetch, local_path, locate, path_text
from dragoman.tokenizer.folder import load_tokenizer, tokenizer_class

SIDES = ("source", "target")


class TokenizerTask(PreparationTask):
    """Trains one vocabulary, for one side or for both."""

    needs_process: ClassVar[bool] = True

    rows: tuple[StoredPath, ...]
    columns: tuple[str, ...]
    sample: int
    kind: str
    vocabulary_size: int
    languages: tuple[str, ...]

    def run(self) -> None:
        """Train the tokenizer."""
        cls = tokenizer_class(self.kind)
        tokenizer = cls.train(self._texts(), self.vocabulary_size, self.languages)
        with atomic_folder(self.result) as temporary:
            tokenizer.save(temporary)

    def _texts(self) -> Iterator[str]:
        """Yield the first training texts of each bucket; a bucket is a random sample."""
        pairs = sum(table.read_counts(path, SplitCounts).splits.train for path in self.rows)
        share = min(1.0, self.sample / max(1, pairs * len(self.columns)))
        for path in self.rows:
            rows = table.read_bucket([path], SPLITS.index("train"))
            for column in self.columns:
                yield from rows[column].slice(0, round(len(rows) * share)).to_pylist()


def find_tokenizers(
    settings: TokenizerRecipe, base_folder: Path, prepared: Path
) -> tuple[Path, Path] | None:
    """Return the tokenizer files that `tokenizer.init_from` names, for source and target."""
    if not settings.init_from:
        if settings.kind == "marian":
            what = "a marian tokenizer comes with an imported model; name the folder of that model"
            raise RecipeError([Mistake("tokenizer.init_from", what)])
        return None
    named = local_path(settings.init_from, base_folder)
    # Of a remote model, only the tokenizers are needed.
    is_local = locate(named) is None
    folder = resolve_model(named) if is_local else fetch(named / "tokenizer").parent
    try:
        if prepared.resolve() in (folder.resolve(), named.resolve()):
            raise DataError("found the folder that this recipe prepares; expected another folder")
        source, target = (_file(folder / "tokenizer" / side, settings.kind) for side in SIDES)
    except DataError as error:
        raise RecipeError([Mistake("tokenizer.init_from", str(error))]) from None
    is_shared = _vocabulary(source.parent) == _vocabulary(target.parent)
    if is_shared != settings.shared:
        actual, expected = ("one vocabulary", "two") if is_shared else ("two vocabularies", "one")
        what = (
            f"{path_text(folder)!r} has {actual} for source and target, expected {expected}; "
            f"set tokenizer.shared: {str(is_shared).lower()}, or choose another folder"
        )
        raise RecipeError([Mistake("tokenizer.init_from", what)])
    return source, target


def check_tags(recipe: Recipe, files: tuple[Path, Path] | None) -> None:
    """Raise if a corpus wants tagged sources, and the source tokenizer has no token for the tag."""
    tagged = [number for number, entry in enumerate(recipe.corpus.train) if entry.tag]
    if not tagged:
        return
    if files is None:
        has_token, whose = recipe.tokenizer.kind != "bytes", "tokenizer.kind: bytes"
    else:
        has_token = load_tokenizer(files[0].parent).has_back_translation_token
        whose = f"the tokenizer of {recipe.tokenizer.init_from}"
    if not has_token:
        what = (
            f"{whose} has no token for the tag of back-translated text; remove tag, or train a "
            "tokenizer of another kind without tokenizer.init_from"
        )
        raise RecipeError([Mistake(f"corpus.train.{number}.tag", what) for number in tagged])


def _vocabulary(folder: Path) -> list[str]:
    tokenizer = load_tokenizer(folder)
    return tokenizer.pieces(range(tokenizer.size))


def _file(folder: Path, kind: str) -> Path:
    if not folder.is_dir():
        raise DataError(
            f"there is no folder {path_text(folder)!r}; expected a folder that `dragoman train` or "
            "`dragoman prepare` wrote"
        )
    expected = tokenizer_class(kind)
    actual = type(load_tokenizer(folder))
    if actual is not expected:
        raise DataError(
            f"{path_text(folder)!r} holds {actual.file_name}, expected {expected.file_name}; set "
            "tokenizer.kind to the kind of that tokenizer, or choose another folder"
        )
    return folder / expected.file_name


def copy_tokenizer(file: Path, folder: Path) -> None:
    """Copy a tokenizer to the folder in which a trained one would be."""
    if not exists(folder):
        with atomic_folder(folder) as temporary:
            shutil.copyfile(file, temporary / file.name)
