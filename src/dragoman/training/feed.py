"""How do batches reach the model without making it wait?

While the model learns one step, the next is read in a thread of its own. Words are spelled anew by
BPE-dropout there, where it is asked for: from the stored tokens, by (seed, epoch, pair), so any run
that sees a pair again in that epoch sees it spelled the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import torch

from dragoman.data.batch import Batch, collate
from dragoman.data.sampler import Place, Planned, Sampler
from dragoman.tokenizer.dropout import Dropout
from dragoman.tokenizer.interface import Tokenizer
from dragoman.training.loss import MicroBatch

_ROWS_BITS = 40
"""More pairs than a shard can have, so that a pair's number in the corpus is one number."""


class Step(NamedTuple):
    """What one rank does in one step."""

    batches: dict[int, MicroBatch]
    """By their numbers among all micro-batches of the step."""
    target_tokens: dict[int, int]
    """Of each, without padding."""
    pairs: int
    source_tokens: int
    then: Place
    """Where the stream goes on after the whole step."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """Spells the words of a pair anew, for each epoch differently."""

    tokenizers: tuple[Tokenizer, Tokenizer]
    dropouts: tuple[Dropout, Dropout]

    def read(self, planned: Planned) -> Batch:
        """Read a batch from the disk, and spell it."""
        shard, epoch = planned.shard, planned.then.epoch
        sides = []
        for side, ids in enumerate((shard.source, shard.target)):
            texts = self.tokenizers[side].decode([ids(row).tolist() for row in planned.rows])
            numbers = [planned.shard_number << _ROWS_BITS | int(row) for row in planned.rows]
            dropout = self.dropouts[side]
            sides.append(
                [
                    dropout.encode(text, epoch, number, side)
                    for text, number in zip(texts, numbers, strict=True)
                ]
            )
        return collate(*sides)


class Feed:
    """Reads a rank's share of the steps, one step ahead."""

    def __init__(
        self,
        sampler: Sampler,
        micro_batches: int,
        rank: int,
        ranks: int,
        device: torch.device,
        spelling: Spelling | None = None,
    ) -> None:
        self.sampler = sampler
        self.micro_batches = micro_batches
        self.rank, self.ranks = rank, ranks
        self.device = device
        self.spelling = spelling

    def steps(self, place: Place) -> Iterator[Step]:
        """Go through the stream from this place on; it never ends."""
        shares = self.sampler.share(place, self.micro_batches, self.rank, self.ranks)

        def read_next() -> Step:
            share = next(shares)
            batches = {number: self._read(planned) for number, planned in share.batches.items()}
            return Step(
                {number: to_tensors(batch, self.device) for number, batch in batches.items()},
                {number: int(batch.target_is_real.sum()) for number, batch in batches.items()},
                sum(len(each.source) for each in batches.values()),
                sum(int(each.source_is_real.sum()) for each in batches.values()),
                share.then,
            )

        with ThreadPoolExecutor(1, thread_name_prefix="feed") as thread:
            ahead = thread.submit(read_next)
            while True:
                step = ahead.result()
                ahead = thread.submit(read_next)
                yield step

    def _read(self, planned: Planned) -> Batch:
        return planned.read() if self.spelling is None else self.spelling.read(planned)


def to_tensors(batch: Batch, device: torch.device) -> MicroBatch:
    """Bring a batch to a device."""
    arrays: Sequence[torch.Tensor] = [torch.from_numpy(each) for each in batch]
    if device.type == "cuda":
        arrays = [each.pin_memory().to(device, non_blocking=True) for each in arrays]
    return MicroBatch(*arrays)
