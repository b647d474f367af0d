"""Repetition: no side says the same words over and over while the other does not.

Translators that lost their way answer `salad salad salad`, crawled pages repeat their menus, and
a model that learns from them loops in its turn. A run of the same few words, one after the other,
is measured against its side; where both sides repeat themselves, it is the author's voice.

Words are what white space parts; in a text that has hardly any, characters.
"""

from __future__ import annotations

from operator import eq
from typing import Annotated

from pydantic import Field, PositiveInt

from dragoman.corpus.cleaning import Pair, Step

# Far more than a sentence: a longer text is known by its beginning.
_READ = 10_000
_LONGEST_UNIT = 8
_FEWEST_TIMES = 3
_PUNCTUATION = ".,;:!?…\"'()-–—、。！？"
_CHARACTERS_A_WORD = 20


class Repetition(Step):
    """Drops pairs where a run of `words` words or more fills `share` of one side only."""

    def __init__(
        self,
        source: str,
        target: str,
        *,
        share: Annotated[float, Field(gt=0, le=1)] = 0.5,
        words: PositiveInt = 4,
    ) -> None:
        super().__init__(source, target)
        self.share = share
        self.words = words

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair for its `repetition`."""
        source, target = (self._repeats(text, self.share) for text in pair)
        if source == target:
            return pair
        # Half as much on the other side is no accident: it was said again and again there too.
        other = pair.target if source else pair.source
        return pair if self._repeats(other, self.share / 2) else "repetition"

    def _repeats(self, text: str, share: float) -> bool:
        text = text[:_READ]
        words = text.split()
        if len(words) * _CHARACTERS_A_WORD < len(text):
            words = list(text)
        least = max(self.words, share * len(words))
        # A run says each of its words several times: many different words leave no room for it.
        # (Two more may differ by the capital at its beginning and the full stop at its end.)
        room = len(words) - (1 - 1 / _FEWEST_TIMES) * least + 2
        if len(words) < least or len(set(words)) > room:
            return False
        words = [word.strip(_PUNCTUATION).casefold() for word in words]
        return any(_longest_run(words, unit) >= least for unit in range(1, _LONGEST_UNIT + 1))


def _longest_run(words: list[str], unit: int) -> int:
    """Count the words of the longest run of one unit said again and again, if often enough."""
    # One byte a word, 1 where it is the word of a unit before: runs are what the zeros part.
    again = bytes(map(eq, words, words[unit:]))
    longest = max(map(len, again.split(b"\0"))) + unit
    return longest if longest >= _FEWEST_TIMES * unit else 0
