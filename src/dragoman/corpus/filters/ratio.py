"""Ratio: drops pairs with one side much longer than the other.

A translation is about as long as its source. If it is not, something was left out, added, or put on
the wrong line (Gale and Church, 1993, align sentences by length alone). Lengths are counted in
characters, because the number of words differs more between languages with and without compounds. A
constant is added to both lengths, so that short pairs pass, whose ratio means little:

    (longer + smoothing) / (shorter + smoothing) ≤ max_ratio
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, NonNegativeInt

from dragoman.corpus.filter import Filter, Pair
from dragoman.text.languages import base_language

# One character is a syllable or a word: it corresponds to so many letters of an alphabet.
_LETTERS_PER_CHARACTER = {"zh": 3, "yue": 3, "wuu": 3, "lzh": 3, "ja": 2, "ko": 2}
_WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\uff01-\uffe6\U00020000-\U0003fffd]"
)


class Ratio(Filter):
    """Keeps pairs whose longer side is at most `max_ratio` times the shorter, after smoothing."""

    def __init__(
        self,
        source: str,
        target: str,
        *,
        max_ratio: Annotated[float, Field(ge=1)] = 2.0,
        smoothing: NonNegativeInt = 20,
    ) -> None:
        super().__init__(source, target)
        self.max_ratio = max_ratio
        self.smoothing = smoothing
        self.letters_per_character = tuple(map(_letters_per_character, (source, target)))

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair with a `length ratio too large`."""
        source = _length(pair.source, self.letters_per_character[0]) + self.smoothing
        target = _length(pair.target, self.letters_per_character[1]) + self.smoothing
        if max(source, target) > self.max_ratio * min(source, target):
            return "length ratio too large"
        return pair


def _letters_per_character(language: str) -> int:
    return _LETTERS_PER_CHARACTER.get(base_language(language), 1)


def _length(text: str, letters_per_character: int) -> int:
    if letters_per_character == 1 or text.isascii():
        return len(text)
    return len(text) + (letters_per_character - 1) * len(_WIDE.findall(text))
