"""The coverage penalty: a translation should attend to every token of the source.

    score(y) = log p(y) / length(y)ᵅ + β · Σₛ log min(Σₜ wₜₛ, 1)     Wu et al., 2016, equation 14

wₜₛ is the weight of source position s when target token t is predicted; the end tokens of both
sides count as well. As in the paper, only complete translations are compared by this score. The
beam itself keeps the partial hypotheses with the best log-probability.

GNMT has one attention with one head. A Transformer has one in each layer, with several heads. Here
w is the mean over the heads of the last decoder layer: `alignment.py` takes the same weights, and
so does CTranslate2. An ensemble averages the weights of its models, like their probabilities.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import NamedTuple

import torch
from torch import nn

from dragoman.decoding.alignment import has_attention, weights_of_last_layer
from dragoman.decoding.ensemble import Ensemble
from dragoman.decoding.search import Searchable
from dragoman.errors import Mistake, RecipeError
from dragoman.model.cache import Cache, Memory
from dragoman.model.record import record
from dragoman.shapes import Bool, Float, Int, Tensor

_SMALLEST = torch.finfo(torch.float32).tiny
"""With hard or local attention, a position can have no weight at all. log 0 would be −∞ for every
translation, and all would be equally bad."""


def coverage_sum(coverage: Float[Tensor, "N S"]) -> Float[Tensor, " N"]:
    """Return Σₛ log min(coverageₛ, 1); it is 0 if every position has been covered."""
    return coverage.clamp(_SMALLEST, 1.0).log().sum(dim=1)


class CoverageCache(NamedTuple):
    """The cache of a model, and the attention that each hypothesis has given to the source."""

    cache: Cache
    coverage: Float[Tensor, "N S"]
    """The sum of the weights of each source position so far; at padding it is 1."""

    def reorder(
        self, hypotheses: Int[Tensor, " N"], sentences: Int[Tensor, " K"] | None
    ) -> CoverageCache:
        """Select these hypotheses, of these sentences."""
        return CoverageCache(self.cache.reorder(hypotheses, sentences), self.coverage[hypotheses])


class WithCoverage:
    """A model whose cache also sums the attention weights, for one batch of sources."""

    def __init__(self, model: Searchable, is_real: Bool[Tensor, "B S"]) -> None:
        self.model = model
        self.members = model.models if isinstance(model, Ensemble) else (model,)
        self.is_real = is_real
        if not all(
            isinstance(member, nn.Module) and has_attention(member) for member in self.members
        ):
            what = "the model has no attention, so nothing is covered; set it to 0"
            raise RecipeError([Mistake("decoding.coverage_penalty", what)])

    def encode(self, source: Int[Tensor, "B S"], is_real: Bool[Tensor, "B S"]) -> Memory:
        """Encode the source."""
        return self.model.encode(source, is_real)

    def decode(
        self, target: Int[Tensor, "N T"], memory: Memory, cache: Cache | None
    ) -> tuple[Float[Tensor, "N T V"], CoverageCache]:
        """Score what follows the target, and add the weights of its positions."""
        assert cache is None or isinstance(cache, CoverageCache)
        with ExitStack() as stack:
            # `record` wants modules, which the constructor has checked.
            recorded = [stack.enter_context(record(member)) for member in self.members]  # type: ignore[arg-type]
            logits, later = self.model.decode(target, memory, cache.cache if cache else None)
        weights = torch.stack([weights_of_last_layer(records) for records in recorded]).mean(dim=0)
        if cache is None:
            rows_per_source = len(target) // len(self.is_real)
            before = (~self.is_real).float().repeat_interleave(rows_per_source, dim=0)
        else:
            before = cache.coverage
        return logits, CoverageCache(later, before + weights.sum(dim=1))
