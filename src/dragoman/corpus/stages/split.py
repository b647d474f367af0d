"""Stage 4: assign each pair to a split: train, validation or test.

The split depends only on the hash of the source text and the seed, so all translations of one
sentence are in the same split. Synthetic pairs are never held out. Those that share a text with a
held-out pair are dropped, so that no model is tested on text that it was trained on.

Near duplicates are removed here too, and the statistics of the report are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dragoman.corpus import table
from dragoman.corpus.counts import NoCounts, SplitCounts, SplitSizes, TextStatistics
from dragoman.corpus.leakage import Leakage
from dragoman.corpus.stages.deduplicate import near_duplicates
from dragoman.corpus.task import PreparationTask
from dragoman.storage.mirror import StoredPath

SPLITS = ("train", "validation", "test")
HELD_OUT = SPLITS[1:]
GENERAL = "general"
"""A second validation set; only whole corpora belong to it."""
LENGTH_EDGES = np.array([0, 1, 2, 4, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200])
RATIO_EDGES = np.round(np.exp(np.linspace(-1.6, 1.6, 33)), 3)
_RESOLUTION = 1 << 32


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """Which pairs are held out."""

    seed: int
    validation_share: float
    test_share: float
    synthetic: tuple[int, ...]
    """The origins of synthetic pairs, which are never held out."""

    def splits(self, rows: pa.Table) -> np.ndarray[Any, Any]:
        """Return the index of the split of each row."""
        if not self.validation_share and not self.test_share:
            return np.zeros(len(rows), dtype=np.int64)
        hashes = np.array([_hash(text, self.seed) for text in rows["source"].to_pylist()])
        edges = np.array([self.validation_share, self.validation_share + self.test_share])
        # Below the first edge: validation. Below the second: test. Above both: train.
        splits = (np.searchsorted(edges * _RESOLUTION, hashes, side="right") + 1) % 3
        splits[self.is_synthetic(rows)] = SPLITS.index("train")
        return splits

    def is_synthetic(self, rows: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return a mask of the synthetic rows."""
        return np.isin(rows["origin"].to_numpy(), self.synthetic)


class HeldOutTask(PreparationTask):
    """Finds the pairs of one bucket that will be held out; only for recipes with synthetic text."""

    rows: StoredPath
    settings: SplitSettings

    def run(self) -> None:
        """Write their texts."""
        rows = table.read(self.rows).combine_chunks()
        is_held_out = self.settings.splits(rows) != SPLITS.index("train")
        pairs = rows.select(["source", "target"]).filter(pa.array(is_held_out))
        table.write(self.result, [table.one_batch(pairs)], NoCounts())


class SplitTask(PreparationTask):
    """Finishes one bucket: writes a file scattered by split."""

    rows: StoredPath
    votes: tuple[StoredPath, ...]
    bucket: int
    settings: SplitSettings
    held_out: tuple[StoredPath, ...]
    """The held-out pairs of all buckets, if there is synthetic text."""

    def run(self) -> None:
        """Split the bucket."""
        rows = table.read(self.rows).combine_chunks().replace_schema_metadata(None)
        is_near = np.zeros(len(rows), dtype=bool)
        if self.votes:
            is_near = near_duplicates(rows, self.votes, self.bucket)
        is_leaked = self._leaked(rows)
        origins = rows["origin"].to_numpy()
        kept = rows.filter(pa.array(~is_near & ~is_leaked)).combine_chunks()
        split_of = self.settings.splits(kept)
        batch = table.one_batch(kept)
        sizes = {name: int((split_of == index).sum()) for index, name in enumerate(SPLITS)}
        counts = SplitCounts(
            near=table.count_values(origins[is_near]),
            leaked=table.count_values(origins[is_leaked]),
            kept=table.count_values(kept["origin"].to_numpy()),
            splits=SplitSizes(**sizes),
            statistics=_statistics(kept.filter(pa.array(split_of == SPLITS.index("train")))),
        )
        table.write(self.result, table.scatter(batch, split_of, len(SPLITS)), counts)

    def _leaked(self, rows: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return a mask of the synthetic rows with a text that is held out."""
        is_leaked = np.zeros(len(rows), dtype=bool)
        if not self.held_out:
            return is_leaked
        held_out = pa.concat_tables(map(table.read, self.held_out))
        leakage = Leakage.of(table.pairs(held_out))
        numbers = np.flatnonzero(self.settings.is_synthetic(rows))
        pairs = table.pairs(rows.take(table.numbers(numbers)))
        is_leaked[numbers] = [leakage.contains(pair) for pair in pairs]
        return is_leaked


def _hash(text: str, seed: int) -> int:
    """Hash a text to a number below `_RESOLUTION`."""
    key = seed.to_bytes(8, "little")
    digest = blake2b(text.casefold().encode(), digest_size=4, key=key).digest()
    return int.from_bytes(digest, "little")


def _statistics(rows: pa.Table) -> TextStatistics:
    """Count lengths in words, and the length ratio in characters."""
    source_words, target_words = (
        pc.count_substring_regex(rows[side], r"\S+").to_numpy() for side in ("source", "target")
    )
    source_characters, target_characters = (
        pc.utf8_length(rows[side]).to_numpy() for side in ("source", "target")
    )
    return TextStatistics(
        source_words=int(source_words.sum()),
        source_characters=int(source_characters.sum()),
        source_lengths=_histogram(source_words, LENGTH_EDGES),
        target_words=int(target_words.sum()),
        target_characters=int(target_characters.sum()),
        target_lengths=_histogram(target_words, LENGTH_EDGES),
        ratios=_histogram((target_characters + 1) / (source_characters + 1), RATIO_EDGES),
    )


def _histogram(values: np.ndarray[Any, Any], edges: np.ndarray[Any, Any]) -> list[int]:
    bins = np.searchsorted(edges, values, side="right")
    counts: list[int] = np.bincount(bins, minlength=len(edges) + 1).tolist()
    return counts
