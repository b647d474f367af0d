"""The interface of a corpus filter.

One file in `filters/` per rule. A filter sees one pair at a time. It keeps the pair, or drops it
with a reason. A filter that changes text is a normalizer (`unicode`). A filter is a pure function
of the pair: it does not know the data runner, the file, or any other pair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple


class Pair(NamedTuple):
    """A source text and its translation."""

    source: str
    target: str


class Filter(ABC):
    """One rule: `Filter(source, target)` takes the language codes, then the filter's options."""

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target

    @abstractmethod
    def apply(self, pair: Pair) -> Pair | str:
        """Return the pair, changed or not, or the reason why it is dropped (a few fixed words)."""
