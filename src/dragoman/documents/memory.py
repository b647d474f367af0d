"""A translation memory: earlier translations of the user, from TMX, PO or XLIFF files.

A text that was translated before is not translated again. A similar text (fuzzy match) is used if
its similarity reaches the threshold and it has the same numbers, and is marked for review. The
inline codes of the stored text are replaced by those of the new text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import DataError, MissingExtraError
from dragoman.formats.base.document import Code, Content, merged
from dragoman.formats.base.folder import open_document

_FIRST_MARK = 0xF0000
"""A private-use character stands for an inline code."""
_MARKS = re.compile("([\U000f0000-\U000ffffd])")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Match:
    """A translation from the memory."""

    content: Content
    score: float
    """Similarity of the source texts, 0 to 1; 1 = equal."""
    origin: str
    """The file and line that it comes from."""


@dataclass(frozen=True, slots=True)
class _Entry:
    target: str
    origin: str


class TranslationMemory:
    """Stored translations by source text."""

    def __init__(self, threshold: float = 0.9) -> None:
        self.threshold = threshold
        self._entries: dict[str, _Entry] = {}
        self._by_form: dict[tuple[str, int], list[str]] = defaultdict(list)
        """Source texts by their numbers and their length."""

    def __len__(self) -> int:
        return len(self._entries)

    @classmethod
    def load(
        cls, paths: Iterable[Path], source: str, target: str, threshold: float = 0.9
    ) -> TranslationMemory:
        """Read all finished translations of these files."""
        memory = cls(threshold)
        for path in paths:
            if not path.is_file():
                raise DataError(f"there is no file {str(path)!r}; expected a translation memory")
            is_empty = True
            for unit in open_document(path, source, target).units():
                if unit.target and unit.state in ("translated", "locked"):
                    memory.add(unit.source, unit.target, f"{path.name}:{unit.line}")
                    is_empty = False
            if is_empty:
                raise DataError(
                    f"{path} has no finished translation from {source} to {target}; expected a "
                    "TMX, PO or XLIFF file with such translations (--memory)"
                )
        return memory

    def add(self, source: Content, target: Content, origin: str) -> None:
        """Store a translation; the first of several for the same text is kept."""
        codes = [part for part in source if isinstance(part, Code)]
        key = "".join(_marked(source, codes))
        text = "".join(_marked(target, list(codes)))
        if key not in self._entries:
            self._entries[key] = _Entry(text, origin)
            self._by_form[_numbers(key), len(key)].append(key)

    def find(self, source: Content) -> Match | None:
        """Return the translation of this text, or of the most similar one."""
        codes = [part for part in source if isinstance(part, Code)]
        key = "".join(_marked(source, list(codes)))
        entry = self._entries.get(key)
        score = 1.0
        if entry is None and self.threshold < 1:
            similar = self._most_similar(key)
            if similar is not None:
                similar_key, score = similar
                entry = self._entries[similar_key]
        if entry is None:
            return None
        content = _unmarked(entry.target, codes)
        return None if content is None else Match(content, score, entry.origin)

    def _most_similar(self, key: str) -> tuple[str, float] | None:
        try:
            from rapidfuzz import fuzz, process  # noqa: PLC0415  (only fuzzy matches need it)
        except ModuleNotFoundError:
            raise MissingExtraError("fuzzy matches", "rapidfuzz", "formats") from None
        # The lengths of texts with this similarity differ at most so much.
        shortest = int(len(key) * self.threshold / (2 - self.threshold))
        longest = int(len(key) * (2 - self.threshold) / self.threshold) + 1
        numbers = _numbers(key)
        candidates = [
            candidate
            for length in range(shortest, longest + 1)
            for candidate in self._by_form.get((numbers, length), ())
        ]
        match = process.extractOne(
            key, candidates, scorer=fuzz.ratio, score_cutoff=100 * self.threshold
        )
        # Only an equal text has a similarity of 1, also after rounding.
        return None if match is None else (match[0], min(round(match[1] / 100, 4), 0.9999))


def _numbers(text: str) -> str:
    return " ".join(_NUMBER.findall(text))


def _marked(content: Content, codes: list[Code]) -> Iterator[str]:
    """Write each code as the mark of its number in `codes`; an unknown code is dropped.

    The pairs of a translation may be numbered in another order than those of its source.
    """
    remaining = list(enumerate(codes))
    pairs: dict[int, int] = {}
    for part in content:
        if isinstance(part, str):
            yield part
            continue
        for index, (number, code) in enumerate(remaining):
            is_same = (code.raw, code.kind) == (part.raw, part.kind)
            if is_same and (part.kind != "close" or pairs.get(part.pair, part.pair) == code.pair):
                pairs[part.pair] = code.pair
                yield chr(_FIRST_MARK + number)
                del remaining[index]
                break


def _unmarked(text: str, codes: list[Code]) -> Content | None:
    """Replace the marks by codes; None if a code is missing or left over."""
    parts: list[str | Code] = list(_MARKS.split(text))
    numbers = [ord(mark) - _FIRST_MARK for mark in _MARKS.findall(text)]
    if sorted(numbers) != list(range(len(codes))):
        return None
    parts[1::2] = [codes[number] for number in numbers]
    return merged(parts)
