"""Sampling: draw each token by its probability.

    yₜ ~ softmax(ℓ / τ), from the k most probable tokens, or from the smallest set with
         probability p                              Fan et al., 2018; Holtzman et al., 2020

    argmaxᵥ (ℓᵥ / τ + gᵥ),  gᵥ = −log(−log u),  is such a draw (Gumbel, 1954)

So sampling is greedy search with noise. The noise is a function of the seed, the sentence and the
position only; the other sentences of the batch do not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch

from dragoman.decoding.engine import Answers
from dragoman.decoding.greedy import Greedy
from dragoman.decoding.search import Searchable
from dragoman.recipe.schema import DecodingRecipe
from dragoman.shapes import Bool, Float, Int, Tensor
from dragoman.tokenizer.interface import BEGIN, END, PADDING


class Sample(Greedy):
    """One or several draws for each sentence; `draw` is the number of this draw."""

    def __init__(
        self,
        settings: DecodingRecipe,
        begin: int = BEGIN,
        end: int = END,
        *,
        seed: int = 1,
        draw: int = 0,
    ) -> None:
        super().__init__(settings, begin, end)
        self.seed = seed
        self.draw = draw

    def run(
        self,
        model: Searchable,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        prefixes: Sequence[Sequence[int]] = (),
    ) -> Answers:
        """Draw as many translations as the settings request; the most probable comes first."""
        samplers = [
            Sample(self.settings, self.begin, self.end, seed=self.seed, draw=draw)
            for draw in range(self.settings.num_hypotheses)
        ]
        draws = [
            super(Sample, sampler).run(model, source, is_real, prefixes) for sampler in samplers
        ]
        return [
            sorted((nbest[0] for nbest in sentence), key=lambda hypothesis: -hypothesis.score)
            for sentence in zip(*draws, strict=True)
        ]

    def adjust_logits(
        self,
        logits: Float[Tensor, "N V"],
        source: Int[Tensor, "B S"],
        sentences: Int[Tensor, " N"],
        position: int,
    ) -> Float[Tensor, "N V"]:
        """Apply the temperature and the limits k and p, and add Gumbel noise."""
        noise = [
            self._noise(source[sentence], position, logits.shape[1])
            for sentence in sentences.tolist()
        ]
        limited = self._limit(logits / self.settings.temperature)
        return limited + torch.stack(noise).to(logits.device)

    def _limit(self, logits: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
        """Remove the tokens outside the top k and the top p."""
        if self.settings.top_k:
            count = min(self.settings.top_k, logits.shape[1])
            smallest = logits.topk(count, dim=-1).values[:, -1:]
            logits = logits.masked_fill(logits < smallest, -torch.inf)
        if self.settings.top_p < 1:
            ordered, order = logits.sort(dim=-1, descending=True)
            probabilities = ordered.softmax(dim=-1)
            # A token remains if the more probable tokens have less than p in sum.
            is_out = probabilities.cumsum(dim=-1) - probabilities >= self.settings.top_p
            logits = logits.masked_fill(is_out.gather(1, order.argsort(dim=-1)), -torch.inf)
        return logits

    def _noise(self, source: Int[Tensor, " S"], position: int, size: int) -> Float[Tensor, " V"]:
        tokens = [token for token in source.tolist() if token != PADDING]
        key = repr((self.seed, self.draw, position, tokens)).encode()
        number = int.from_bytes(hashlib.sha256(key).digest()[:8], "little", signed=True)
        generator = torch.Generator().manual_seed(number)
        # Never 0 and never 1, because both have an infinite result below.
        uniform = torch.rand(size, generator=generator).clamp(1e-20, 1 - 1e-7)
        return -(-uniform.log()).log()
