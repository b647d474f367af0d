"""What if every word had its own id?

The vocabulary is a list of whole words, the most frequent of the training text; all others are
one and the same UNKNOWN, and lost (seed 003, claim C18). That is why this tokenizer exists: to
be measured against byte-pair encoding.

Text is cut at white space, and between a sign of punctuation and whatever it touches. What stood
joined to its left keeps a mark: `Well, no.` is `Well`, `￭,`, `no`, `￭.`. So known words come
back as they were written; only runs of white space become one space.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from dragoman.tokenizer.listed import Listed

JOINED = "￭"
"""The mark of what is joined to its left, as in OpenNMT's Tokenizer."""

PUNCTUATION = rf"!-/:-@\[-`{{-~¡-¿‐-⁞⸀-⹿、-〃〈-】〔-〟〰！-／：-＠［-｀｛-･{JOINED}"
"""Signs that are words of their own: of ASCII and Latin-1, of all scripts, of Chinese and Japanese.
Written as ranges, for Python's \\w would cut a word at each of its combining marks."""

JOINT = re.compile(rf"(?<=\S)(?=[{PUNCTUATION}])|(?<=[{PUNCTUATION}])(?=\S)")


class Words(Listed):
    """Whole words, and UNKNOWN for the rest."""

    file_name: ClassVar[str] = "words.json"

    def cut(self, text: str) -> list[str]:
        """Cut at white space and round punctuation."""
        return JOINT.sub(f" {JOINED}", text).split()

    def as_text(self, piece: str) -> str:
        """A word brings the space before it, unless it is joined to its left."""
        is_joined = len(piece) > 1 and piece.startswith(JOINED)
        return piece[1:] if is_joined else f" {piece}"

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Put texts together again; special ids say nothing, UNKNOWN among them."""
        return [text.removeprefix(" ") for text in super().decode(ids)]
