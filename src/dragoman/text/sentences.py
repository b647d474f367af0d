"""Split long text into sentences, and sentences that are too long into halves.

pysbd finds the sentences of the languages that it supports; a regular expression does it for
others. A sentence that is still too long is halved: after a comma, else between words, else
anywhere. The pieces and the gaps between them always join to exactly the original text.
"""

from __future__ import annotations

import functools
import itertools
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dragoman.text.languages import base_language

_WINDOW = 2000
"""Maximum number of characters that are split at once, because pysbd is slow on long text."""

# Closing quotes belong to the sentence before, also where no space follows.
_AFTER_SENTENCE = re.compile(
    r"(?<=[.!?…।؟۔])[\"'”’»)\]]*\s+|(?<=[。！？])(?![。！？])[\"'”’」』）)\]]*\s*"
)
# Not between digits: 1,000 and 10:30 have no clauses.
_AFTER_CLAUSE = re.compile(r"(?<=[,;:،–—])\s+|(?<=[，；：、])\s*")
_BETWEEN_WORDS = re.compile(r"\s+")

_PYSBD_SYMBOLS = "ȸȹƪᓰᓱᓳᓴᓷᓸ∮∯⌬⎋☄☇☈☉☏☝♝♟♨♬♭✂"
"""pysbd writes these into the text while it works."""

_WITHOUT_SPACES = {"bo", "dz", "ja", "km", "lo", "my", "th", "yue", "zh"}
"""Languages without a space between sentences."""


class Piece(NamedTuple):
    """A part of a text without white space at its ends, and the white space that follows it."""

    text: str
    gap: str


def split(text: str, language: str) -> list[Piece]:
    """Split a text into sentences; the text must not begin or end with white space."""
    parts: list[str] = []
    start = 0
    while start < len(text):
        window = text[start : _window_end(text, start)]
        sentences = _sentences(window, language)
        # The last sentence may continue after the window; the next window starts with it.
        is_last = start + len(window) == len(text)
        if not is_last and len(window) - len(sentences[-1]) >= _WINDOW // 4:
            sentences.pop()
        parts += sentences
        start += sum(map(len, sentences))
    return _pieces(parts)


def halve(text: str) -> list[Piece]:
    """Split a text in two near its middle, between words if possible; keep a single character."""
    if len(text) < 2:
        return [Piece(text, "")]
    middle = len(text) // 2
    quarter = len(text) // 4
    for pattern in (_AFTER_CLAUSE, _BETWEEN_WORDS):
        cuts = [
            match.end()
            for match in pattern.finditer(text, quarter, len(text) - quarter)
            if 0 < match.end() < len(text)
        ]
        if cuts:
            cut = min(cuts, key=lambda position: abs(position - middle))
            return _pieces([text[:cut], text[cut:]])
    return _pieces([text[:middle], text[middle:]])


def fit(
    text: str, language: str, measure: Callable[[Sequence[str]], list[int]], max_size: int
) -> list[Piece]:
    """Split a text into pieces of at most `max_size` each; a single character is never split."""

    def shorten(pieces: list[Piece]) -> list[Piece]:
        short: list[Piece] = []
        sizes = measure([piece.text for piece in pieces])
        for piece, size in zip(pieces, sizes, strict=True):
            if size <= max_size or len(piece.text) < 2:
                short.append(piece)
            else:
                *first, last = halve(piece.text)
                short += shorten([*first, Piece(last.text, last.gap + piece.gap)])
        return short

    return shorten(split(text, language))


def gap(source: str, target: str) -> str:
    """Give what to put between translated sentences if nothing separates the source sentences."""
    has_none = [base_language(code) in _WITHOUT_SPACES for code in (source, target)]
    return " " if has_none == [True, False] else ""


def _window_end(text: str, start: int) -> int:
    """Find the end of a window, between words if possible."""
    end = start + _WINDOW
    if end >= len(text):
        return len(text)
    spaces = [match.end() for match in _BETWEEN_WORDS.finditer(text, start + _WINDOW // 2, end)]
    return spaces[-1] if spaces else end


def _sentences(text: str, language: str) -> list[str]:
    """Split a text into sentences that join to exactly the text."""
    # Most texts are one sentence, and pysbd needs half a millisecond to find that out.
    if not _may_be_several(base_language(language)).search(text):
        return [text]
    return _split_sentences(text, language)


def _split_sentences(text: str, language: str) -> list[str]:
    starts = _starts(text, language) or [match.end() for match in _AFTER_SENTENCE.finditer(text)]
    return [text[start:end] for start, end in itertools.pairwise(sorted({0, *starts, len(text)}))]


@functools.cache
def _may_be_several(language: str) -> re.Pattern[str]:
    """Return a pattern that finds nothing in texts that `_split_sentences` leaves whole.

    They have no punctuation that ends a sentence, or only as the last character, and nothing that
    looks like a list: `a) one b) two`.
    """
    segmenter = _segmenter(language)
    if segmenter is None:
        return _AFTER_SENTENCE
    ends = re.escape("".join(segmenter.language_module.Punctuations))
    return re.compile(
        rf"[\n\r{_PYSBD_SYMBOLS}]"
        rf"|[{ends}](?!\Z|(?<=\d\.)\d)"  # 1.5 is one number.
        rf"|\A[（「('\"“].*[{ends}]\Z"
        r"|\).*[)\"”“]|[\"”“].*\)"
        r"|-[\"'“”]\s",
        re.DOTALL,
    )


def _starts(text: str, language: str) -> list[int]:
    """Give the positions where sentences start according to pysbd; none if it fails."""
    segmenter = _segmenter(base_language(language))
    if segmenter is None or text.isspace():
        return []
    try:
        sentences = segmenter.processor(text).process()
    except (ValueError, re.error):  # Control characters in a list, brackets in an abbreviation.
        return []
    starts, position = [], 0
    # pysbd gives sentences, not positions, and sometimes loses or changes a character.
    for sentence in sentences:
        position = text.find(sentence, position)
        if position < 0:
            return []
        starts.append(position)
        position += len(sentence)
    return starts


@functools.cache
def _segmenter(language: str) -> Any:
    """Give the pysbd segmenter of a language; None if pysbd is missing or does not support it."""
    try:
        with warnings.catch_warnings():
            # Python warns about some of its string literals.
            warnings.simplefilter("ignore")
            import pysbd  # noqa: PLC0415
            from pysbd.languages import LANGUAGE_CODES  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    if language not in LANGUAGE_CODES:
        return None
    return pysbd.Segmenter(language=language, clean=False)


def _pieces(parts: Sequence[str]) -> list[Piece]:
    """Move the white space at the ends of each part into the gaps."""
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
