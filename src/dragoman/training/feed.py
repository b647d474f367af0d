"""Reads the batches of the next update in a thread, while the model works on the current one.

With BPE-dropout the text of a pair is tokenized again, at random: the random numbers depend on
(seed, epoch, pair) only. A pair therefore has the same tokens in every run and on every rank.
Dropped merges make a pair longer. A side that would become longer than `corpus.max_tokens`, or than
the positions of the model, keeps its stored tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import torch

from dragoman.data.batch import Batch, collate
from dragoman.data.sampler import BatchPlan, Sampler, StreamPosition
from dragoman.tokenizer.bpe_dropout import BpeDropout
from dragoman.tokenizer.interface import Tokenizer
from dragoman.training.loss import MicroBatch

_ROW_BITS = 40
"""A shard has fewer than 2^40 pairs, so shard and row together are one unique number."""


class TrainingStep(NamedTuple):
    """The data of one rank for one update."""

    batches: dict[int, MicroBatch]
    """By their number among all micro-batches of the update."""
    target_tokens: dict[int, int]
    """Target tokens of each micro-batch, without padding."""
    pairs: int
    source_tokens: int
    next_position: StreamPosition
    """The position in the stream after the whole update."""


@dataclass(frozen=True, slots=True)
class Retokenizer:
    """Tokenizes pairs again with BPE-dropout, differently in each epoch."""

    tokenizers: tuple[Tokenizer, Tokenizer]
    dropouts: tuple[BpeDropout, BpeDropout]
    max_tokens: int
    """The most tokens of a side, without its end token."""

    def read(self, plan: BatchPlan) -> Batch:
        """Read a batch from the disk and tokenize it again."""
        shard, epoch = plan.shard, plan.then.epoch
        sides = []
        for side, ids in enumerate((shard.source, shard.target)):
            stored = [ids(row).tolist() for row in plan.rows]
            texts = self.tokenizers[side].decode(stored)
            pair_numbers = [plan.shard_number << _ROW_BITS | int(row) for row in plan.rows]
            dropout = self.dropouts[side]
            new = [
                dropout.encode(text, epoch, number, side)
                for text, number in zip(texts, pair_numbers, strict=True)
            ]
            sides.append(
                [
                    again if len(again) <= self.max_tokens else before
                    for again, before in zip(new, stored, strict=True)
                ]
            )
        return collate(*sides)


class Feed:
    """Reads this rank's part of each update, one update ahead."""

    def __init__(
        self,
        sampler: Sampler,
        micro_batches: int,
        rank: int,
        world_size: int,
        device: torch.device,
        retokenizer: Retokenizer | None = None,
    ) -> None:
        self.sampler = sampler
        self.micro_batches = micro_batches
        self.rank, self.world_size = rank, world_size
        self.device = device
        self.retokenizer = retokenizer

    def steps(self, position: StreamPosition) -> Iterator[TrainingStep]:
        """Yield the updates from a position of the stream on, without end."""
        shares = self.sampler.share(position, self.micro_batches, self.rank, self.world_size)

        def read_next() -> TrainingStep:
            share = next(shares)
            batches = {number: self._read(plan) for number, plan in share.batches.items()}
            return TrainingStep(
                {number: to_tensors(batch, self.device) for number, batch in batches.items()},
                {number: int(batch.target_is_real.sum()) for number, batch in batches.items()},
                sum(len(batch.source) for batch in batches.values()),
                sum(int(batch.source_is_real.sum()) for batch in batches.values()),
                share.then,
            )

        with ThreadPoolExecutor(1, thread_name_prefix="feed") as executor:
            next_step = executor.submit(read_next)
            while True:
                step = next_step.result()
                next_step = executor.submit(read_next)
                yield step

    def _read(self, plan: BatchPlan) -> Batch:
        return plan.read() if self.retokenizer is None else self.retokenizer.read(plan)


def to_tensors(batch: Batch, device: torch.device) -> MicroBatch:
    """Copy a batch to a device."""
    tensors = [torch.from_numpy(array) for array in batch]
    if device.type == "cuda":
        tensors = [tensor.pin_memory().to(device, non_blocking=True) for tensor in tensors]
    return MicroBatch(*tensors)
