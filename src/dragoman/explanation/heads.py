"""What does a head do?

A few measures of where its weights lie, and a name in plain words where one of them is large. All
are means over the rows in which there is a choice: whoever sees one key alone must look at it.

    entropy     −Σ wᵢ log₂ wᵢ, in bits; 2 to its power is about how many tokens are looked at
    evenness    the entropy as a share of the largest that the visible keys allow
    diagonal    the weight on the token itself; in cross-attention, within one place of the straight
                line from the beginning of both sentences to their end
    previous    the weight on the token before;  next: on the one behind
    first       the weight on the first key;  last: on the last word;  end: on the source's end

A measure that has no meaning for a kind of attention is None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.model.record import Kind

MAIN = 0.5
"""A share from which on a head is named after where it goes."""
EVEN = 0.9
"""An evenness from which on it looks everywhere."""
SHARP = 0.5
"""The mean of its largest weights from which on it picks single tokens."""

Numbers = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Head:
    """Where the weights of one head lie, as shares, and what that is called."""

    job: str
    entropy: float
    evenness: float
    largest: float
    """The mean of the largest weight of each row."""
    diagonal: float
    previous: float | None
    next: float | None
    first: float
    last: float | None
    end: float | None


_JOBS: dict[str, dict[Kind, str]] = {
    "previous": {"encoder": "looks one token back", "decoder": "looks one token back"},
    "next": {"encoder": "looks one token ahead"},
    "diagonal": {
        "encoder": "looks at the token itself",
        "decoder": "looks at the token just read",
        "cross": "goes along the source in step",
    },
    "first": {
        "encoder": "rests on the first token",
        "decoder": "rests on the beginning",
        "cross": "rests on the first token",
    },
    "last": {"encoder": "rests on the last word", "cross": "rests on the last word"},
    "end": {"encoder": "rests on the end", "cross": "rests on the end"},
}
EVERYWHERE, PICKS, MIXES = "looks everywhere alike", "picks single tokens", "mixes several tokens"


def judge(kind: Kind, weights: Numbers, mask: Numbers) -> Head:
    """Measure one head, from its weights and what it could see, both of T rows and S columns."""
    rows = np.flatnonzero(mask.sum(axis=1) > 1)
    if not len(rows):
        rows = np.arange(len(weights))
    weights, count = weights.astype(np.float64), weights.shape[1]
    seen = weights[rows]
    logarithms = np.log2(seen, where=seen > 0, out=np.zeros_like(seen))
    entropies = -(seen * logarithms).sum(axis=1)
    most = np.log2(np.maximum(mask[rows].sum(axis=1), 2))

    def mean(column: Callable[[int], int]) -> float | None:
        """The mean weight on a column that depends on the row, over rows that have it."""
        places = [(row, column(row)) for row in rows.tolist()]
        at = [weights[row, there] for row, there in places if 0 <= there < count]
        return float(np.mean(at)) if at else None

    is_own, has_end = kind != "cross", kind != "decoder"
    diagonal = mean(lambda row: row) if is_own else _along(weights, rows)
    shares: dict[str, float | None] = {
        "diagonal": diagonal,
        "previous": mean(lambda row: row - 1) if is_own else None,
        "next": mean(lambda row: row + 1) if kind == "encoder" else None,
        "first": mean(lambda _: 0),
        "last": mean(lambda _: count - 2) if has_end else None,
        "end": mean(lambda _: count - 1) if has_end else None,
    }
    evenness, largest = float((entropies / most).mean()), float(seen.max(axis=1).mean())
    return Head(
        job=_job(kind, shares, evenness, largest),
        entropy=float(entropies.mean()),
        evenness=evenness,
        largest=largest,
        **shares,  # type: ignore[arg-type]  # of diagonal and first there is always one
    )


def _along(weights: Numbers, rows: Numbers) -> float:
    """The weight within one place of the straight line from corner to corner."""
    height, width = weights.shape
    line = np.arange(height) * (width - 1) / max(height - 1, 1)
    is_near = np.abs(np.arange(width) - line[:, None]) <= 1
    return float((weights * is_near)[rows].sum(axis=1).mean())


def _job(kind: Kind, shares: dict[str, float | None], evenness: float, largest: float) -> str:
    name, share = max(shares.items(), key=lambda each: each[1] or 0.0)
    if (share or 0.0) >= MAIN and evenness < EVEN:
        return _JOBS[name][kind]
    if evenness >= EVEN:
        return EVERYWHERE
    return PICKS if largest >= SHARP else MIXES
