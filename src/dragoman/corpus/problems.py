"""Finds the problems of a corpus in a sample of its pairs, before anything is prepared.

The sample passes the filters of the recipe, as in `stages/clean.py`, and equal pairs are counted.
A sample is enough to see that a corpus has a problem; `prepare` examines every pair.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.corpus.alignment import AlignmentCheck, Shift
from dragoman.corpus.filter import Pair, apply_filters, build_filters
from dragoman.corpus.row import Reject, Row
from dragoman.recipe.parts import Choice
from dragoman.text.languages import LanguagePair

SAMPLE = 10_000
_ALIGNED_ROWS = 20_000
"""Rows from the beginning that are searched for a shift, which costs as much as the filters."""
DUPLICATE = "equal to another pair"


@dataclass(frozen=True, slots=True)
class Problem:
    """Pairs that `prepare` would drop for one reason."""

    reason: str
    count: int
    example: Row
    """The first one."""


@dataclass(frozen=True, slots=True)
class Problems:
    """The problems of a sample, the most frequent first."""

    examined: int
    """The number of pairs in the sample."""
    by_reason: tuple[Problem, ...]
    shift: Shift | None
    """Where two files no longer belong together, line by line."""


class CorpusSample:
    """A random sample of the pairs of a corpus, which is read once.

    Every pair has the same probability (reservoir sampling, Vitter 1985). The same files give the
    same sample.
    """

    def __init__(self, *, is_aligned_by_line: bool) -> None:
        self.rows: list[Row] = []
        self._seen = 0
        self._random = random.Random(0)  # noqa: S311  (for a sample, not for secrets)
        self._alignment = AlignmentCheck() if is_aligned_by_line else None

    def add(self, row: Row | Reject) -> None:
        """See the next row of the corpus."""
        if self._alignment is not None and row.number <= _ALIGNED_ROWS:
            self._alignment.add(row)
        if isinstance(row, Reject):
            return
        self._seen += 1
        if len(self.rows) < SAMPLE:
            self.rows.append(row)
        elif (index := self._random.randrange(self._seen)) < SAMPLE:
            self.rows[index] = row

    def problems(self, languages: LanguagePair, filters: Sequence[Choice]) -> Problems:
        """Apply filters to the sample."""
        rules = build_filters(filters, languages.source, languages.target)
        dropped: dict[str, list[Row]] = {}
        kept: set[Pair] = set()
        for row in sorted(self.rows):
            verdict = apply_filters(rules, Pair(row.source, row.target))
            if isinstance(verdict, str):
                dropped.setdefault(verdict, []).append(row)
            elif verdict in kept:
                dropped.setdefault(DUPLICATE, []).append(row)
            else:
                kept.add(verdict)
        problems = [Problem(reason, len(rows), rows[0]) for reason, rows in dropped.items()]
        problems.sort(key=lambda problem: (-problem.count, problem.reason))
        shift = self._alignment.shift if self._alignment is not None else None
        return Problems(len(self.rows), tuple(problems), shift)
