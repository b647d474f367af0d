"""Opens corpus files that no recipe describes yet: finds their format, languages and columns.

`dragoman init` and `dragoman corpus show` use it. Everything the user states wins. Otherwise the
language codes inside the file (TMX, XLIFF, PO) and the names of the columns (CSV, JSON Lines,
Parquet) decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.corpus.discovery import guess_format
from dragoman.corpus.files import check_files
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.row import Reject, Row
from dragoman.errors import DataError, RecipeError
from dragoman.recipe.parts import Choice, Chosen, choose
from dragoman.text.languages import LanguagePair

_CODE = re.compile(r"[a-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
_USUAL_COLUMNS = (("source", "target"), ("src", "tgt"), ("src", "trg"))


@dataclass(frozen=True, slots=True)
class CorpusRequest:
    """Corpus files, and what the user has stated about them; empty values are to be found."""

    files: tuple[Path, ...]
    languages: LanguagePair = LanguagePair()  # noqa: RUF009  (it is frozen)
    format: str = ""
    source_column: str = ""
    target_column: str = ""
    delimiter: str = ""


@dataclass(frozen=True, slots=True)
class OpenCorpus:
    """Corpus files that can be read."""

    files: tuple[Path, ...]
    format: Choice
    languages: LanguagePair

    def read(self) -> Iterator[Row | Reject]:
        """Yield every row of the files, and a reject for every row that cannot be read."""
        reader = _choose(self.format)
        return reader(self.languages.source, self.languages.target).read(self.files)


def open_corpus(request: CorpusRequest) -> OpenCorpus:
    """Find the format, the languages and the columns of corpus files."""
    check_files(request.files, len(request.files))
    name = request.format or guess_format([[path] for path in request.files])
    delimiter = {"delimiter": request.delimiter} if request.delimiter else {}
    reader = _choose(Choice(name=name, options=delimiter)).cls
    if len(request.files) != reader.file_count:
        listed = ", ".join(map(str, request.files))
        raise DataError(f"found {listed}; the format {name} expects {reader.file_count} file(s)")
    languages = _languages(request, reader)
    columns = _columns(request, reader, languages)
    if columns and languages == LanguagePair() and all(map(_is_code, columns)):
        languages = LanguagePair(*columns)  # The columns are named after the languages.
    format_ = Choice(name=name, options=delimiter | _options(name, columns, languages))
    _choose(format_)
    return OpenCorpus(request.files, format_, languages)


def _choose(format_: Choice) -> Chosen[CorpusReader]:
    """Find the reader and check its options; an error does not speak of a recipe."""
    try:
        return choose("corpus.readers", format_, "--format", CorpusReader)
    except RecipeError as error:
        mistakes = "; ".join(f"{mistake.path}: {mistake.what}" for mistake in error.mistakes)
        raise DataError(f"the corpus cannot be read as {format_.name}. {mistakes}") from None


def _languages(request: CorpusRequest, reader: type[CorpusReader]) -> LanguagePair:
    """Return the languages that the user or the file states."""
    if request.languages != LanguagePair():
        return request.languages
    codes = reader.languages_in(request.files)
    if len(codes) > 2:
        first, second, *_ = codes
        raise DataError(
            f"{request.files[0]} contains the languages {', '.join(codes)}; choose two of them, "
            f"for example: --languages {language_option(first, second)}"
        )
    return LanguagePair(*codes)


def language_option(source: str, target: str) -> str:
    """Write two codes as the option --languages expects them."""
    separator = "-" if source.isalpha() and target.isalpha() else ":"
    return f"{source}{separator}{target}"


def _columns(
    request: CorpusRequest, reader: type[CorpusReader], languages: LanguagePair
) -> tuple[str, ...]:
    """Return the source and the target column; nothing for formats without column names."""
    stated = (request.source_column, request.target_column)
    if all(stated):
        return stated
    names = reader.columns_in(request.files, request.delimiter)
    if not names and not any(stated):
        return ()
    candidates = (
        (languages.source, languages.target),
        *_USUAL_COLUMNS,
        tuple(name for name in names if _is_code(name)),
        names,
    )
    for pair in candidates:
        if not any(stated) and len(pair) == 2 and all(name and name in names for name in pair):
            return pair
    listed = ", ".join(names) or "no names"
    raise DataError(
        f"{request.files[0]} has the columns: {listed}. Name the columns of the two languages with "
        "--source-column and --target-column. If the cells are not separated, name the separator "
        "with --delimiter"
    )


def _is_code(name: str) -> bool:
    """Return whether a column name is the code of a language that the detector knows."""
    from dragoman.text.identification import accepted_codes  # noqa: PLC0415  (loads a model)

    return bool(_CODE.fullmatch(name)) and bool(accepted_codes(name))


def _options(name: str, columns: Sequence[str], languages: LanguagePair) -> dict[str, str]:
    """Return the columns as options of the reader, if they differ from its defaults."""
    if not columns or tuple(columns) == (languages.source, languages.target):
        return {}
    kind = "field" if name == "jsonl" else "column"
    return {f"source_{kind}": columns[0], f"target_{kind}": columns[1]}
