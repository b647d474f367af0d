"""Greedy: take the best token, again and again.

    yₜ = argmaxᵥ p(v | y₁ … yₜ₋₁, source)

The reference for every other search: a beam of one must give the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from dragoman.decoding.search import EncoderDecoder, Search, Step
from dragoman.shapes import Bool, Int, Tensor


class Greedy(Search):
    """One hypothesis a sentence."""

    def steps(
        self, model: EncoderDecoder, source: Int[Tensor, "B S"], is_real: Bool[Tensor, "B S"]
    ) -> Iterator[Step]:
        """Search, one token at a time; a sentence ends at `end`, or at its length limit."""
        with torch.no_grad():
            memory, cache = model.encode(source, is_real), None
        limits = is_real.sum(dim=1) + self.extra_length
        last = torch.full_like(limits, self.begin)
        tokens = source.new_empty(len(source), 0)
        scores = torch.zeros(len(source), device=source.device)
        is_ended = torch.zeros_like(limits, dtype=torch.bool)
        is_done = is_ended
        while not is_done.all():
            with torch.no_grad():
                logits, cache = model.decode(last.unsqueeze(1), memory, cache)
            best, last = logits[:, -1].float().log_softmax(dim=-1).max(dim=-1)
            # A sentence that is done waits for the others, and changes no more.
            last = torch.where(is_done, self.end, last)
            scores = torch.where(is_done, scores, scores + best)
            tokens = torch.cat([tokens, last.unsqueeze(1)], dim=1)
            is_ended = is_ended | (~is_done & (last == self.end))
            is_done = is_ended | (tokens.shape[1] >= limits)
            yield Step(tokens.unsqueeze(1), scores.unsqueeze(1), is_ended.unsqueeze(1))
