"""The counts that each stage stores in the metadata of the Arrow files it writes.

A stage counts while it works, so the report needs no second pass over the text. `origin` is the
number of a corpus in the recipe.
"""

from __future__ import annotations

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from dragoman.corpus.alignment import Shift


class Counts(BaseModel):
    """The base of all counts; strict, so that a file of an older version is noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NoCounts(Counts):
    """For files in which nothing is counted."""


class Example(NamedTuple):
    """A dropped pair, shortened for display."""

    row: int
    source: str
    target: str


class DroppedRows(Counts):
    """The rows that were dropped for one reason."""

    count: int
    examples: list[Example]
    languages: dict[str, int] = {}
    """The detected languages ("fr → de") of pairs dropped because of their language."""


class ReadCounts(Counts):
    """The rows of one corpus; stored in its last chunk."""

    rows: int
    rejects: dict[str, int]
    """The number of rows that could not be read, by reason."""
    rejected_rows: dict[str, list[int]]
    """The numbers of the first such rows, by reason."""
    dropped: dict[str, DroppedRows] = {}
    """The synthetic pairs that are not used, by reason."""

    @property
    def readable(self) -> int:
        """The number of rows that could be read."""
        return self.rows - sum(self.rejects.values())


class TextBatch(NamedTuple):
    """Lines that are translated together: the hash of their text, and how many they are."""

    digest: str
    rows: int


class TextCounts(Counts):
    """One chunk of text in one language."""

    batches: list[TextBatch]
    read: ReadCounts | None = None
    """The rows of the whole corpus; only in its last chunk."""


class CleanCounts(Counts):
    """One cleaned chunk."""

    rows: int
    kept: int
    dropped: dict[str, DroppedRows]
    shift: Shift | None
    """Where the two files stop being aligned, if they do."""


class ExactCounts(Counts):
    """One bucket after exact deduplication."""

    kept: dict[int, int]
    """The number of pairs kept, by origin."""
    dropped: dict[int, int]
    """The number of exact duplicates, by origin."""


class SplitSizes(Counts):
    """The number of pairs in each split."""

    train: int = 0
    validation: int = 0
    test: int = 0


class TextStatistics(Counts):
    """The sizes of training text. Histograms have one more entry than they have edges."""

    source_words: int = 0
    source_characters: int = 0
    source_lengths: list[int] = []
    """Histogram of words per sentence."""
    target_words: int = 0
    target_characters: int = 0
    target_lengths: list[int] = []
    ratios: list[int] = []
    """Histogram of target characters divided by source characters."""

    def __add__(self, other: TextStatistics) -> TextStatistics:
        return TextStatistics(
            **{
                name: _add(getattr(self, name), getattr(other, name))
                for name in TextStatistics.model_fields
            }
        )


def _add(left: int | list[int], right: int | list[int]) -> int | list[int]:
    if isinstance(left, list) and isinstance(right, list):
        if not left or not right:
            return left or right
        return [one + other for one, other in zip(left, right, strict=True)]
    assert isinstance(left, int)
    assert isinstance(right, int)
    return left + right


class SplitCounts(Counts):
    """One finished bucket."""

    near: dict[int, int]
    """The number of near duplicates, by origin."""
    leaked: dict[int, int]
    """The number of synthetic pairs whose text was held out, by origin."""
    kept: dict[int, int]
    """The number of pairs kept, by origin."""
    splits: SplitSizes
    statistics: TextStatistics
    """Of the training split."""
