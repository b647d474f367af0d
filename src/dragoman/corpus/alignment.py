"""Are two files still aligned where they should be?

One line too many in one file and one too few further down: the counts are equal, and everything
between belongs to its neighbour. The check compares every source line with the target lines
around it, up to three away, by three things that need no knowledge of the languages: their
lengths, the beginnings of words and the numbers that they share, and the mark at their end.
Aligned lines win that comparison on average. When the lines k further on win instead, the
advantage is summed up (a CUSUM, Page 1954) until chance cannot explain it; the shift began where
the sum last stood at nothing.

Lines that are the same on both sides of the question, as the many translations of one sentence
in Tatoeba, say nothing and change nothing.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from dragoman.corpus.row import Reject, Row

REACH = 3
"""How far away the partner of a line is looked for."""
ENOUGH = 50.0
"""The summed advantage that is called a shift: about 100 lines of prose, 700 of single words."""
ALLOWANCE = 0.02
"""What a line must win by to count, so that text without any sign adds up to nothing."""

_SHIFTS = tuple(shift for shift in range(-REACH, REACH + 1) if shift)
_WORD = re.compile(r"\d+|\b\w{4}")
_LOOKED_AT = 100  # characters: the rest of a long line costs much and adds little
_ENDS = {
    mark: kind
    for kind, marks in enumerate((".。।", "?？؟", "!！", ":：", ";；", ",，、"), start=1)
    for mark in marks
}


class Shift(NamedTuple):
    """From line `number` on, a source line belongs to the target line `shift` lines further."""

    number: int
    shift: int


class _Signs(NamedTuple):
    """What is compared of a line."""

    length: float
    end: int
    words: frozenset[str]


class AlignmentCheck:
    """Watches the rows of line-aligned files go by; every line must come, rejects too."""

    def __init__(self) -> None:
        self.shift: Shift | None = None
        """The first shift that was found; rows after it are no longer looked at."""
        self._sources: deque[_Signs | None] = deque(maxlen=2 * REACH + 1)
        self._targets: deque[_Signs | None] = deque(maxlen=2 * REACH + 1)
        self._numbers: deque[int] = deque(maxlen=2 * REACH + 1)
        self._advantage = dict.fromkeys(_SHIFTS, 0.0)
        self._began = dict.fromkeys(_SHIFTS, 0)
        self._pairs = 0
        self._ratio = 0.0

    def add(self, row: Row | Reject) -> Shift | None:
        """Look at the next row; give the shift once there is one."""
        if self.shift is not None:
            return self.shift
        is_pair = isinstance(row, Row) and row.source and row.target
        source = _signs_of(row.source) if isinstance(row, Row) and is_pair else None
        target = _signs_of(row.target) if isinstance(row, Row) and is_pair else None
        if source and target:
            # Lengths are compared after the usual ratio of the two languages, over all shifts
            # the same, learned quickly at first and then followed slowly.
            self._pairs += 1
            step = max(1 / self._pairs, 0.001)
            self._ratio += step * (target.length - source.length - self._ratio)
        self._sources.append(source)
        self._targets.append(target)
        self._numbers.append(row.number)
        if len(self._numbers) == 2 * REACH + 1:
            self._compare()
        return self.shift

    def _compare(self) -> None:
        source, partner = self._sources[REACH], self._targets[REACH]
        if source is None or partner is None:
            return
        aligned = _likeness(source, partner, self._ratio) + ALLOWANCE
        advantage = self._advantage
        for shift in _SHIFTS:
            other = self._targets[REACH + shift]
            if other is None:
                continue
            if advantage[shift] == 0:
                self._began[shift] = self._numbers[REACH]
            summed = advantage[shift] + _likeness(source, other, self._ratio) - aligned
            advantage[shift] = summed if summed > 0 else 0.0
            if summed > ENOUGH:
                self.shift = Shift(self._began[shift], shift)


def find_shift(rows: Iterable[Row | Reject]) -> Shift | None:
    """Give the first line from which the files are shifted against each other, and how far."""
    check = AlignmentCheck()
    for row in rows:
        if check.add(row):
            break
    return check.shift


def _likeness(source: _Signs, target: _Signs, ratio: float) -> float:
    length, end, words = source
    other_length, other_end, other_words = target
    apart = other_length - length - ratio
    total = len(words) + len(other_words)
    # Shared words count double: they vary less than lengths and say more.
    shared = 4 * len(words & other_words) / total if total else 0.0
    return shared - min(abs(apart), 1.0) + (0.5 if end == other_end else 0.0)


def _signs_of(text: str) -> _Signs:
    return _Signs(
        math.log(len(text) + 1),
        _ENDS.get(text.rstrip()[-1:], 0),
        frozenset(_WORD.findall(text[:_LOOKED_AT].lower())),
    )
