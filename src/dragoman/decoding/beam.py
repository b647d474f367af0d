"""Beam: keep the K best beginnings side by side.

    beginnings of length t + 1  =  the K best of {y ∘ v : y a beginning of length t, v a token}
    answer  =  argmax score(y) / length(y)ᵅ over those that ended     (seed 003; Wu et al., 2016)

A sentence is done when K times the patience have ended, or at its length limit. Where length is not
made up for, it is done once the best beginning is one that ended: nothing can come to pass it.
These are the rules of CTranslate2, which must give the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from dragoman.decoding.engine import Hypothesis
from dragoman.decoding.search import Candidates, Search, Searchable, Step
from dragoman.shapes import Bool, Float, Int, Tensor


class Beam(Search):
    """K hypotheses a sentence."""

    def steps(
        self,
        model: Searchable,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        prefixes: Sequence[Sequence[int]] = (),
    ) -> Iterator[Step]:
        """Search, one token at a time."""
        guard, limits = self._guard(prefixes, source.device), self._limits(is_real)
        with torch.no_grad():
            memory, cache = model.encode(source, is_real), None
        numbers = list(range(len(source)))
        sentences = torch.arange(len(source), device=source.device)
        tokens = source.new_empty(len(source), 0)
        last = torch.full_like(sentences, self.begin)
        scores = torch.zeros(len(source), device=source.device)
        done: list[tuple[Hypothesis, ...]] = [()] * len(source)
        led: set[int] = set()
        """Sentences whose best beginning was once one that ended."""
        while numbers:
            with torch.no_grad():
                logits, cache = model.decode(last.unsqueeze(1), memory, cache)
            allowed = guard(logits[:, -1].float(), tokens, sentences)
            found = self._candidates(allowed, scores, len(numbers))
            is_end = (found.tokens == self.end) & found.scores.isfinite()
            is_cut = [tokens.shape[1] + 1 >= limits[each] for each in numbers]
            self._complete(found, is_end, is_cut, tokens, numbers, done)
            led.update(numbers[row] for row in is_end[:, 0].nonzero().flatten().tolist())
            is_over = [
                cut or self._is_enough(done[number], number in led)
                for number, cut in zip(numbers, is_cut, strict=True)
            ]
            # Two beginnings for each place in the beam: at least half of them have not ended.
            alive = is_end.to(torch.int8).argsort(dim=1, stable=True)[:, : self.settings.beam]
            considered = found
            staying = [row for row, over in enumerate(is_over) if not over]
            if len(staying) < len(numbers):
                kept = torch.tensor(staying, device=source.device, dtype=torch.long)
                alive, found = alive[kept], Candidates(*(each[kept] for each in found))
                memory, numbers = memory.reorder(kept), [numbers[row] for row in staying]
            else:
                kept = None
            rows = found.rows.gather(1, alive).flatten()
            last = found.tokens.gather(1, alive).flatten()
            scores = found.scores.gather(1, alive).flatten()
            tokens = torch.cat([tokens[rows], last.unsqueeze(1)], dim=1)
            sentences, cache = sentences[rows], cache.reorder(rows, kept)
            yield Step(tokens, scores, tuple(sentences.tolist()), tuple(done), considered)

    def _candidates(
        self, logits: Float[Tensor, "N V"], scores: Float[Tensor, " N"], sentences: int
    ) -> Candidates:
        """Find the best beginnings among all that are one token longer.

        The best of a sentence are among the best of each of its rows.
        """
        count, width = 2 * self.settings.beam, logits.shape[0] // sentences
        best, tokens = top(logits, min(count, logits.shape[1]))
        totals = scores.unsqueeze(1) + best - logits.logsumexp(dim=1, keepdim=True)
        # A token that a guard forbids stays forbidden, also in a beginning that is none.
        totals = totals.nan_to_num(nan=-torch.inf).view(sentences, -1)
        kept, places = totals.topk(min(count, totals.shape[1]), dim=1)
        first = torch.arange(sentences, device=logits.device).unsqueeze(1) * width
        rows = first + places.div(best.shape[1], rounding_mode="floor")
        found = Candidates(kept, rows, tokens.view(sentences, -1).gather(1, places))
        return found if kept.shape[1] == count else _filled(found, count, self.end)

    def _complete(
        self,
        found: Candidates,
        is_end: Bool[Tensor, "B C"],
        is_cut: list[bool],
        tokens: Int[Tensor, "N T"],
        numbers: list[int],
        done: list[tuple[Hypothesis, ...]],
    ) -> None:
        """Put away the hypotheses that are complete."""
        width = self.settings.beam
        cut = torch.tensor(is_cut, device=is_end.device).unsqueeze(1)
        is_complete = (is_end | (cut & found.scores.isfinite()))[:, :width]
        for row, column in is_complete.nonzero().tolist():
            words = [*tokens[found.rows[row, column]].tolist(), int(found.tokens[row, column])]
            hypothesis = self._hypothesis(words, float(found.scores[row, column]))
            together = (*done[numbers[row]], hypothesis)
            done[numbers[row]] = tuple(sorted(together, key=lambda each: -each.score))

    def _is_enough(self, done: tuple[Hypothesis, ...], has_led: bool) -> bool:
        if self.settings.length_penalty == 0:
            return has_led and len(done) >= self.settings.hypotheses
        return len(done) >= math.floor(self.settings.beam * self.settings.patience + 0.5)


def _filled(found: Candidates, count: int, end: int) -> Candidates:
    """Fill up with beginnings that are none, where the vocabulary is smaller than the beam."""
    missing = count - found.scores.shape[1]
    return Candidates(
        torch.nn.functional.pad(found.scores, (0, missing), value=-torch.inf),
        torch.cat([found.rows, found.rows[:, :1].expand(-1, missing)], dim=1),
        torch.nn.functional.pad(found.tokens, (0, missing), value=0 if end else 1),
    )


def top(
    values: Float[Tensor, "N V"], count: int, block: int = 64
) -> tuple[Float[Tensor, "N C"], Int[Tensor, "N C"]]:
    """The largest of each row and their places, best first: what `topk` gives, sooner.

    The `count` largest lie in the `count` blocks that have the largest maxima. A maximum is found
    by all lanes of a processor at once, a sorted selection is not.
    """
    size = values.shape[1]
    whole = size // block * block
    if values.device.type != "cpu" or whole // block <= count:
        best, places = values.topk(count, dim=1)
        return best, places
    blocks = values[:, :whole].view(len(values), -1, block)
    chosen = blocks.amax(dim=2).topk(count, dim=1).indices
    near = blocks.gather(1, chosen.unsqueeze(2).expand(-1, -1, block)).flatten(1)
    names = (chosen.unsqueeze(2) * block + torch.arange(block)).flatten(1)
    if whole < size:
        near = torch.cat([near, values[:, whole:]], dim=1)
        rest = torch.arange(whole, size).expand(len(values), -1)
        names = torch.cat([names, rest], dim=1)
    best, places = near.topk(count, dim=1)
    return best, names.gather(1, places)
