"""Sample: draw each token by its probability.

    yₜ ~ softmax(ℓ / τ), from the k likeliest, or from those that make up p of the probability
                                                    (Fan et al., 2018; Holtzman et al., 2020)

    argmaxᵥ (ℓᵥ / τ + gᵥ),  gᵥ = −log(−log u),  is such a draw (Gumbel, 1954)

So it is greedy search with noise. The noise of a sentence is a function of the seed, the sentence
and the place alone: neighbours do not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch

from dragoman.decoding.engine import Answers
from dragoman.decoding.greedy import Greedy
from dragoman.decoding.search import Searchable
from dragoman.recipe import DecodingRecipe
from dragoman.shapes import Bool, Float, Int, Tensor
from dragoman.tokenizer.interface import BEGIN, END, PADDING


class Sample(Greedy):
    """One draw a sentence, or several; `draw` numbers it."""

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
        """Draw as often as hypotheses are asked for; the likeliest draw comes first."""
        draws = [
            Sample(self.settings, self.begin, self.end, seed=self.seed, draw=draw)
            for draw in range(self.settings.hypotheses)
        ]
        answers = [super(Sample, each).run(model, source, is_real, prefixes) for each in draws]
        return [
            sorted((draw[0] for draw in of_one), key=lambda each: -each.score)
            for of_one in zip(*answers, strict=True)
        ]

    def prefer(
        self,
        logits: Float[Tensor, "N V"],
        source: Int[Tensor, "B S"],
        sentences: Int[Tensor, " N"],
        place: int,
    ) -> Float[Tensor, "N V"]:
        """Like a token by chance, as often as it is likely."""
        noise = [self._noise(source[each], place, logits.shape[1]) for each in sentences.tolist()]
        likely = self._likely(logits / self.settings.temperature)
        return likely + torch.stack(noise).to(logits.device)

    def _likely(self, logits: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
        """Leave out what is too unlikely to be drawn."""
        if self.settings.top_k:
            count = min(self.settings.top_k, logits.shape[1])
            least = logits.topk(count, dim=-1).values[:, -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        if self.settings.top_p < 1:
            ordered, places = logits.sort(dim=-1, descending=True)
            shares = ordered.softmax(dim=-1)
            # A token stays where those before it do not make up the probability yet.
            is_out = shares.cumsum(dim=-1) - shares >= self.settings.top_p
            logits = logits.masked_fill(is_out.gather(1, places.argsort(dim=-1)), -torch.inf)
        return logits

    def _noise(self, source: Int[Tensor, " S"], place: int, size: int) -> Float[Tensor, " V"]:
        words = [each for each in source.tolist() if each != PADDING]
        key = repr((self.seed, self.draw, place, words)).encode()
        number = int.from_bytes(hashlib.sha256(key).digest()[:8], "little", signed=True)
        generator = torch.Generator().manual_seed(number)
        # Never 0 and never 1, of which the logarithms have no use.
        uniform = torch.rand(size, generator=generator).clamp(1e-20, 1 - 1e-7)
        return -(-uniform.log()).log()
