"""Ratio: neither side is much longer than the other.

A translation is about as long as its source; where it is not, something was left out, added, or
put on the wrong line (Gale and Church, 1993, align sentences by nothing else). Lengths are
characters, which vary less than words do between languages that write compounds and languages
that do not. A constant is added to both, so that short pairs, whose ratio says little, pass:

    (longer + smoothing) / (shorter + smoothing) ≤ most
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, NonNegativeInt

from dragoman.corpus.cleaning import Pair, Step

# A syllable or a word in one character: so many letters of an alphabet say the same.
_LETTERS_A_CHARACTER = {"zh": 3, "yue": 3, "wuu": 3, "lzh": 3, "ja": 2, "ko": 2}
_WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\uff01-\uffe6\U00020000-\U0003fffd]"
)


class Ratio(Step):
    """Keeps pairs whose longer side is at most `most` times the shorter, after smoothing."""

    def __init__(
        self,
        source: str,
        target: str,
        *,
        most: Annotated[float, Field(ge=1)] = 2.0,
        smoothing: NonNegativeInt = 20,
    ) -> None:
        super().__init__(source, target)
        self.most = most
        self.smoothing = smoothing
        self.letters = tuple(map(_letters_a_character, (source, target)))

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair whose `length ratio` is too large."""
        source = _length(pair.source, self.letters[0]) + self.smoothing
        target = _length(pair.target, self.letters[1]) + self.smoothing
        if max(source, target) > self.most * min(source, target):
            return "length ratio"
        return pair


def _letters_a_character(language: str) -> int:
    return _LETTERS_A_CHARACTER.get(language.replace("_", "-").partition("-")[0].lower(), 1)


def _length(text: str, letters_a_character: int) -> int:
    if letters_a_character == 1 or text.isascii():
        return len(text)
    return len(text) + (letters_a_character - 1) * len(_WIDE.findall(text))
