"""Repetition: drops pairs where only one side repeats the same words many times.

Failing translation models answer `salad salad salad`, crawled pages repeat their menus, and a model
that is trained on such text loops too. The longest run of the same few words is compared with the
length of its side. If both sides repeat themselves, the repetition belongs to the text.

Words are separated by white space. In a text with hardly any white space, characters are used.
"""

from __future__ import annotations

from operator import eq
from typing import Annotated

from pydantic import Field, PositiveInt

from dragoman.corpus.filter import Filter, Pair

# Much longer than a sentence; of a longer text only the beginning is read.
_READ_CHARACTERS = 10_000
_MAX_UNIT_WORDS = 8
_MIN_TIMES = 3
_PUNCTUATION = ".,;:!?…\"'()-–—、。！？"
_CHARACTERS_PER_WORD = 20


class Repetition(Filter):
    """Drops pairs where a run of `min_words` words or more fills `min_share` of one side only."""

    def __init__(
        self,
        source: str,
        target: str,
        *,
        min_share: Annotated[float, Field(gt=0, le=1)] = 0.5,
        min_words: PositiveInt = 4,
    ) -> None:
        super().__init__(source, target)
        self.min_share = min_share
        self.min_words = min_words

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair with a `repetition on one side`."""
        source, target = (self._repeats(text, self.min_share) for text in pair)
        if source == target:
            return pair
        # If the other side repeats half as much, the repetition belongs to the text.
        other = pair.target if source else pair.source
        return pair if self._repeats(other, self.min_share / 2) else "repetition on one side"

    def _repeats(self, text: str, share: float) -> bool:
        text = text[:_READ_CHARACTERS]
        words = text.split()
        if len(words) * _CHARACTERS_PER_WORD < len(text):
            words = list(text)
        min_run = max(self.min_words, share * len(words))
        # A run contains each of its words several times, so a text with many different words
        # cannot contain one. (Two more words may differ: by the capital at the beginning of the
        # run and by the full stop at its end.)
        max_distinct = len(words) - (1 - 1 / _MIN_TIMES) * min_run + 2
        if len(words) < min_run or len(set(words)) > max_distinct:
            return False
        words = [word.strip(_PUNCTUATION).casefold() for word in words]
        return any(_longest_run(words, unit) >= min_run for unit in range(1, _MAX_UNIT_WORDS + 1))


def _longest_run(words: list[str], unit: int) -> int:
    """Return the length in words of the longest run of a unit; 0 if it repeats too few times."""
    # One byte per word: 1 if it equals the word one unit before. Zeros separate the runs.
    is_repeated = bytes(map(eq, words, words[unit:]))
    longest = max(map(len, is_repeated.split(b"\0"))) + unit
    return longest if longest >= _MIN_TIMES * unit else 0
