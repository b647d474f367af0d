"""How did the search find its answer?

Each step of a search shows what it compared, what goes on and what is complete; from these the fate
of every beginning follows. Nothing is scored a second time.

    kept       among the K best that have not ended: goes on
    ended      ended among the K best: put away, to be compared at the end
    cut        at the length limit: put away as it is
    dropped    its score is below that of the K-th
    late       it ended, but behind the K-th: not counted
    left       others were enough, and the search is over

Greedy search is a beam of one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dragoman.decoding.engine import Hypothesis
from dragoman.decoding.search import Candidates, Search, Step

Fate = Literal["kept", "ended", "cut", "dropped", "late", "left"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A beginning that was compared with others."""

    parent: int
    """Which of those that were kept by the step before it goes on from; 0 in the first step."""
    tokens: tuple[int, ...]
    """All of them; `end` too."""
    score: float
    """The sum of the log-probabilities of its tokens."""
    fate: Fate


@dataclass(frozen=True, slots=True)
class Finalist:
    """A complete translation, as it was compared with others at the end."""

    tokens: tuple[int, ...]
    """With `end`, where it has one."""
    total: float
    """The sum of the log-probabilities."""
    score: float
    """The total, made up for length."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A search, step by step."""

    width: int
    steps: tuple[tuple[Candidate, ...], ...]
    """Of each step the candidates, best first: those that the search looked at, two for each place
    in the beam; all others were worse."""
    finalists: tuple[Finalist, ...]
    """Best first; the first is the answer."""


def replay(search: Search, steps: Sequence[Step]) -> Replay:
    """Tell what became of every beginning of one sentence."""
    told: list[tuple[Candidate, ...]] = []
    finalists: dict[tuple[int, ...], Finalist] = {}
    beginnings: list[tuple[int, ...]] = [()]
    done: tuple[Hypothesis, ...] = ()
    for step in steps:
        assert step.considered is not None
        kept = [tuple(row) for row in step.tokens.tolist()]
        complete = {_whole(each, search.end) for each in step.done[0]}
        new = complete - {_whole(each, search.end) for each in done}
        candidates = tuple(
            Candidate(parent, tokens, score, _fate(tokens, kept, new, search.end))
            for parent, tokens, score in _considered(step.considered, beginnings)
        )
        for each in candidates:
            if each.fate in ("ended", "cut"):
                score = search.normalise(each.score, len(each.tokens))
                finalists[each.tokens] = Finalist(each.tokens, each.score, score)
        told.append(candidates)
        beginnings, done = kept, step.done[0]
    order = [finalists[_whole(each, search.end)] for each in done]
    return Replay(search.settings.beam, tuple(told), tuple(order))


def _considered(
    found: Candidates, beginnings: Sequence[tuple[int, ...]]
) -> Iterator[tuple[int, tuple[int, ...], float]]:
    columns = (found.rows[0].tolist(), found.tokens[0].tolist(), found.scores[0].tolist())
    for row, token, score in zip(*columns, strict=True):
        if math.isfinite(score):  # What a guard forbids, and fillings, are no beginnings.
            yield row, (*beginnings[row], token), score


def _fate(
    tokens: tuple[int, ...],
    kept: Sequence[tuple[int, ...]],
    complete: set[tuple[int, ...]],
    end: int,
) -> Fate:
    is_end = tokens[-1] == end
    if tokens in complete:
        return "ended" if is_end else "cut"
    if tokens in kept:
        return "kept"
    if is_end:
        return "late"
    return "dropped" if kept else "left"


def _whole(hypothesis: Hypothesis, end: int) -> tuple[int, ...]:
    return (*hypothesis.tokens, end) if hypothesis.is_ended else hypothesis.tokens
