"""Copies: drops pairs whose target repeats the source.

Untranslated lines train a model to copy, and no other noise does as much harm: a few of them in a
hundred spoil a translation model (Khayrallah and Koehn, 2018; Ott et al., 2018). Case, white space
and punctuation are ignored.

Names, numbers and words that two languages share are correct copies. They are short, so a copy with
few letters is kept. Letters in addresses, paths and identifiers of code are not counted.
"""

from __future__ import annotations

import re

from pydantic import NonNegativeInt

from dragoman.corpus.filter import Filter, Pair

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_ANYTHING_ELSE = re.compile(r"[\W_]+")
_IN_CODE = re.compile(r"[/@_\\]|::|\w\(")


class Copies(Filter):
    """Drops copies with at least `min_letters` letters."""

    def __init__(self, source: str, target: str, *, min_letters: NonNegativeInt = 20) -> None:
        super().__init__(source, target)
        self.min_letters = min_letters

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair with equal sides: `target is a copy`."""
        # Most pairs differ in the first letter, which is cheap to compare.
        source, target = map(_LETTER_OR_DIGIT.search, pair)
        if not source or not target or source[0].casefold() != target[0].casefold():
            return pair
        is_copy = _content(pair.source) == _content(pair.target)
        has_many_letters = is_copy and _count_letters(pair.source) >= self.min_letters
        return "target is a copy" if has_many_letters else pair


def _content(text: str) -> str:
    return _ANYTHING_ELSE.sub("", text).casefold()


def _count_letters(text: str) -> int:
    words = (word for word in text.split() if not _IN_CODE.search(word))
    return sum(sum(map(str.isalpha, word)) for word in words)
