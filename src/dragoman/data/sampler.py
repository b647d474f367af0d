"""Decides the order in which training pairs are seen.

The order depends only on the seed and the epoch. An epoch visits the shards in a shuffled order. In
each shard, pairs of similar length are grouped until the token budget is full, and these batches
are shuffled. The stream of batches never ends: one epoch follows the other. The number of ranks and
interruptions change only which process reads which batch.

A position in the stream is three small numbers. Planning needs the lengths of one shard only, so
memory and start-up time do not grow with the corpus.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dragoman.data.batch import Batch, collate
from dragoman.data.store import DataShard, Ids, Prepared
from dragoman.errors import DataError
from dragoman.storage.mirror import path_text


class StreamPosition(NamedTuple):
    """A position in the endless stream of batches."""

    epoch: int = 0
    shard: int = 0
    """The number of shards of this epoch that were read."""
    batch: int = 0
    """The number of batches of this shard that were read."""


class BatchPlan(NamedTuple):
    """A batch that is planned but not yet read."""

    shard: DataShard
    shard_number: int
    """The index of the shard in the manifest."""
    rows: Ids
    then: StreamPosition
    """The position in the stream after this batch."""

    def read(self) -> Batch:
        """Read the batch from disk."""
        return collate(
            [self.shard.source(row) for row in self.rows],
            [self.shard.target(row) for row in self.rows],
        )


class Share(NamedTuple):
    """The part of one update that one rank reads."""

    batches: dict[int, BatchPlan]
    """The batches, by their index in the update."""
    then: StreamPosition
    """The position in the stream after the whole update."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """Plans the batches of a prepared corpus."""

    prepared: Prepared
    seed: int
    tokens: int
    """The maximum number of positions, padding included, of one side of a batch."""
    temperature: float = 1.0
    """1 = every pair once per epoch; a higher value samples small corpora more often."""
    weights: Mapping[int, float] = field(default_factory=dict)
    """The sampling weight of each corpus, by number (default 1)."""

    def batches(self, position: StreamPosition = StreamPosition()) -> Iterator[BatchPlan]:  # noqa: B008  (immutable)
        """Yield the batches of the stream from this position on."""
        first_batch = position.batch
        visits, ahead = itertools.tee(self._visits(position))
        shards = self.prepared.read_shards(number for _, _, number in ahead)
        for (epoch, index, number), shard in zip(visits, shards, strict=True):
            plan = self._plan(shard, epoch, number)
            for batch in range(first_batch, len(plan)):
                then = StreamPosition(epoch, index, batch + 1)
                yield BatchPlan(shard, number, plan[batch], then)
            first_batch = 0

    def fetch_first(self, position: StreamPosition) -> None:
        """Fetch the first shard that is read from a position on, if the corpus is remote."""
        _, _, number = next(self._visits(position))
        self.prepared.shard(number)

    def _visits(self, position: StreamPosition) -> Iterator[tuple[int, int, int]]:
        """Yield epoch, index in the epoch and number of each shard from a position on."""
        if sum(self.prepared.rows) == 0:
            raise DataError(
                f"{path_text(self.prepared.folder)!r} has no training pair, expected at least one; "
                "report.html in that folder says why pairs were dropped"
            )
        count, first = len(self.prepared.manifest.train), position.shard
        for epoch in itertools.count(position.epoch):
            order = self._rng(epoch).permutation(count)
            yield from ((epoch, index, int(order[index])) for index in range(first, count))
            first = 0

    def share(
        self, position: StreamPosition, micro_batches: int, rank: int, ranks: int
    ) -> Iterator[Share]:
        """Yield, for each update of `micro_batches` batches, those that this rank reads.

        Every rank plans the whole stream and reads neighboring batches. So the gradients of
        several ranks, summed first within and then across ranks, are added in the same order as
        on one rank.
        """
        mine: dict[int, BatchPlan] = {}
        for count, planned in enumerate(self.batches(position)):
            number = count % micro_batches
            if number * ranks // micro_batches == rank:
                mine[number] = planned
            if number == micro_batches - 1:
                yield Share(mine, planned.then)
                mine = {}

    def _plan(self, shard: DataShard, epoch: int, number: int) -> list[Ids]:
        """Return the rows of each batch of a shard."""
        rng = self._rng(epoch, number + 1)
        rows = rng.permutation(self._sampled_rows(shard, rng))
        if not len(rows):
            return []
        # Each side has one token more than the text: END, or BEGIN for the decoder.
        source, target = shard.source_lengths[rows] + 1, shard.target_lengths[rows] + 1
        # Sort by target length, then by source length. The source order alternates between
        # ascending and descending, so neighbors stay similar when the target length changes.
        order = np.lexsort((np.where(target % 2, source, -source), target))
        lengths = np.maximum(source, target)[order]
        edges = _batch_edges(lengths, self.tokens)
        batches = np.split(rows[order], edges)
        return [batches[index] for index in rng.permutation(len(batches))]

    def _sampled_rows(self, shard: DataShard, rng: np.random.Generator) -> Ids:
        """Return the rows that are seen in this epoch; a row may occur several times."""
        rates = self._sampling_rates()
        if all(rate == 1 for rate in rates.values()):
            return np.arange(len(shard))
        rate_of = np.array([rates.get(origin, 1.0) for origin in range(max(rates) + 1)])
        expected = rate_of[shard.origins]
        repeats = np.floor(expected + rng.random(len(expected))).astype(np.int64)
        return np.repeat(np.arange(len(shard)), repeats)

    def _sampling_rates(self) -> dict[int, float]:
        """Return how often a pair of each corpus is seen per epoch, on average."""
        rows = self.prepared.manifest.origins
        total = sum(rows.values())
        shares = {
            origin: self.weights.get(origin, 1.0) * (count / total) ** (1 / self.temperature)
            for origin, count in rows.items()
            if count
        }
        scale = sum(shares.values())
        return {
            origin: round(share / scale * total / rows[origin], 12)
            for origin, share in shares.items()
        }

    def _rng(self, *position: int) -> np.random.Generator:
        seeds = np.random.SeedSequence([self.seed, *position])
        return np.random.Generator(np.random.Philox(seeds))


def _batch_edges(lengths: Ids, tokens: int) -> list[int]:
    """Return where batches end: as many rows as fit when padded to the longest of the batch."""
    if lengths.max(initial=0) > tokens:
        raise DataError(
            f"a pair has {int(lengths.max())} tokens on one side, more than the budget of {tokens} "
            "for a whole batch; raise the budget (training.tokens_per_update), or prepare again "
            "with a smaller corpus.max_tokens"
        )
    edges, first, longest = [], 0, 0
    for index, length in enumerate(lengths.tolist()):
        new_longest = max(longest, length)
        if new_longest * (index - first + 1) > tokens:
            edges.append(index)
            first, new_longest = index, length
        longest = new_longest
    return edges
