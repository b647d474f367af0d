"""Translation with several models whose probabilities are averaged.

    p(v | …) = 1/n · Σᵢ pᵢ(v | …)

The models must share their target vocabulary. Each model has its own memory and cache. [APPLY-DL]
names ensembles without giving the equation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from dragoman.decoding.search import Searchable
from dragoman.model.cache import Cache, Memory
from dragoman.shapes import Bool, Float, Int, Tensor


class EnsembleMemory(NamedTuple):
    """The memory of each model."""

    memories: tuple[Memory, ...]

    def reorder(self, rows: Int[Tensor, " N"]) -> EnsembleMemory:
        """Select these sentences, in this order."""
        return EnsembleMemory(tuple(memory.reorder(rows) for memory in self.memories))


class EnsembleCache(NamedTuple):
    """The cache of each model."""

    caches: tuple[Cache, ...]

    def reorder(
        self, hypotheses: Int[Tensor, " N"], sentences: Int[Tensor, " K"] | None
    ) -> EnsembleCache:
        """Select these hypotheses, of these sentences."""
        return EnsembleCache(tuple(cache.reorder(hypotheses, sentences) for cache in self.caches))


class Ensemble:
    """Several models, searched as one."""

    def __init__(self, models: Sequence[Searchable]) -> None:
        self.models = tuple(models)

    def encode(self, source: Int[Tensor, "B S"], is_real: Bool[Tensor, "B S"]) -> EnsembleMemory:
        """Encode the source with every model."""
        return EnsembleMemory(tuple(model.encode(source, is_real) for model in self.models))

    def decode(
        self, target: Int[Tensor, "N T"], memory: Memory, cache: Cache | None
    ) -> tuple[Float[Tensor, "N T V"], EnsembleCache]:
        """Average the probabilities; their logarithms serve as logits."""
        assert isinstance(memory, EnsembleMemory)
        assert cache is None or isinstance(cache, EnsembleCache)
        caches = (None,) * len(self.models) if cache is None else cache.caches
        outputs = [
            model.decode(target, model_memory, model_cache)
            for model, model_memory, model_cache in zip(
                self.models, memory.memories, caches, strict=True
            )
        ]
        log_probabilities = torch.stack(
            [logits.float().log_softmax(dim=-1) for logits, _ in outputs]
        )
        mean = log_probabilities.logsumexp(dim=0) - math.log(len(self.models))
        return mean, EnsembleCache(tuple(model_cache for _, model_cache in outputs))
