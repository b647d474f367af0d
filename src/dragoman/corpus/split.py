"""On which side does a pair stand: training, development or test?

The hash of the source text decides, with the seed: all translations of one sentence stay on one
side, and the answer depends on nothing but the text and the seed. Here the near duplicates leave,
too, and what the report shows is counted.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dragoman.corpus import table
from dragoman.corpus.deduplicate import near_duplicates
from dragoman.corpus.task import Task

SIDES = ("train", "development", "test")
_RESOLUTION = 1 << 32


class SplitTask(Task):
    """Finishes one bucket: a file scattered by side."""

    rows: Path
    votes: tuple[Path, ...]
    bucket: int
    seed: int
    development_share: float
    test_share: float

    def run(self) -> None:
        """Split."""
        rows = table.read(self.rows).combine_chunks().replace_schema_metadata(None)
        is_near = np.zeros(len(rows), dtype=bool)
        if self.votes:
            is_near = near_duplicates(rows, self.votes, self.bucket)
        origins = rows["origin"].to_numpy()
        kept = rows.filter(pa.array(~is_near)).combine_chunks()
        sides = self._sides(kept["source"])
        batch = table.one_batch(kept)
        counts = {
            "near": table.count_values(origins[is_near]),
            "kept": table.count_values(kept["origin"].to_numpy()),
            "sides": {side: int((sides == index).sum()) for index, side in enumerate(SIDES)},
            "statistics": _statistics(kept.filter(pa.array(sides == SIDES.index("train")))),
        }
        table.write(self.result, table.scatter(batch, sides, len(SIDES)), counts)

    def _sides(self, sources: pa.ChunkedArray) -> np.ndarray[Any, Any]:
        if not self.development_share and not self.test_share:
            return np.zeros(len(sources), dtype=np.int64)
        place = np.array([_place(text, self.seed) for text in sources.to_pylist()])
        edges = np.array([self.development_share, self.development_share + self.test_share])
        # Below the first edge development, below the second test, above them training.
        return (np.searchsorted(edges * _RESOLUTION, place, side="right") + 1) % 3


def _place(text: str, seed: int) -> int:
    key = seed.to_bytes(8, "little")
    digest = blake2b(text.casefold().encode(), digest_size=4, key=key).digest()
    return int.from_bytes(digest, "little")


LENGTH_EDGES = np.array([0, 1, 2, 4, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200])
RATIO_EDGES = np.round(np.exp(np.linspace(-1.6, 1.6, 33)), 3)


def _statistics(rows: pa.Table) -> dict[str, Any]:
    """Count lengths in words and the ratio of lengths in characters."""
    found: dict[str, Any] = {}
    characters = []
    for side in ("source", "target"):
        words = pc.count_substring_regex(rows[side], r"\S+").to_numpy()
        characters.append(pc.utf8_length(rows[side]).to_numpy())
        found[f"{side}_words"] = int(words.sum())
        found[f"{side}_characters"] = int(characters[-1].sum())
        found[f"{side}_lengths"] = np.bincount(
            np.searchsorted(LENGTH_EDGES, words, side="right"), minlength=len(LENGTH_EDGES) + 1
        ).tolist()
    ratio = (characters[1] + 1) / (characters[0] + 1)
    found["ratios"] = np.bincount(
        np.searchsorted(RATIO_EDGES, ratio, side="right"), minlength=len(RATIO_EDGES) + 1
    ).tolist()
    return found
