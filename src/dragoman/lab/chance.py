"""How far may chance have led the numbers astray?"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import mean, stdev

_STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
"""Of so many seeds, how many standard errors a 95 % interval reaches either way."""


def seeds(seed: int, count: int) -> list[int]:
    """Make of one seed several that another seed does not give."""
    return [1000 * seed + number for number in range(count)]


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean over seeds with the ends of its 95 % interval (Student's t); of one, only itself."""
    middle = mean(values)
    if len(values) < 2:
        return middle, middle, middle
    reach = _STUDENT[min(len(values), max(_STUDENT))] * stdev(values) / sqrt(len(values))
    return middle, middle - reach, middle + reach
