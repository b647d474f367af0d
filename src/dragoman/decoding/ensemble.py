"""How do several models translate as one?

    p(v | …) = 1/n · Σᵢ pᵢ(v | …)                    (P14)

They must share their target vocabulary; each keeps its own memory and cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from dragoman.decoding.search import Searchable
from dragoman.shapes import Bool, Float, Int, Tensor


class Memories(NamedTuple):
    """What each model has read."""

    of: tuple[Any, ...]

    def reorder(self, rows: Int[Tensor, " N"]) -> Memories:
        """Take these sentences, in this order."""
        return Memories(tuple(each.reorder(rows) for each in self.of))


class Caches(NamedTuple):
    """What each model remembers."""

    of: tuple[Any, ...]

    def reorder(self, hypotheses: Int[Tensor, " N"], sentences: Int[Tensor, " K"] | None) -> Caches:
        """Take these hypotheses, of these sentences."""
        return Caches(tuple(each.reorder(hypotheses, sentences) for each in self.of))


class Ensemble:
    """Models whose probabilities are averaged."""

    def __init__(self, models: Sequence[Searchable]) -> None:
        self.models = tuple(models)

    def encode(self, source: Int[Tensor, "B S"], is_real: Bool[Tensor, "B S"]) -> Memories:
        """Let each read."""
        return Memories(tuple(each.encode(source, is_real) for each in self.models))

    def decode(
        self, target: Int[Tensor, "N T"], memory: Memories, cache: Caches | None
    ) -> tuple[Float[Tensor, "N T V"], Caches]:
        """Average what they say; the logarithms of probabilities are scores as good as any."""
        caches = cache.of if cache is not None else (None,) * len(self.models)
        said = [
            model.decode(target, own, known)
            for model, own, known in zip(self.models, memory.of, caches, strict=True)
        ]
        each = torch.stack([logits.float().log_softmax(dim=-1) for logits, _ in said])
        mean = each.logsumexp(dim=0) - math.log(len(self.models))
        return mean, Caches(tuple(known for _, known in said))
