"""Where can a long text be cut?

Between sentences, as pysbd finds them for the languages it knows, and by a plain rule for others.
What is still too long is halved: behind a comma, else between words, else anywhere. Whatever is
cut, the pieces and the gaps between them together are the text, to the letter.
"""

from __future__ import annotations

import functools
import itertools
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_WINDOW = 2000
"""Characters in which sentences are looked for at once: rules must not meet a text without end."""

# Where there are no spaces between sentences, closing quotes still belong to the one before.
_AFTER_SENTENCE = re.compile(
    r"(?<=[.!?…।؟۔])[\"'”’»)\]]*\s+|(?<=[。！？])(?![。！？])[\"'”’」』）)\]]*\s*"
)
# Between digits, 1,000 and 10:30 have no clauses.
_AFTER_CLAUSE = re.compile(r"(?<=[,;:،–—])\s+|(?<=[，；：、])\s*")
_BETWEEN_WORDS = re.compile(r"\s+")

_WITHOUT_SPACES = {"bo", "dz", "ja", "km", "lo", "my", "th", "yue", "zh"}
"""Languages that have no space between sentences."""


class Piece(NamedTuple):
    """A part of a text, without space at its ends, and the space that follows it."""

    text: str
    gap: str


def split(text: str, language: str) -> list[Piece]:
    """Cut a text into its sentences; the text must not begin or end with space."""
    parts: list[str] = []
    start = 0
    while start < len(text):
        window = text[start : _window_end(text, start)]
        found = _find(window, language)
        # The last sentence may go on behind the window; it is looked at again from its beginning.
        is_last = start + len(window) == len(text)
        if not is_last and len(window) - len(found[-1]) >= _WINDOW // 4:
            found.pop()
        parts += found
        start += sum(map(len, found))
    return _pieces(parts)


def halve(text: str) -> list[Piece]:
    """Cut a text into two, as near its middle as its words allow; one letter stays whole."""
    if len(text) < 2:
        return [Piece(text, "")]
    middle = len(text) // 2
    quarter = len(text) // 4
    for pattern in (_AFTER_CLAUSE, _BETWEEN_WORDS):
        cuts = [
            each.end()
            for each in pattern.finditer(text, quarter, len(text) - quarter)
            if 0 < each.end() < len(text)
        ]
        if cuts:
            cut = min(cuts, key=lambda each: abs(each - middle))
            return _pieces([text[:cut], text[cut:]])
    return _pieces([text[:middle], text[middle:]])


def fit(
    text: str, language: str, measure: Callable[[Sequence[str]], list[int]], most: int
) -> list[Piece]:
    """Cut a text into pieces that measure at most so much each, or are a single letter."""

    def shorten(pieces: list[Piece]) -> list[Piece]:
        short: list[Piece] = []
        sizes = measure([each.text for each in pieces])
        for piece, size in zip(pieces, sizes, strict=True):
            if size <= most or len(piece.text) < 2:
                short.append(piece)
            else:
                *first, last = halve(piece.text)
                short += shorten([*first, Piece(last.text, last.gap + piece.gap)])
        return short

    return shorten(split(text, language))


def gap(source: str, target: str) -> str:
    """Say what comes between translated sentences, where nothing stood between the sentences."""
    is_missing = _plain(source) in _WITHOUT_SPACES and _plain(target) not in _WITHOUT_SPACES
    return " " if is_missing else ""


def _window_end(text: str, start: int) -> int:
    """Find an end between words, where there are any."""
    end = start + _WINDOW
    if end >= len(text):
        return len(text)
    spaces = [each.end() for each in _BETWEEN_WORDS.finditer(text, start + _WINDOW // 2, end)]
    return spaces[-1] if spaces else end


def _find(text: str, language: str) -> list[str]:
    """Find the sentences; together they are the text."""
    starts = _starts(text, language) or [each.end() for each in _AFTER_SENTENCE.finditer(text)]
    return [text[start:end] for start, end in itertools.pairwise(sorted({0, *starts, len(text)}))]


def _starts(text: str, language: str) -> list[int]:
    """Say where sentences begin, as pysbd finds them; nowhere, where it is not to be trusted."""
    segmenter = _segmenter(_plain(language))
    if segmenter is None or text.isspace():
        return []
    try:
        sentences = segmenter.processor(text).process()
    except (ValueError, re.error):  # Control characters in a list; brackets in an abbreviation.
        return []
    starts, place = [], 0
    # It gives sentences, not places; and now and then it has lost or changed a letter.
    for sentence in sentences:
        place = text.find(sentence, place)
        if place < 0:
            return []
        starts.append(place)
        place += len(sentence)
    return starts


def _plain(language: str) -> str:
    """The language without its country or its script: pt of pt-BR, zh of zh_Hant."""
    return re.split(r"[-_]", language)[0].lower()


@functools.cache
def _segmenter(language: str) -> Any:
    """Pysbd for this language, or nothing where it is not installed or does not know it."""
    try:
        with warnings.catch_warnings():
            # Some of its patterns are strings that Python warns of.
            warnings.simplefilter("ignore")
            import pysbd  # noqa: PLC0415
            from pysbd.languages import LANGUAGE_CODES  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    if language not in LANGUAGE_CODES:
        return None
    return pysbd.Segmenter(language=language, clean=False)


def _pieces(parts: Sequence[str]) -> list[Piece]:
    """Take the space at the ends of each part into the gaps; a part of nothing but space too."""
    pieces: list[Piece] = []
    for part in parts:
        body = part.strip()
        lead = part[: len(part) - len(part.lstrip())] if body else part
        trail = part[len(part.rstrip()) :] if body else ""
        if lead and pieces:
            pieces[-1] = Piece(pieces[-1].text, pieces[-1].gap + lead)
        elif lead:
            pieces.append(Piece("", lead))
        if body:
            pieces.append(Piece(body, trail))
    return pieces
