"""The interface of a corpus filter.

One file in `filters/` per rule. A filter sees one pair at a time. It keeps the pair, or drops it
with a reason. A filter that changes text is a normalizer (`unicode`). A filter is a pure function
of the pair: it does not know the data runner, the file, or any other pair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dragoman.recipe.parts import Choice, choose


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


def build_filters(choices: Iterable[Choice], source: str, target: str) -> list[Filter]:
    """Build the filters of a recipe for two languages."""
    return [
        choose("corpus.filters", choice, "corpus.filters", Filter)(source, target)
        for choice in choices
    ]


def apply_filters(filters: Sequence[Filter], pair: Pair) -> Pair | str:
    """Return the pair after all filters, or the reason why one of them drops it."""
    for filter_ in filters:
        verdict = filter_.apply(pair)
        if isinstance(verdict, str):
            return verdict
        pair = verdict
    return pair
