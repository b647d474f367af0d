"""Beam search: keep the K best partial hypotheses.

    partial hypotheses of length t + 1  =  the K best of {y ∘ v : y of length t, v a token}
    result  =  argmax score(y) / length(y)ᵅ over finished y     [APPLY-DL]; Wu et al., 2016

A sentence is done when it has K · patience finished hypotheses, or at its length limit. Without
length normalization, it is done when the best candidate of a step was a finished hypothesis and
there are enough hypotheses to return: a longer hypothesis cannot have a better score. CTranslate2
uses the same rules and must give the same result. `coverage.py` has the coverage penalty, which is
added to the score of a finished y.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from dragoman.decoding.coverage import CoverageCache, WithCoverage, coverage_sum
from dragoman.decoding.engine import Hypothesis
from dragoman.decoding.search import Candidates, Search, Searchable, SearchStep
from dragoman.model.cache import Cache
from dragoman.shapes import Bool, Float, Int, Tensor


class Beam(Search):
    """Search with K hypotheses for each sentence."""

    def steps(
        self,
        model: Searchable,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        prefixes: Sequence[Sequence[int]] = (),
    ) -> Iterator[SearchStep]:
        """Search, one token at a time."""
        process_logits = self._logits_processor(prefixes, source.device)
        limits = self._limits(is_real)
        if self.settings.coverage_penalty:
            model = WithCoverage(model, is_real)
        cache: Cache | None = None
        with torch.no_grad():
            memory = model.encode(source, is_real)
        active = list(range(len(source)))
        sentences = torch.arange(len(source), device=source.device)
        tokens = source.new_empty(len(source), 0)
        last = torch.full_like(sentences, self.begin)
        scores = torch.zeros(len(source), device=source.device)
        done: list[tuple[Hypothesis, ...]] = [()] * len(source)
        # Sentences whose best candidate at some step was a finished hypothesis.
        finished_first: set[int] = set()
        while active:
            with torch.no_grad():
                logits, cache = model.decode(last.unsqueeze(1), memory, cache)
            processed = process_logits(logits[:, -1].float(), tokens, sentences)
            candidates = self._candidates(processed, scores, len(active))
            is_end = (candidates.tokens == self.end) & candidates.scores.isfinite()
            is_at_limit = [tokens.shape[1] + 1 >= limits[sentence] for sentence in active]
            penalties = self._coverage_penalties(cache, len(tokens))
            self._complete(candidates, is_end, is_at_limit, (tokens, penalties), active, done)
            finished_first.update(active[row] for row in is_end[:, 0].nonzero().flatten().tolist())
            is_done = [
                at_limit or self._is_enough(done[sentence], sentence in finished_first)
                for sentence, at_limit in zip(active, is_at_limit, strict=True)
            ]
            # There are 2K candidates. At most K of them end, one for each partial hypothesis, so
            # at least K continue.
            order = is_end.to(torch.int8).argsort(dim=1, stable=True)
            continuing = order[:, : self.settings.beam_size]
            all_candidates = candidates
            remaining = [row for row, done_now in enumerate(is_done) if not done_now]
            if len(remaining) < len(active):
                kept = torch.tensor(remaining, device=source.device, dtype=torch.long)
                continuing, candidates = continuing[kept], candidates.select(kept)
                memory, active = memory.reorder(kept), [active[row] for row in remaining]
            else:
                kept = None
            rows = candidates.rows.gather(1, continuing).flatten()
            last = candidates.tokens.gather(1, continuing).flatten()
            scores = candidates.scores.gather(1, continuing).flatten()
            tokens = torch.cat([tokens[rows], last.unsqueeze(1)], dim=1)
            sentences, cache = sentences[rows], cache.reorder(rows, kept)
            yield SearchStep(tokens, scores, tuple(sentences.tolist()), tuple(done), all_candidates)

    def _candidates(
        self, logits: Float[Tensor, "N V"], scores: Float[Tensor, " N"], sentence_count: int
    ) -> Candidates:
        """Find the best hypotheses that are one token longer.

        The best candidates of a sentence are among the best candidates of each of its rows.
        """
        count, rows_per_sentence = 2 * self.settings.beam_size, len(logits) // sentence_count
        row_logits, tokens = fast_topk(logits, min(count, logits.shape[1]))
        totals = scores.unsqueeze(1) + row_logits - logits.logsumexp(dim=1, keepdim=True)
        # If all tokens of a row are forbidden, this computes −∞ − (−∞) = NaN. It must stay −∞.
        totals = totals.nan_to_num(nan=-torch.inf, neginf=-torch.inf).view(sentence_count, -1)
        best, columns = totals.topk(min(count, totals.shape[1]), dim=1)
        sentences = torch.arange(sentence_count, device=logits.device).unsqueeze(1)
        row_in_sentence = columns.div(row_logits.shape[1], rounding_mode="floor")
        rows = sentences * rows_per_sentence + row_in_sentence
        candidates = Candidates(best, rows, tokens.view(sentence_count, -1).gather(1, columns))
        return candidates if best.shape[1] == count else _pad(candidates, count, self.end)

    def _coverage_penalties(self, cache: Cache, rows: int) -> list[float]:
        """Return the penalty of each row; the token that is added next is already counted."""
        if not isinstance(cache, CoverageCache):
            return [0.0] * rows
        penalties: list[float] = coverage_sum(cache.coverage).tolist()
        return [self.settings.coverage_penalty * penalty for penalty in penalties]

    def _complete(
        self,
        candidates: Candidates,
        is_end: Bool[Tensor, "B C"],
        is_at_limit: list[bool],
        prefixes: tuple[Int[Tensor, "N T"], list[float]],
        active: list[int],
        done: list[tuple[Hypothesis, ...]],
    ) -> None:
        """Add the hypotheses that ended or reached the length limit to `done`, best first.

        `prefixes` are the tokens of each row, and its coverage penalty.
        """
        tokens, penalties = prefixes
        at_limit = torch.tensor(is_at_limit, device=is_end.device).unsqueeze(1)
        is_complete = is_end | (at_limit & candidates.scores.isfinite())
        for row, column in is_complete[:, : self.settings.beam_size].nonzero().tolist():
            parent, token = int(candidates.rows[row, column]), int(candidates.tokens[row, column])
            hypothesis = self._hypothesis(
                [*tokens[parent].tolist(), token],
                float(candidates.scores[row, column]),
                penalties[parent],
            )
            sentence = active[row]
            done[sentence] = tuple(
                sorted((*done[sentence], hypothesis), key=lambda complete: -complete.score)
            )

    def _is_enough(self, done: tuple[Hypothesis, ...], has_finished_first: bool) -> bool:
        if self.settings.length_penalty == self.settings.coverage_penalty == 0:
            return has_finished_first and len(done) >= self.settings.num_hypotheses
        return len(done) >= math.floor(self.settings.beam_size * self.settings.patience + 0.5)


def _pad(candidates: Candidates, count: int, end: int) -> Candidates:
    """Add candidates with a score of −∞, if a small vocabulary gives fewer than `count`."""
    missing = count - candidates.scores.shape[1]
    other_than_end = 0 if end else 1
    return Candidates(
        torch.nn.functional.pad(candidates.scores, (0, missing), value=-torch.inf),
        torch.cat([candidates.rows, candidates.rows[:, :1].expand(-1, missing)], dim=1),
        torch.nn.functional.pad(candidates.tokens, (0, missing), value=other_than_end),
    )


def fast_topk(
    values: Float[Tensor, "N V"], count: int, block: int = 64
) -> tuple[Float[Tensor, "N C"], Int[Tensor, "N C"]]:
    """Return the largest values of each row and their columns, like `topk`, but faster on a CPU.

    The `count` largest values are in the `count` blocks with the largest maxima. On a CPU, `amax`
    uses vector instructions and `topk` does not.
    """
    size = values.shape[1]
    blocked = size // block * block
    if values.device.type != "cpu" or blocked // block <= count:
        best, columns = values.topk(count, dim=1)
        return best, columns
    blocks = values[:, :blocked].view(len(values), -1, block)
    chosen = blocks.amax(dim=2).topk(count, dim=1).indices
    selected = blocks.gather(1, chosen.unsqueeze(2).expand(-1, -1, block)).flatten(1)
    selected_columns = (chosen.unsqueeze(2) * block + torch.arange(block)).flatten(1)
    if blocked < size:
        selected = torch.cat([selected, values[:, blocked:]], dim=1)
        rest = torch.arange(blocked, size).expand(len(values), -1)
        selected_columns = torch.cat([selected_columns, rest], dim=1)
    best, indices = selected.topk(count, dim=1)
    return best, selected_columns.gather(1, indices)
