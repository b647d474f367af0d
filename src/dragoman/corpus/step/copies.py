"""Copies: the target is not the source again.

Untranslated lines teach a model to copy, and no other noise does as much harm: a few of them in a
hundred spoil a translator (Khayrallah and Koehn, 2018; Ott et al., 2018). Case, white space and
punctuation are ignored.

Names, numbers and words that two languages share are rightly copied. They are short, so a copy
with few letters stays. Letters in addresses, paths and names of code do not count.
"""

from __future__ import annotations

import re

from pydantic import NonNegativeInt

from dragoman.corpus.cleaning import Pair, Step

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_ANYTHING_ELSE = re.compile(r"[\W_]+")
_IN_CODE = re.compile(r"[/@_\\]|::|\w\(")


class Copies(Step):
    """Drops copies of at least `letters` letters."""

    def __init__(self, source: str, target: str, *, letters: NonNegativeInt = 20) -> None:
        super().__init__(source, target)
        self.letters = letters

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair whose sides are the same, as a `copy`."""
        # Most pairs part at the first letter, which is cheap to see.
        source, target = map(_LETTER_OR_DIGIT.search, pair)
        if not source or not target or source[0].casefold() != target[0].casefold():
            return pair
        is_copy = _content(pair.source) == _content(pair.target)
        return "copy" if is_copy and _letters(pair.source) >= self.letters else pair


def _content(text: str) -> str:
    return _ANYTHING_ELSE.sub("", text).casefold()


def _letters(text: str) -> int:
    words = (word for word in text.split() if not _IN_CODE.search(word))
    return sum(sum(map(str.isalpha, word)) for word in words)
