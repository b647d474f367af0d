"""What is a step of cleaning?

A step sees one pair and keeps it, changes it, or drops it with a reason. One file in `step/` a
rule. A step is a pure function of the pair: it knows no engine, no file and no other pair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple


class Pair(NamedTuple):
    """A source text and its translation."""

    source: str
    target: str


class Step(ABC):
    """One rule: `Step(source, target)` with the language codes, then its own options."""

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target

    @abstractmethod
    def apply(self, pair: Pair) -> Pair | str:
        """Give the pair, changed or not, or the reason why it is dropped (a few fixed words)."""
