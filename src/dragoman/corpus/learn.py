"""Where does the tokenizer come from?

It learns from a sample of the training text; or it is taken from an earlier preparation or run, for
a model that goes on learning must go on reading the same tokens.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from dragoman.corpus import table
from dragoman.corpus.split import SIDES
from dragoman.corpus.task import Task
from dragoman.durable import new_folder
from dragoman.errors import DataError, Mistake, RecipeError
from dragoman.recipe import TokenizerRecipe
from dragoman.tokenizer.folder import load_tokenizer, tokenizer_class

SOURCE_TARGET = ("source", "target")


class LearnTask(Task):
    """Learns one vocabulary, of one side or of both."""

    needs_process: ClassVar[bool] = True

    rows: tuple[Path, ...]
    columns: tuple[str, ...]
    sample: int
    kind: str
    vocabulary_size: int
    languages: tuple[str, ...]

    def run(self) -> None:
        """Learn."""
        cls = tokenizer_class(self.kind)
        learned = cls.train(self._texts(), self.vocabulary_size, self.languages)
        with new_folder(self.result) as temporary:
            learned.save(temporary)

    def _texts(self) -> Iterator[str]:
        """Draw training sentences: as buckets are random samples, the first of each."""
        count = sum(table.counts(path)["sides"]["train"] for path in self.rows)
        share = min(1.0, self.sample / max(1, count * len(self.columns)))
        for path in self.rows:
            pairs = table.read_bucket([path], SIDES.index("train"))
            for column in self.columns:
                yield from pairs[column].slice(0, round(len(pairs) * share)).to_pylist()


def find_tokenizers(
    settings: TokenizerRecipe, home: Path, prepared: Path
) -> tuple[Path, Path] | None:
    """Find the files of the tokenizers that a recipe wants taken, source and target."""
    if not settings.start_from:
        if settings.kind == "marian":
            what = "marian comes with an imported model; name that model's folder here"
            raise RecipeError([Mistake("tokenizer.start_from", what)])
        return None
    folder = home / settings.start_from
    try:
        if folder.resolve() == prepared.resolve():
            raise DataError("found the folder that this recipe prepares; expected another one")
        first, second = (
            _file(folder / "tokenizer" / side, settings.kind) for side in SOURCE_TARGET
        )
    except DataError as error:
        raise RecipeError([Mistake("tokenizer.start_from", str(error))]) from None
    is_shared = _words(first.parent) == _words(second.parent)
    if is_shared != settings.shared:
        found, expected = ("one vocabulary", "two") if is_shared else ("two vocabularies", "one")
        what = (
            f"{str(folder)!r} has {found} for source and target, expected {expected}; "
            f"set tokenizer.shared: {str(is_shared).lower()}, or take another folder"
        )
        raise RecipeError([Mistake("tokenizer.start_from", what)])
    return first, second


def _words(folder: Path) -> list[str]:
    """All words of a tokenizer; two that cut differently may share them."""
    tokenizer = load_tokenizer(folder)
    return tokenizer.pieces(range(tokenizer.size))


def _file(folder: Path, kind: str) -> Path:
    if not folder.is_dir():
        raise DataError(
            f"no folder {str(folder)!r}; expected a run, or a folder that `dragoman prepare` made"
        )
    cls = tokenizer_class(kind)
    found = type(load_tokenizer(folder))
    if found is not cls:
        what = f"{str(folder)!r} holds {found.file_name}, expected {cls.file_name}"
        raise DataError(f"{what}; set tokenizer.kind to what it is, or take another folder")
    return folder / cls.file_name


def take(file: Path, folder: Path) -> None:
    """Copy a tokenizer to where one that is learned would stand."""
    if not folder.exists():
        with new_folder(folder) as temporary:
            shutil.copyfile(file, temporary / file.name)
