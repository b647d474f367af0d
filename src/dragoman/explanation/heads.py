"""Measure and describe what an attention head does.

All measures are means over the rows with a choice: a row that sees only one key is not counted.

    entropy     −Σ wᵢ log₂ wᵢ in bits; 2 ** entropy is about the number of tokens attended to
    evenness    the entropy divided by the largest entropy that the visible keys allow
    diagonal    weight on the token itself
    previous    weight on the previous token
    next        weight on the next token
    first       weight on the first token
    last        weight on the last token before the end token
    end         weight on the end token of the source

In cross-attention, "the token itself" is the source token on the straight line from the start of
both sentences to their end; previous and next are its neighbors. A measure that has no meaning for
a role is None.

A description follows from thresholds. The largest share describes the head if it is at least
`DOMINANT`. A share of at least `PARTIAL` that is also `LIFT` times the share of uniform attention
describes it partly. All other heads attend uniformly, to one token per row, or have no clear
pattern. The description contains the share, so that heads with the same pattern can be compared.

Heads of one layer that have the same pattern are also described by what distinguishes them: the
other measure that differs most from its mean over the other heads with this pattern, if it differs
by at least `DIFFERENT`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.model.role import Role

DOMINANT = 0.5
"""A head with this share of its weight at one position is described by it."""
PARTIAL = 0.3
"""A head with this share is partly described by it, if uniform attention has a much smaller one."""
LIFT = 2.0
"""How much larger than the share of uniform attention a partial share must be."""
UNIFORM = 0.9
"""From this evenness on, a head attends to all tokens equally."""
PEAKED = 0.5
"""If the mean of the largest weights is this large, a head attends to one token per row."""

DIFFERENT = 0.05
"""A measure that differs from the other heads by this much distinguishes a head."""

Array = npt.NDArray[Any]
Shares = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class HeadSummary:
    """The measures of one head, and a description in words."""

    description: str
    entropy: float
    evenness: float
    largest: float
    """Mean of the largest weight of each row."""
    diagonal: float
    previous: float | None
    next: float | None
    first: float
    last: float | None
    end: float | None


_DESCRIPTIONS: dict[str, dict[Role, str]] = {
    "previous": {
        "encoder": "previous token",
        "decoder": "previous token",
        "cross": "source in order, one token back",
    },
    "next": {"encoder": "next token", "cross": "source in order, one token ahead"},
    "diagonal": {
        "encoder": "token itself",
        "decoder": "current input token",
        "cross": "source in order",
    },
    "first": {"encoder": "first token", "decoder": "begin token", "cross": "first token"},
    "last": {"encoder": "last token before the end", "cross": "last token before the end"},
    "end": {"encoder": "end token", "cross": "end token"},
}
UNIFORM_TEXT, PEAKED_TEXT, NO_PATTERN = (
    "all tokens equally",
    "one token per row",
    "no clear pattern",
)


def describe_heads(role: Role, weights: Array, mask: Array) -> tuple[HeadSummary, ...]:
    """Measure the heads of one layer, H × T × S; say how heads with the same pattern differ."""
    heads = [describe_head(role, head, mask) for head in weights]
    described = []
    for head in heads:
        alike = [
            other for other in heads if other is not head and _pattern(other) == _pattern(head)
        ]
        described.append(_distinguished(role, head, alike) if alike else head)
    return tuple(described)


def _pattern(head: HeadSummary) -> str:
    """The description without the share."""
    return head.description.partition(" (")[0]


def _distinguished(role: Role, head: HeadSummary, alike: Sequence[HeadSummary]) -> HeadSummary:
    """Add the largest difference from the heads with the same pattern to the description."""
    pattern = _pattern(head).removeprefix("partly ")
    differences = {}
    for name, descriptions in _DESCRIPTIONS.items():
        own, shares = getattr(head, name), [getattr(other, name) for other in alike]
        is_known = own is not None and None not in shares
        # The share of the pattern itself is in the description already.
        if is_known and descriptions[role] != pattern:
            differences[descriptions[role]] = own - mean(shares)
    position = max(differences, key=lambda name: abs(differences[name]))
    difference = differences[position]
    if abs(difference) >= DIFFERENT:
        points = f"{100 * difference:+.0f}".replace("-", "−")
        text = f"{position} {points} points"
    else:
        evenness = head.evenness - mean(other.evenness for other in alike)
        if abs(evenness) < DIFFERENT:
            return head
        text = f"{'less' if evenness > 0 else 'more'} focused"
    return replace(head, description=f"{head.description}; {text}")


def describe_head(role: Role, weights: Array, mask: Array) -> HeadSummary:
    """Measure one head from its weights and its mask, both T × S."""
    rows = np.flatnonzero(mask.sum(axis=1) > 1)
    if not len(rows):
        rows = np.arange(len(weights))
    weights = weights.astype(np.float64)
    chosen = weights[rows]
    logarithms = np.log2(chosen, where=chosen > 0, out=np.zeros_like(chosen))
    entropies = -(chosen * logarithms).sum(axis=1)
    max_entropies = np.log2(np.maximum(mask[rows].sum(axis=1), 2))
    shares = _shares(role, weights, rows)
    uniform = _shares(role, mask / np.maximum(mask.sum(axis=1, keepdims=True), 1), rows)
    evenness = float((entropies / max_entropies).mean())
    largest = float(chosen.max(axis=1).mean())
    return HeadSummary(
        description=_describe(role, shares, uniform, evenness, largest),
        entropy=float(entropies.mean()),
        evenness=evenness,
        largest=largest,
        **shares,  # type: ignore[arg-type]  # diagonal and first are never None
    )


def _shares(role: Role, weights: Array, rows: Array) -> Shares:
    """How much weight is at each of the positions that have a name."""
    columns = weights.shape[1]

    def mean_at(column_of: Callable[[int], int]) -> float | None:
        """The mean weight at one column per row, over the rows that have this column."""
        pairs = [(row, column_of(row)) for row in rows.tolist()]
        values = [weights[row, column] for row, column in pairs if 0 <= column < columns]
        return float(np.mean(values)) if values else None

    # In self-attention, rows and columns are the same tokens, and the line is the diagonal.
    slope = (columns - 1) / max(len(weights) - 1, 1) if role == "cross" else 1.0

    def on_line(row: int) -> int:
        return math.floor(row * slope + 0.5)

    is_causal = role == "decoder"  # No next token, and no end token among the keys.
    return {
        "diagonal": mean_at(on_line),
        "previous": mean_at(lambda row: on_line(row) - 1),
        "next": mean_at(lambda row: on_line(row) + 1) if not is_causal else None,
        "first": mean_at(lambda _: 0),
        "last": mean_at(lambda _: columns - 2) if not is_causal else None,
        "end": mean_at(lambda _: columns - 1) if not is_causal else None,
    }


def _describe(role: Role, shares: Shares, uniform: Shares, evenness: float, largest: float) -> str:
    if evenness >= UNIFORM:
        return UNIFORM_TEXT
    known = {name: share for name, share in shares.items() if share is not None}
    name = max(known, key=lambda measure: known[measure])
    if known[name] >= DOMINANT:
        return f"{_DESCRIPTIONS[name][role]} ({known[name]:.0%})"
    if largest >= PEAKED:
        return PEAKED_TEXT
    clear = {
        name: share
        for name, share in known.items()
        if share >= max(PARTIAL, LIFT * (uniform[name] or 0.0))
    }
    if clear:
        name = max(clear, key=lambda measure: clear[measure])
        return f"partly {_DESCRIPTIONS[name][role]} ({clear[name]:.0%})"
    return NO_PATTERN
