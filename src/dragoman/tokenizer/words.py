"""The word tokenizer: every word has its own id.

The vocabulary is a list of whole words, the most frequent of the training text. All other words
become UNKNOWN and are lost ([APPLY-DL], claim C18). This tokenizer exists as a baseline for
byte-pair encoding.

Text is split at white space, and between a punctuation character and its neighbors. A piece without
a space before it gets a mark: `Well, no.` becomes `Well`, `￭,`, `no`, `￭.`. So known words are
restored as they were written; only runs of white space become one space.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from dragoman.tokenizer.interface import RESERVED_TOKENS
from dragoman.tokenizer.vocabulary_list import VocabularyList

JOINER = "￭"
"""Marks a piece without a space before it, as in OpenNMT's Tokenizer."""

PUNCTUATION = rf"!-/:-@\[-`{{-~¡-¿‐-⁞⸀-⹿、-〃〈-】〔-〟〰！-／：-＠［-｀｛-･{JOINER}"
"""Characters that are words of their own: of ASCII and Latin-1, of all scripts, of Chinese and
Japanese. They are listed as ranges, because Python's \\w would split a word at every combining
mark."""

_OWN_WORDS = PUNCTUATION + "".join(RESERVED_TOKENS)

# The ranges contain white space (U+2028), where a word ends anyway.
BOUNDARY = re.compile(rf"(?<=\S)(?=[{_OWN_WORDS}])(?=\S)|(?<=[{_OWN_WORDS}])(?<=\S)(?=\S)")


class Words(VocabularyList):
    """Whole words, and UNKNOWN for the rest."""

    file_name: ClassVar[str] = "words.json"
    reserved: ClassVar[tuple[str, ...]] = (
        *RESERVED_TOKENS,
        *(JOINER + token for token in RESERVED_TOKENS),
    )

    def split(self, text: str) -> list[str]:
        """Split at white space and around punctuation."""
        return BOUNDARY.sub(f" {JOINER}", text).split()

    def as_text(self, piece: str) -> str:
        """Return the word with a space before it, unless it is joined to the word before."""
        is_joined = len(piece) > 1 and piece.startswith(JOINER)
        return piece[1:] if is_joined else f" {piece}"

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join ids into texts; special ids are skipped, including UNKNOWN."""
        return [text.removeprefix(" ") for text in super().decode(ids)]
