"""Numbers: drops pairs with a number on one side that is missing on the other side.

A translation keeps its numbers. A year or an amount on one side only is the sign of a line that was
changed, cut or put in the wrong position. Languages write the same number in different ways, and
all of these are accepted:

- thousands and decimals separated by points, commas, spaces or apostrophes, or not at all, and
  scaled by a word: then only the digits other than zero must be equal (OpusFilter's
  `NonZeroNumeralsFilter`, after Vázquez et al., 2019);
- dates and times in any order, 12 or 24 hours, years of two digits or of four;
- words for small and for round numbers, if the other side has no additional number.

Digits directly after a letter are part of a name (`MP3`). They need no counterpart, but they can be
one: `RFC1413` is also written `RFC 1413`.
"""

from __future__ import annotations

import re
from collections import Counter
from unicodedata import decimal

from pydantic import NonNegativeInt

from dragoman.corpus.filter import Filter, Pair

_DIGIT = re.compile(r"\d")
_SEPARATOR = r"[.,' \u2019\u00a0\u2009\u202f]"
# `1,5` is one number or two, depending on the context: it is enough if one reading agrees.
_READINGS = (
    re.compile(rf"(?<![A-Za-z\d])(?:\d{{1,3}}(?:{_SEPARATOR}\d{{3}})+(?!\d)|\d+)"),
    re.compile(rf"(?<![A-Za-z\d])\d+(?:{_SEPARATOR}\d+)*"),
)
_IN_A_NAME = re.compile(r"(?<=[A-Za-z])\d+")
_MAX_COMPARISONS = 10_000
_NOT_A_DIGIT = re.compile(r"\D")


class Numbers(Filter):
    """Keeps pairs with equal numbers; up to `max_spelled_out`, one side may use a word instead."""

    def __init__(self, source: str, target: str, *, max_spelled_out: NonNegativeInt = 12) -> None:
        super().__init__(source, target)
        self.max_spelled_out = max_spelled_out

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair whose `numbers differ`."""
        if not _DIGIT.search(pair.source) and not _DIGIT.search(pair.target):
            return pair
        if any(self._agree(pair, reading) for reading in _READINGS):
            return pair
        return "numbers differ"

    def _agree(self, pair: Pair, reading: re.Pattern[str]) -> bool:
        source, target = (Counter(_numbers(reading, text)) for text in pair)
        if source == target:
            return True
        only_source = _only_in(source, target, pair.target)
        only_target = _only_in(target, source, pair.source)
        if _without_zeros(only_source) == _without_zeros(only_target):
            return True
        only_source, only_target = _remove_equivalent(only_source, only_target)
        is_on_one_side = not (only_source and only_target)
        return is_on_one_side and all(map(self._may_be_spelled_out, only_source + only_target))

    def _may_be_spelled_out(self, number: str) -> bool:
        is_round = len(number) > 1 and not number[1:].strip("0")
        return is_round or (len(number) < 4 and int(number) <= self.max_spelled_out)


def _numbers(reading: re.Pattern[str], text: str) -> list[str]:
    """Return the numbers of a text as digits, without separators and leading zeros."""
    numbers = (_NOT_A_DIGIT.sub("", number) for number in reading.findall(text))
    return [digits for number in numbers if (digits := _to_ascii(number).lstrip("0"))]


def _only_in(one: Counter[str], other: Counter[str], other_text: str) -> list[str]:
    names = {*_IN_A_NAME.findall(other_text)}
    return [number for number in (one - other).elements() if number not in names]


def _to_ascii(number: str) -> str:
    return number if number.isascii() else "".join(str(decimal(digit)) for digit in number)


def _without_zeros(numbers: list[str]) -> str:
    return "".join(numbers).replace("0", "")


def _remove_equivalent(one: list[str], other: list[str]) -> tuple[list[str], list[str]]:
    """Remove numbers that are the same number in the other side's notation."""
    # A line of nothing but numbers would not pass anyway: do not compare all pairs of it.
    if len(one) * len(other) > _MAX_COMPARISONS:
        return one, other
    unmatched, rest = [], list(other)
    for number in one:
        match = next((candidate for candidate in rest if _is_equivalent(number, candidate)), None)
        if match is None:
            unmatched.append(number)
        else:
            rest.remove(match)
    return unmatched, rest


def _is_equivalent(one: str, other: str) -> bool:
    """Compare two numbers as amounts, then as years, then as hours."""
    if one.rstrip("0") == other.rstrip("0"):
        return True
    small, large = sorted((one, other), key=len)
    if len(large) == 4 and len(small) <= 2:
        return int(large) % 100 == int(small)
    return len(large) <= 2 and abs(int(one) - int(other)) == 12 and max(int(one), int(other)) <= 24
