"""Finds the files and formats that a recipe names, in an order that does not depend on the disk."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dragoman.corpus.files import COMPRESSIONS, check_name
from dragoman.corpus.filter import Filter
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.stages.split import GENERAL, SPLITS
from dragoman.errors import DataError, Mistake, RecipeError
from dragoman.recipe import parts
from dragoman.recipe.parts import Choice, choose
from dragoman.recipe.schema import CorpusFiles, Recipe


class Corpus(NamedTuple):
    """One set of files that is read together."""

    name: str
    split: str
    files: tuple[Path, ...]
    format: Choice
    weight: float


def find_corpora(recipe: Recipe, base_folder: Path) -> tuple[Corpus, ...]:
    """Return all corpora of a recipe; raise with all mistakes of the corpus section at once."""
    mistakes = list(_setting_mistakes(recipe, base_folder))
    corpora: list[Corpus] = []
    for split in (*SPLITS, GENERAL):
        entries: tuple[CorpusFiles, ...] = getattr(recipe.corpus, split)
        for number, entry in enumerate(entries):
            path = f"corpus.{split}.{number}"
            try:
                corpora += _expand(entry, split, base_folder, path)
            except RecipeError as error:
                mistakes += error.mistakes
            except DataError as error:
                mistakes.append(Mistake(f"{path}.files", str(error)))
    if mistakes:
        raise RecipeError(mistakes)
    return tuple(corpora)


def _setting_mistakes(recipe: Recipe, base_folder: Path) -> Iterator[Mistake]:
    for side in ("source", "target"):
        if not getattr(recipe.languages, side):
            yield Mistake(f"languages.{side}", "missing; expected a language code, for example en")
    if (base_folder / recipe.corpus.folder).resolve() == base_folder.resolve():
        what = "expected a folder of its own, because its content is replaced"
        yield Mistake("corpus.folder", what)
    if not recipe.corpus.train:
        yield Mistake(
            "corpus.train",
            "missing; expected at least one corpus, for example [{files: [train.en, train.de]}]",
        )
    for number, choice in enumerate(recipe.corpus.filters):
        try:
            choose("corpus.filters", choice, f"corpus.filters.{number}", Filter)
        except RecipeError as error:
            yield from error.mistakes


def _expand(entry: CorpusFiles, split: str, base_folder: Path, path: str) -> Iterator[Corpus]:
    """Yield one corpus for each file, or each pair of files, that the patterns match."""
    columns = [_find(pattern, base_folder) for pattern in entry.files]
    format_ = entry.format if entry.format.name != "auto" else Choice(name=guess_format(columns))
    expected = choose("corpus.readers", format_, f"{path}.format", CorpusReader).cls.file_count
    if len(columns) != expected:
        listed = ", ".join(entry.files)
        raise DataError(f"found {listed}; the format {format_.name} expects {expected} file(s)")
    if len({len(column) for column in columns}) != 1:
        counts = " and ".join(str(len(column)) for column in columns)
        raise DataError(
            f"the patterns match {counts} files; expected the same number for source and target"
        )
    for files in zip(*columns, strict=True):
        name = " + ".join(_display_name(file, base_folder) for file in files)
        yield Corpus(name, split, files, format_, entry.weight)


def _find(pattern: str, base_folder: Path) -> list[Path]:
    """Return the files that match a pattern; a file with exactly this name has priority."""
    literal = base_folder / pattern
    if literal.is_dir():
        raise DataError(
            f"{pattern!r} is a folder, expected a file, or a pattern such as {pattern}/*.tsv"
        )
    if literal.exists():
        paths = [literal]
    else:
        names = glob.glob(pattern, root_dir=base_folder)
        paths = sorted(base_folder / name for name in names)
    if not paths:
        raise DataError(
            f"there is no file {pattern!r} in the folder of the recipe, {str(base_folder)!r}"
        )
    for path in paths:
        check_name(path)
    return paths


def _display_name(path: Path, base_folder: Path) -> str:
    return str(path.relative_to(base_folder)) if path.is_relative_to(base_folder) else path.name


def guess_format(columns: Sequence[Sequence[Path]]) -> str:
    """Return the format of corpus files, by their number and their extension."""
    if len(columns) == 2:
        return "lines"
    path = columns[0][0]
    name = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    for format_ in parts.names("corpus.readers"):
        reader = choose("corpus.readers", Choice(name=format_), "corpus.format", CorpusReader).cls
        if name.suffix.lower() in reader.extensions:
            return format_
    raise DataError(
        f"the format of {path.name!r} cannot be determined from its extension. If it is one of two "
        "aligned files, also give the other file. Otherwise give the format with --format FORMAT, "
        "or in a recipe with format: FORMAT; one of: " + ", ".join(parts.names("corpus.readers"))
    )
