"""Finds the line from which two line-aligned files no longer belong together.

If one file has a line too many and, further down, a line too few, the line counts are equal, but
every pair in between is wrong. The check compares each source line with the target lines up to
three lines away. It uses three features that need no knowledge of the languages: the length, the
beginnings of words and the numbers that both lines share, and the punctuation mark at the end.

Aligned lines have the higher likeness on average. If the lines k further on have it instead, their
advantage is summed up (CUSUM, Page 1954) until chance cannot explain it. The shift began where the
sum was last zero.

Neighboring lines that are equal, as the many translations of one sentence in Tatoeba, do not change
the sum.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from dragoman.corpus.row import Reject, Row

MAX_SHIFT = 3
"""The largest shift, in lines, that is looked for."""
THRESHOLD = 50.0
"""The summed advantage that counts as a shift: about 100 lines of prose, 700 of single words."""
ALLOWANCE = 0.02
"""The advantage below which a line does not count, so that text without features adds nothing."""

_SHIFTS = tuple(shift for shift in range(-MAX_SHIFT, MAX_SHIFT + 1) if shift)
_WORD = re.compile(r"\d+|\b\w{4}")
_COMPARED_CHARACTERS = 100  # The rest of a long line costs time and changes little.
_ENDS = {
    mark: kind
    for kind, marks in enumerate((".。।", "?？؟", "!！", ":：", ";；", ",，、"), start=1)
    for mark in marks
}


class Shift(NamedTuple):
    """From line `number` on, a source line belongs to the target line `shift` lines further."""

    number: int
    shift: int

    def __str__(self) -> str:
        direction = "further down" if self.shift > 0 else "further up"
        lines = "1 line" if abs(self.shift) == 1 else f"{abs(self.shift)} lines"
        return (
            f"from about line {self.number:,} on, a source line seems to belong to the target line "
            f"{lines} {direction}. Look there for a line that is missing or was cut in two"
        )


class _Features(NamedTuple):
    """The features of a line that are compared."""

    length: float
    end: int
    words: frozenset[str]


class AlignmentCheck:
    """Checks the rows of line-aligned files one by one; it needs every line, also rejects."""

    def __init__(self) -> None:
        self.shift: Shift | None = None
        """The first shift; rows after it are not checked."""
        self._sources: deque[_Features | None] = deque(maxlen=2 * MAX_SHIFT + 1)
        self._targets: deque[_Features | None] = deque(maxlen=2 * MAX_SHIFT + 1)
        self._numbers: deque[int] = deque(maxlen=2 * MAX_SHIFT + 1)
        self._advantage = dict.fromkeys(_SHIFTS, 0.0)
        self._first_line = dict.fromkeys(_SHIFTS, 0)
        self._pairs = 0
        self._ratio = 0.0

    def add(self, row: Row | Reject) -> Shift | None:
        """Check the next row; return the shift as soon as there is one."""
        if self.shift is not None:
            return self.shift
        is_pair = isinstance(row, Row) and row.source and row.target
        source = _features_of(row.source) if isinstance(row, Row) and is_pair else None
        target = _features_of(row.target) if isinstance(row, Row) and is_pair else None
        if source and target:
            # Lengths are compared relative to the usual length ratio of the two languages. It is
            # the same for all shifts: a running mean that adapts fast at first, then slowly.
            self._pairs += 1
            rate = max(1 / self._pairs, 0.001)
            self._ratio += rate * (target.length - source.length - self._ratio)
        self._sources.append(source)
        self._targets.append(target)
        self._numbers.append(row.number)
        if len(self._numbers) == 2 * MAX_SHIFT + 1:
            self._compare()
        return self.shift

    def _compare(self) -> None:
        source, partner = self._sources[MAX_SHIFT], self._targets[MAX_SHIFT]
        if source is None or partner is None:
            return
        aligned = _likeness(source, partner, self._ratio) + ALLOWANCE
        advantage = self._advantage
        for shift in _SHIFTS:
            other = self._targets[MAX_SHIFT + shift]
            if other is None:
                continue
            if advantage[shift] == 0:
                self._first_line[shift] = self._numbers[MAX_SHIFT]
            summed = advantage[shift] + _likeness(source, other, self._ratio) - aligned
            advantage[shift] = summed if summed > 0 else 0.0
            if summed > THRESHOLD:
                self.shift = Shift(self._first_line[shift], shift)


def find_shift(rows: Iterable[Row | Reject]) -> Shift | None:
    """Return the first line from which the files are shifted, and by how many lines."""
    check = AlignmentCheck()
    for row in rows:
        if check.add(row):
            break
    return check.shift


def _likeness(source: _Features, target: _Features, ratio: float) -> float:
    length, end, words = source
    other_length, other_end, other_words = target
    difference = other_length - length - ratio
    total = len(words) + len(other_words)
    # Shared words count double: they vary less than lengths and are better evidence.
    shared = 4 * len(words & other_words) / total if total else 0.0
    return shared - min(abs(difference), 1.0) + (0.5 if end == other_end else 0.0)


def _features_of(text: str) -> _Features:
    return _Features(
        math.log(len(text) + 1),
        _ENDS.get(text.rstrip()[-1:], 0),
        frozenset(_WORD.findall(text[:_COMPARED_CHARACTERS].lower())),
    )
