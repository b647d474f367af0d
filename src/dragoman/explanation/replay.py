"""Reconstruct a beam search: what became of every hypothesis that it compared.

Each step of a search records the candidates that it compared, the hypotheses that it kept and those
that are complete. The outcome of every candidate follows from these records; nothing is scored a
second time. With beam size K the outcomes are:

    kept         among the K best unfinished candidates: the next step extends it
    finished     it ends among the K best candidates: compared with the others at the end
    truncated    it reached the length limit: compared at the end as it is
    dropped      unfinished, and worse than the K-th that was kept
    late         it ends, but not among the K best candidates: not used
    unused       unfinished when the search stopped, because enough others were finished

Greedy search is a beam of size 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dragoman.decoding.engine import Hypothesis
from dragoman.decoding.search import Candidates, Search, SearchStep

Outcome = Literal["kept", "finished", "truncated", "dropped", "late", "unused"]
Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A hypothesis that one step compared with others."""

    parent: int
    """Index of the hypothesis that it extends, among those that the previous step kept; 0 at first.
    """
    tokens: Tokens
    """All tokens, including the end token."""
    score: float
    """Sum of the log-probabilities of its tokens."""
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Finished:
    """A complete translation with the score that the search used at the end."""

    tokens: Tokens
    """Includes the end token, if there is one."""
    total: float
    """Sum of the log-probabilities."""
    score: float
    """The total, length-normalized, plus the coverage penalty."""


@dataclass(frozen=True, slots=True)
class BeamTrace:
    """A beam search, step by step."""

    beam_size: int
    steps: tuple[tuple[Candidate, ...], ...]
    """The candidates of each step, best first. A step compares two for each slot of the beam."""
    finished: tuple[Finished, ...]
    """Best first; the first one is the translation."""


def replay(search: Search, steps: Sequence[SearchStep]) -> BeamTrace:
    """Find the outcome of every candidate of one sentence."""
    traced: list[tuple[Candidate, ...]] = []
    finished: dict[Tokens, Finished] = {}
    prefixes: list[Tokens] = [()]
    done: tuple[Hypothesis, ...] = ()
    for step in steps:
        assert step.considered is not None
        kept = [tuple(row) for row in step.tokens.tolist()]
        scores = {
            _all_tokens(hypothesis, search.end): hypothesis.score for hypothesis in step.done[0]
        }
        new = set(scores) - {_all_tokens(hypothesis, search.end) for hypothesis in done}
        candidates = tuple(
            Candidate(parent, tokens, score, _outcome(tokens, kept, new, search.end))
            for parent, tokens, score in _extend(step.considered, prefixes)
        )
        for candidate in candidates:
            if candidate.outcome in ("finished", "truncated"):
                score = scores[candidate.tokens]
                finished[candidate.tokens] = Finished(candidate.tokens, candidate.score, score)
        traced.append(candidates)
        prefixes, done = kept, step.done[0]
    best_first = [finished[_all_tokens(hypothesis, search.end)] for hypothesis in done]
    return BeamTrace(search.settings.beam_size, tuple(traced), tuple(best_first))


def _extend(
    considered: Candidates, prefixes: Sequence[Tokens]
) -> Iterator[tuple[int, Tokens, float]]:
    columns = (
        considered.rows[0].tolist(),
        considered.tokens[0].tolist(),
        considered.scores[0].tolist(),
    )
    for row, token, score in zip(*columns, strict=True):
        if math.isfinite(score):  # Forbidden tokens and padding have a score of −∞.
            yield row, (*prefixes[row], token), score


def _outcome(tokens: Tokens, kept: Sequence[Tokens], complete: set[Tokens], end: int) -> Outcome:
    is_end = tokens[-1] == end
    if tokens in complete:
        return "finished" if is_end else "truncated"
    if tokens in kept:
        return "kept"
    if is_end:
        return "late"
    return "dropped" if kept else "unused"


def _all_tokens(hypothesis: Hypothesis, end: int) -> Tokens:
    return (*hypothesis.tokens, end) if hypothesis.is_finished else hypothesis.tokens
