"""Confidence intervals over seeds, and the seeds themselves."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import mean, stdev
from typing import NamedTuple

_T_QUANTILES = {
    2: 12.71,
    3: 4.30,
    4: 3.18,
    5: 2.78,
    6: 2.57,
    7: 2.45,
    8: 2.36,
    9: 2.31,
    10: 2.26,
}
"""Number of seeds to the 97.5 % quantile of Student's t distribution."""


class Interval(NamedTuple):
    """A mean with the ends of its 95 % confidence interval."""

    mean: float
    low: float
    high: float


def derive_seeds(seed: int, count: int) -> list[int]:
    """Several seeds from one; two different seeds never share one."""
    return [1000 * seed + number for number in range(count)]


def confidence_interval(values: Sequence[float]) -> Interval:
    """The 95 % interval of the mean over seeds (Student's t). One value has no width."""
    middle = mean(values)
    if len(values) < 2:
        return Interval(middle, middle, middle)
    quantile = _T_QUANTILES[min(len(values), max(_T_QUANTILES))]
    margin = quantile * stdev(values) / sqrt(len(values))
    return Interval(middle, middle - margin, middle + margin)


def difference_interval(before: Sequence[float], after: Sequence[float]) -> Interval:
    """The 95 % interval of `after` − `before`, paired by seed."""
    return confidence_interval([b - a for a, b in zip(before, after, strict=True)])
