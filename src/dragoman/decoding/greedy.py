"""Greedy: take the best token, again and again.

    yₜ = argmaxᵥ p(v | y₁ … yₜ₋₁, source)

The reference for every other search: a beam of one must give the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from dragoman.decoding.engine import Hypothesis
from dragoman.decoding.search import Search, Searchable, Step
from dragoman.shapes import Bool, Float, Int, Tensor


class Greedy(Search):
    """One hypothesis a sentence."""

    def steps(
        self,
        model: Searchable,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        prefixes: Sequence[Sequence[int]] = (),
    ) -> Iterator[Step]:
        """Search, one token at a time; a sentence ends at `end`, or at its length limit."""
        guard, limits = self._guard(prefixes, source.device), self._limits(is_real)
        with torch.no_grad():
            memory, cache = model.encode(source, is_real), None
        sentences = torch.arange(len(source), device=source.device)
        tokens = source.new_empty(len(source), 0)
        last = torch.full_like(sentences, self.begin)
        scores = torch.zeros(len(source), device=source.device)
        done: list[tuple[Hypothesis, ...]] = [()] * len(source)
        while len(sentences):
            with torch.no_grad():
                logits, cache = model.decode(last.unsqueeze(1), memory, cache)
            allowed = guard(logits[:, -1].float(), tokens, sentences)
            last = self.prefer(allowed, source, sentences, tokens.shape[1]).argmax(dim=-1)
            best = allowed.gather(1, last.unsqueeze(1)).squeeze(1)
            scores = scores + best - allowed.logsumexp(dim=-1)
            tokens = torch.cat([tokens, last.unsqueeze(1)], dim=1)
            numbers = sentences.tolist()
            is_done = last == self.end
            is_done |= torch.tensor(
                [tokens.shape[1] >= limits[each] for each in numbers], device=source.device
            )
            for row in is_done.nonzero().flatten().tolist():
                done[numbers[row]] = (self._hypothesis(tokens[row].tolist(), float(scores[row])),)
            if is_done.any():  # Who is done leaves, and costs no more.
                rows = (~is_done).nonzero().flatten()
                sentences, tokens, scores = sentences[rows], tokens[rows], scores[rows]
                last, memory, cache = last[rows], memory.reorder(rows), cache.reorder(rows, rows)
            yield Step(tokens, scores, tuple(sentences.tolist()), tuple(done))

    def prefer(
        self,
        logits: Float[Tensor, "N V"],
        source: Int[Tensor, "B S"],
        sentences: Int[Tensor, " N"],
        place: int,
    ) -> Float[Tensor, "N V"]:
        """Say how much each token is liked: as much as it is likely."""
        return logits
