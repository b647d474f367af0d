"""Greedy search: take the best token at each step.

    yₜ = argmaxᵥ p(v | y₁ … yₜ₋₁, source)

It is the reference for the other searches: a beam of size one must give the same result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from dragoman.decoding.engine import Hypothesis
from dragoman.decoding.search import Search, Searchable, SearchStep
from dragoman.model.cache import Cache
from dragoman.shapes import Bool, Float, Int, Tensor


class Greedy(Search):
    """Search with one hypothesis for each sentence."""

    def steps(
        self,
        model: Searchable,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        prefixes: Sequence[Sequence[int]] = (),
    ) -> Iterator[SearchStep]:
        """Search, one token at a time; a sentence ends at `end`, or at its length limit."""
        process_logits = self._logits_processor(prefixes, source.device)
        limits = self._limits(is_real)
        cache: Cache | None = None
        with torch.no_grad():
            memory = model.encode(source, is_real)
        sentences = torch.arange(len(source), device=source.device)
        tokens = source.new_empty(len(source), 0)
        last = torch.full_like(sentences, self.begin)
        scores = torch.zeros(len(source), device=source.device)
        done: list[tuple[Hypothesis, ...]] = [()] * len(source)
        while len(sentences):
            with torch.no_grad():
                logits, cache = model.decode(last.unsqueeze(1), memory, cache)
            processed = process_logits(logits[:, -1].float(), tokens, sentences)
            last = self.adjust_logits(processed, source, sentences, tokens.shape[1]).argmax(dim=-1)
            best = processed.gather(1, last.unsqueeze(1)).squeeze(1)
            scores = scores + best - processed.logsumexp(dim=-1)
            tokens = torch.cat([tokens, last.unsqueeze(1)], dim=1)
            active = sentences.tolist()
            is_done = last == self.end
            is_done |= torch.tensor(
                [tokens.shape[1] >= limits[sentence] for sentence in active], device=source.device
            )
            for row in is_done.nonzero().flatten().tolist():
                done[active[row]] = (self._hypothesis(tokens[row].tolist(), float(scores[row])),)
            if is_done.any():  # Finished sentences leave the batch.
                rows = (~is_done).nonzero().flatten()
                sentences, tokens, scores = sentences[rows], tokens[rows], scores[rows]
                last, memory, cache = last[rows], memory.reorder(rows), cache.reorder(rows, rows)
            yield SearchStep(tokens, scores, tuple(sentences.tolist()), tuple(done))

    def adjust_logits(
        self,
        logits: Float[Tensor, "N V"],
        source: Int[Tensor, "B S"],
        sentences: Int[Tensor, " N"],
        position: int,
    ) -> Float[Tensor, "N V"]:
        """Return the values whose maximum is the next token; here the logits themselves."""
        return logits
