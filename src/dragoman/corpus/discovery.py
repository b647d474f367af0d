"""Finds the files and formats that a recipe names, in an order that does not depend on the disk."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dragoman.corpus.files import check_name, format_extension
from dragoman.corpus.filter import Filter
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.stages.split import GENERAL, SPLITS
from dragoman.corpus.synthetic import Synthetic, check_text, find_translation_model
from dragoman.errors import DataError, Mistake, RecipeError
from dragoman.recipe import parts
from dragoman.recipe.parts import Choice, choose
from dragoman.recipe.schema import CorpusFiles, Recipe, TrainingCorpus
from dragoman.storage import mirror
from dragoman.storage.mirror import local_path, locate, path_text


class Corpus(NamedTuple):
    """One set of files that is read together."""

    name: str
    split: str
    files: tuple[Path, ...]
    format: Choice
    weight: float
    synthetic: Synthetic | None = None
    """How the other side of the text is written; None for parallel text."""


def find_corpora(
    recipe: Recipe, base_folder: Path, *, trust_parts: bool = False
) -> tuple[Corpus, ...]:
    """Return all corpora of a recipe; raise with all mistakes of the corpus section at once.

    Synthetic corpora follow the other training corpora. Of two equal pairs the first is kept, so
    the human one is.
    """
    mistakes = list(_setting_mistakes(recipe, base_folder))
    corpora: list[Corpus] = []
    for split in (*SPLITS, GENERAL):
        entries: tuple[CorpusFiles, ...] = getattr(recipe.corpus, split)
        synthetic: list[Corpus] = []
        for number, entry in enumerate(entries):
            path = f"corpus.{split}.{number}"
            try:
                if isinstance(entry, TrainingCorpus) and entry.synthetic != "none":
                    synthetic += _expand_synthetic(entry, recipe, base_folder, trust_parts)
                else:
                    corpora += _expand(entry, split, base_folder)
            except RecipeError as error:
                mistakes += [
                    Mistake(f"{path}.{mistake.path}", mistake.what) for mistake in error.mistakes
                ]
            except DataError as error:
                mistakes.append(Mistake(f"{path}.files", str(error)))
        corpora += synthetic
    if mistakes:
        raise RecipeError(mistakes)
    return tuple(corpora)


def _setting_mistakes(recipe: Recipe, base_folder: Path) -> Iterator[Mistake]:
    for side in ("source", "target"):
        if not getattr(recipe.languages, side):
            yield Mistake(f"languages.{side}", "missing; expected a language code, for example en")
    if local_path(recipe.corpus.folder, base_folder).resolve() == base_folder.resolve():
        what = "expected a folder of its own, because its content is replaced"
        yield Mistake("corpus.folder", what)
    if not recipe.corpus.train:
        yield Mistake(
            "corpus.train",
            "missing; expected at least one corpus, for example [{files: [train.en, train.de]}]",
        )
    is_synthetic = [entry.synthetic != "none" for entry in recipe.corpus.train]
    if is_synthetic and all(is_synthetic) and not recipe.corpus.validation:
        what = (
            "missing; all training corpora are synthetic, and synthetic pairs are never held out. "
            "Expected parallel text, for example [{files: [validation.en, validation.de]}]"
        )
        yield Mistake("corpus.validation", what)
    for number, choice in enumerate(recipe.corpus.filters):
        path = f"corpus.filters.{number}"
        try:
            chosen = choose("corpus.filters", choice, path, Filter)
        except RecipeError as error:
            yield from error.mistakes
            continue
        try:
            # Options that do not fit together are refused only now.
            chosen(recipe.languages.source, recipe.languages.target)
        except RecipeError as error:
            for mistake in error.mistakes:
                yield Mistake(f"{path}.{mistake.path}", mistake.what)


def _expand(entry: CorpusFiles, split: str, base_folder: Path) -> Iterator[Corpus]:
    """Yield one corpus for each file, or each pair of files, that the patterns match."""
    if not entry.files:
        raise DataError("empty; expected one file, or two files aligned line by line")
    columns = [_find(pattern, base_folder) for pattern in entry.files]
    format_ = entry.format if entry.format.name != "auto" else Choice(name=guess_format(columns))
    expected = choose("corpus.readers", format_, "format", CorpusReader).cls.file_count
    if len(columns) != expected:
        listed = ", ".join(entry.files)
        raise DataError(f"found {listed}; the format {format_.name} expects {expected} file(s)")
    if len({len(column) for column in columns}) != 1:
        counts = " and ".join(str(len(column)) for column in columns)
        raise DataError(
            f"the patterns match {counts} files; expected the same number for source and target"
        )
    if len(columns) == 2:
        _check_pairs(entry.files, columns, base_folder)
    for files in zip(*columns, strict=True):
        name = " + ".join(_display_name(file, base_folder) for file in files)
        yield Corpus(name, split, files, format_, entry.weight)


def _check_pairs(
    patterns: Sequence[str], columns: Sequence[Sequence[Path]], base_folder: Path
) -> None:
    """Refuse two patterns whose files, in sorted order, do not belong together.

    What the wildcards match tells which files belong together: `a.en` belongs to `a.de`. Only a
    text that both patterns match is compared: `en-1.txt` and `de-1.txt` have no such text.
    """
    texts = [
        [_wildcard_texts(pattern, path_text(path)) for path in paths]
        for pattern, paths in zip(patterns, columns, strict=True)
    ]
    for number, text in enumerate(texts[0]):
        if text is None or text not in texts[1] or texts[1][number] == text:
            continue
        source, target = (_display_name(column[number], base_folder) for column in columns)
        belongs = _display_name(columns[1][texts[1].index(text)], base_folder)
        raise DataError(
            f"the patterns match files that do not belong together: in sorted order, {source!r} "
            f"would be paired with {target!r} instead of {belongs!r}. Expected the same names on "
            "both sides; remove or rename the files that have no partner, or name each pair of "
            "files in an entry of its own"
        )


def _wildcard_texts(pattern: str, name: str) -> tuple[str, ...] | None:
    """Return what each wildcard of a pattern matches in a name; None if there is no wildcard."""
    pieces = re.split(r"(\*+|\?|\[[^\]]+\])", pattern)
    # With a group in the separator, every second piece is a wildcard.
    expression = "".join(
        "(.*)" if number % 2 else re.escape(piece) for number, piece in enumerate(pieces)
    )
    found = re.search(expression + r"\Z", name)
    return found.groups() or None if found else None


def _expand_synthetic(
    entry: TrainingCorpus, recipe: Recipe, base_folder: Path, trust_parts: bool
) -> Iterator[Corpus]:
    """Yield one corpus for each text file; raise with all mistakes of the entry at once."""
    mistakes: list[Mistake] = []
    files: list[Path] = []
    if not entry.files:
        mistakes.append(Mistake("files", "empty; expected one text file or more"))
    for pattern in entry.files:
        try:
            matches = _find(pattern, base_folder)
            for path in matches:
                check_text(path)
            files += matches
        except DataError as error:
            mistakes.append(Mistake("files", str(error)))
    try:
        model = find_translation_model(entry, recipe, base_folder, trust_parts=trust_parts)
    except RecipeError as error:
        raise RecipeError([*mistakes, *error.mistakes]) from None
    if mistakes:
        raise RecipeError(mistakes)
    assert entry.synthetic != "none"
    synthetic = Synthetic(entry.synthetic, model, entry.tag)
    for file in files:
        models = " and ".join(entry.models)
        name = f"{_display_name(file, base_folder)} ({entry.synthetic}, {models})"
        yield Corpus(name, "train", (file,), entry.format, entry.weight, synthetic)


def _find(pattern: str, base_folder: Path) -> list[Path]:
    """Return the files that match a pattern; a file with exactly this name has priority."""
    literal = local_path(pattern, base_folder)
    if locate(literal) is None and literal.is_dir():
        raise DataError(
            f"{pattern!r} is a folder, expected a file, or a pattern such as {pattern}/*.tsv"
        )
    if mirror.exists(literal):
        paths = [literal]
    elif locate(literal) is not None:
        paths = mirror.matches(literal)
    else:
        names = glob.glob(pattern, root_dir=base_folder)
        paths = sorted(base_folder / name for name in names)
    if not paths:
        raise DataError(
            f"there is no file {pattern!r} in the folder of the recipe, {path_text(base_folder)!r}"
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
    for format_ in parts.names("corpus.readers"):
        reader = choose("corpus.readers", Choice(name=format_), "corpus.format", CorpusReader).cls
        if format_extension(path) in reader.extensions:
            return format_
    raise DataError(
        f"the format of {path.name!r} cannot be determined from its extension. If it is one of two "
        "aligned files, also give the other file. Otherwise give the format with --format FORMAT, "
        "or in a recipe with format: FORMAT; one of: " + ", ".join(parts.names("corpus.readers"))
    )
