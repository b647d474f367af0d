"""A glossary: terms that must be translated in one way, and where they occur in a text.

Preparation and translation use the same search, so that a model sees the terms of its training
again. A term is found word by word, in any capitals. Of a translation, inflected forms count: a
word may differ in its last two characters.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import DataError
from dragoman.text.spans import UNSPACED

# In scripts without spaces, each character counts as a word.
_LETTER = rf"[^\W{UNSPACED}]"
_WORD = re.compile(rf"[{UNSPACED}]|{_LETTER}+(?:[-'’]{_LETTER}+)*")
_UNSPACED = re.compile(f"[{UNSPACED}]")
_MIN_STEM = 4
_MAX_ENDING = 2
"""An inflected form may differ in so many characters at the end of a word."""


@dataclass(frozen=True, slots=True)
class TermUse:
    """A term in a source text and the translation it must have."""

    start: int
    end: int
    target: str


class Glossary:
    """Terms by their words, in lower case."""

    def __init__(self, terms: Mapping[str, str]) -> None:
        self.terms = dict(terms)
        self._targets = {_folded(source): target for source, target in terms.items()}
        # Lower case can split a word: `İ` becomes an i and a combining dot. So it comes last.
        self._by_words = {_folded_words(source) for source in terms} - {()}
        self._max_words = max(map(len, self._by_words), default=0)

    def __len__(self) -> int:
        return len(self.terms)

    @classmethod
    def load(cls, path: Path) -> Glossary:
        """Read terms from TSV or CSV; the first two columns are source and target."""
        if not path.is_file():
            raise DataError(f"there is no file {str(path)!r}; expected a glossary (TSV, CSV, TBX)")
        try:
            with path.open(encoding="utf-8-sig", newline="") as lines:
                return cls(_terms(_rows(lines, path.suffix.lower()), path))
        except UnicodeDecodeError:
            raise DataError(f"{path} is not UTF-8; convert it, for example with iconv") from None
        except csv.Error as error:
            raise DataError(
                f"{path} is not valid CSV ({error}); close every quotation mark, or use TSV"
            ) from None

    def find(self, text: str) -> list[TermUse]:
        """Find the terms of a text; the longest term wins, and terms do not overlap."""
        words = list(_WORD.finditer(text))
        uses: list[TermUse] = []
        position = 0
        while position < len(words):
            for count in range(min(self._max_words, len(words) - position), 0, -1):
                group = words[position : position + count]
                if tuple(word[0].casefold() for word in group) not in self._by_words:
                    continue
                start, end = group[0].start(), group[-1].end()
                # Between the words there must be what the term has between them.
                target = self._targets.get(_folded(text[start:end]))
                if target is not None:
                    uses.append(TermUse(start, end, target))
                    position += count
                    break
            else:
                position += 1
        return uses


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _folded_words(text: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in _WORD.findall(text))


def has_term(text: str, term: str) -> bool:
    """Whether a translation contains a term, or an inflected form of it."""
    if _UNSPACED.search(term):
        return term.casefold() in text.casefold()
    return _stem_pattern(term).search(text.casefold()) is not None


@functools.lru_cache(maxsize=10_000)
def _stem_pattern(term: str) -> re.Pattern[str]:
    """Return a pattern that finds a term and its inflected forms in lower-case text."""
    words = _WORD.findall(term.casefold()) or [term.casefold()]
    stems = [word[: max(_MIN_STEM, len(word) - _MAX_ENDING)] for word in words]
    return re.compile(r"\b" + r"\w*\W+".join(map(re.escape, stems)))


def _rows(lines: Iterator[str], suffix: str) -> Iterator[list[str]]:
    if suffix == ".csv":
        return iter(csv.reader(lines))
    return (line.rstrip("\r\n").split("\t") for line in lines)


def _terms(rows: Iterator[list[str]], path: Path) -> dict[str, str]:
    terms: dict[str, str] = {}
    for number, row in enumerate(rows, start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        if len(cells) < 2 or not cells[0] or not cells[1]:
            what = f"{len(cells)} column(s)" if len(cells) < 2 else "an empty column"
            raise DataError(
                f"{path}, line {number}: found {what}, expected two: the term and its translation, "
                "separated by a tab (TSV) or a comma (CSV)"
            )
        terms.setdefault(cells[0], cells[1])
    return terms
