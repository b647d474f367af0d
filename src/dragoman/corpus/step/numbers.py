"""Numbers: a number on one side stands on the other side too.

A translation keeps its numbers, so that a year or an amount on one side only betrays a line that
was changed, cut or put in the wrong place. Languages write the same number in different ways, and
each of these is allowed:

- thousands and decimals parted by points, commas, spaces or apostrophes, or not at all, and scaled
  by a word: only figures other than zero must then agree (OpusFilter's `NonZeroNumeralsFilter`,
  after Vázquez et al., 2019);
- dates and times in any order, hours of twelve or of twenty-four, years of two figures or of four;
- words for small numbers and for round ones, where the other side has no number too many.

Figures right after a letter are part of a name (`MP3`); they need no partner, but may be one, for
`RFC1413` is also written `RFC 1413`.
"""

from __future__ import annotations

import re
from collections import Counter
from unicodedata import decimal

from pydantic import NonNegativeInt

from dragoman.corpus.cleaning import Pair, Step

_FIGURE = re.compile(r"\d")
_PARTED_BY = r"[.,' \u2019\u00a0\u2009\u202f]"
# `1,5` is one number or two, which only a reader knows: it is enough that one reading agrees.
_READINGS = (
    re.compile(rf"(?<![A-Za-z\d])(?:\d{{1,3}}(?:{_PARTED_BY}\d{{3}})+(?!\d)|\d+)"),
    re.compile(rf"(?<![A-Za-z\d])\d+(?:{_PARTED_BY}\d+)*"),
)
_IN_A_NAME = re.compile(r"(?<=[A-Za-z])\d+")
_MOST_PAIRS = 10_000
_NO_FIGURE = re.compile(r"\D")


class Numbers(Step):
    """Keeps pairs whose numbers agree; numbers up to `words` may be words on one side."""

    def __init__(self, source: str, target: str, *, words: NonNegativeInt = 12) -> None:
        super().__init__(source, target)
        self.words = words

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair whose `numbers differ`."""
        if not _FIGURE.search(pair.source) and not _FIGURE.search(pair.target):
            return pair
        if any(self._agree(pair, reading) for reading in _READINGS):
            return pair
        return "numbers differ"

    def _agree(self, pair: Pair, reading: re.Pattern[str]) -> bool:
        source, target = (Counter(_numbers(reading, text)) for text in pair)
        if source == target:
            return True
        left = _only_in(source, target, pair.target)
        right = _only_in(target, source, pair.source)
        if _without_zeros(left) == _without_zeros(right):
            return True
        left, right = _without_partners(left, right)
        return not (left and right) and all(map(self._may_be_a_word, left + right))

    def _may_be_a_word(self, number: str) -> bool:
        is_round = not number[1:].strip("0")
        return is_round or (len(number) < 4 and int(number) <= self.words)


def _numbers(reading: re.Pattern[str], text: str) -> list[str]:
    """List the numbers of a text: plain figures, without what parts them and leading zeros."""
    found = (_NO_FIGURE.sub("", number) for number in reading.findall(text))
    return [plain for number in found if (plain := _in_ascii(number).lstrip("0"))]


def _only_in(one: Counter[str], other: Counter[str], other_text: str) -> list[str]:
    names = {*_IN_A_NAME.findall(other_text)}
    return [number for number in (one - other).elements() if number not in names]


def _in_ascii(number: str) -> str:
    return number if number.isascii() else "".join(str(decimal(figure)) for figure in number)


def _without_zeros(numbers: list[str]) -> str:
    return "".join(numbers).replace("0", "")


def _without_partners(left: list[str], right: list[str]) -> tuple[list[str], list[str]]:
    """Take out numbers that are the same in the other side's way of writing them."""
    alone = []
    # A line of nothing but figures is none that partners would save: do not try all pairs of it.
    if len(left) * len(right) > _MOST_PAIRS:
        return left, right
    rest = list(right)
    for number in left:
        partner = next((other for other in rest if _is_the_same(number, other)), None)
        if partner is None:
            alone.append(number)
        else:
            rest.remove(partner)
    return alone, rest


def _is_the_same(one: str, other: str) -> bool:
    """Compare two numbers as amounts, then as years, then as hours."""
    if one.rstrip("0") == other.rstrip("0"):
        return True
    small, large = sorted((one, other), key=len)
    if len(large) == 4 and len(small) <= 2:
        return int(large) % 100 == int(small)
    return len(large) <= 2 and abs(int(one) - int(other)) == 12 and max(int(one), int(other)) <= 24
