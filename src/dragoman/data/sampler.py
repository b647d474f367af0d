"""In which order are the pairs seen?

The order is a function of seed and epoch alone. An epoch visits the shards in a shuffled order; in
each shard, pairs of like length are put together until the token budget is full, and the batches
are shuffled. The stream of batches never ends: epoch follows epoch. How many ranks share it, and
when a run was stopped, changes nothing but who reads what.

A place in the stream is three small numbers. A plan needs the lengths of one shard only, so memory
and start-up do not grow with the corpus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dragoman.data.batch import Batch, collate
from dragoman.data.store import Ids, Prepared, Shard
from dragoman.errors import DataError


class Place(NamedTuple):
    """A place in the endless stream of batches."""

    epoch: int = 0
    shard: int = 0
    """How many shards of the epoch are behind us."""
    batch: int = 0
    """How many batches of the shard are behind us."""


class Planned(NamedTuple):
    """A batch that is planned but not read."""

    shard: Shard
    shard_number: int
    """Which of the corpus's shards it is."""
    rows: Ids
    then: Place
    """Where the stream goes on after it."""

    def read(self) -> Batch:
        """Read it from the disk."""
        return collate(
            [self.shard.source(row) for row in self.rows],
            [self.shard.target(row) for row in self.rows],
        )


class Share(NamedTuple):
    """What one rank reads of one step."""

    batches: dict[int, Planned]
    """By their numbers in the step."""
    then: Place
    """Where the stream goes on after the whole step."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """Plans the batches of a prepared corpus."""

    prepared: Prepared
    seed: int
    tokens: int
    """The most places, padding included, that one side of a batch may have."""
    temperature: float = 1.0
    """1 takes every pair once an epoch; more lets small corpora be seen more often."""
    weights: Mapping[int, float] = field(default_factory=dict)
    """How much more often a corpus, by its number, is seen; 1 where nothing is said."""

    def batches(self, place: Place = Place()) -> Iterator[Planned]:  # noqa: B008  (a value)
        """Go through the stream from this place on."""
        shards = self.prepared.shards
        if sum(self.prepared.rows) == 0:
            raise DataError("there is no training pair; look at the report of `dragoman prepare`")
        epoch, position, done = place
        while True:
            order = self._random(epoch).permutation(len(shards))
            for index in range(position, len(shards)):
                shard = Shard.open(shards[order[index]])
                plan = self._plan(shard, epoch, int(order[index]))
                for number in range(done, len(plan)):
                    then = Place(epoch, index, number + 1)
                    yield Planned(shard, int(order[index]), plan[number], then)
                done = 0
            epoch, position = epoch + 1, 0

    def share(self, place: Place, micro_batches: int, rank: int, ranks: int) -> Iterator[Share]:
        """Give, for each step of `micro_batches` batches, those that this rank reads.

        Every rank plans the whole stream and reads neighbours: what several ranks add up, each of
        its own and then all of theirs, is added in the order in which one rank would do it.
        """
        mine: dict[int, Planned] = {}
        for count, planned in enumerate(self.batches(place)):
            number = count % micro_batches
            if number * ranks // micro_batches == rank:
                mine[number] = planned
            if number == micro_batches - 1:
                yield Share(mine, planned.then)
                mine = {}

    def _plan(self, shard: Shard, epoch: int, number: int) -> list[Ids]:
        random = self._random(epoch, number + 1)
        rows = random.permutation(self._drawn(shard, random))
        if not len(rows):
            return []
        # Both sides end with one more token than they have words.
        source, target = shard.source_lengths[rows] + 1, shard.target_lengths[rows] + 1
        # Like with like; the direction of the sources turns from one target length to the next,
        # so that neighbours stay alike across the border.
        order = np.lexsort((np.where(target % 2, source, -source), target))
        longest = np.maximum(source, target)[order]
        edges = _cut(longest, self.tokens)
        batches = np.split(rows[order], edges)
        return [batches[index] for index in random.permutation(len(batches))]

    def _drawn(self, shard: Shard, random: np.random.Generator) -> Ids:
        """Which rows are seen in this epoch, and how often."""
        times = self._times()
        if all(value == 1 for value in times.values()):
            return np.arange(len(shard))
        often = np.array([times.get(origin, 1.0) for origin in range(max(times) + 1)])
        wanted = often[shard.origins]
        repeats = np.floor(wanted + random.random(len(wanted))).astype(np.int64)
        return np.repeat(np.arange(len(shard)), repeats)

    def _times(self) -> dict[int, float]:
        """How often a pair of each corpus is seen in an epoch, on average."""
        rows = {int(key): value for key, value in self.prepared.manifest["origins"].items()}
        total = sum(rows.values())
        raw = {
            origin: self.weights.get(origin, 1.0) * (count / total) ** (1 / self.temperature)
            for origin, count in rows.items()
            if count
        }
        scale = sum(raw.values())
        return {
            origin: round(share / scale * total / rows[origin], 12) for origin, share in raw.items()
        }

    def _random(self, *place: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([self.seed, *place])))


def _cut(longest: Ids, tokens: int) -> list[int]:
    """Find where batches end: as many rows as fit, each as long as the longest of its batch."""
    if longest.max(initial=0) > tokens:
        raise DataError(
            f"a pair has {int(longest.max())} tokens on one side, more than the budget of {tokens} "
            "for a whole batch; raise the budget, or prepare with a smaller corpus.longest"
        )
    edges, first, widest = [], 0, 0
    for index, length in enumerate(longest.tolist()):
        wider = max(widest, length)
        if wider * (index - first + 1) > tokens:
            edges.append(index)
            first, wider = index, length
        widest = wider
    return edges
