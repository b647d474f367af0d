"""How good is a translation?

BLEU is sacreBLEU's, on text as people read it. While a model learns, its development text is
translated by greedy search, which is cheap and tells better from worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sacrebleu.metrics.bleu import BLEU

from dragoman.data.batch import collate
from dragoman.decoding.search import EncoderDecoder, Search
from dragoman.tokenizer.interface import Tokenizer

_TOKENS = 4096
"""Places in one batch."""


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Compare translations with their references; of nothing, it is 0."""
    if not hypotheses:
        return 0.0
    return float(BLEU().corpus_score(list(hypotheses), [list(references)]).score)


@dataclass(frozen=True, slots=True)
class Development:
    """Sentences with their references, to watch a model by."""

    sources: Sequence[str]
    references: Sequence[str]
    tokenizers: tuple[Tokenizer, Tokenizer]
    search: Search
    device: torch.device

    def loss(self, model: EncoderDecoder) -> float:
        """The mean of −log p over all target tokens."""
        sources = self.tokenizers[0].encode(self.sources)
        targets = self.tokenizers[1].encode(self.references)
        total, count = 0.0, 0
        for rows in _batches([max(map(len, pair)) for pair in zip(sources, targets, strict=True)]):
            batch = collate([sources[row] for row in rows], [targets[row] for row in rows])
            source, is_real, target, expected, is_asked = (
                torch.from_numpy(each).to(self.device) for each in batch
            )
            with torch.no_grad():
                logits, _ = model.decode(target, model.encode(source, is_real), None)
            scores = logits[is_asked].float().log_softmax(dim=-1)
            total -= float(scores.gather(1, expected[is_asked].unsqueeze(1)).sum())
            count += int(is_asked.sum())
        return total / max(count, 1)

    def translate(self, model: EncoderDecoder) -> list[str]:
        """Translate the sources, in their order."""
        sources = self.tokenizers[0].encode(self.sources)
        found: dict[int, str] = {}
        for rows in _batches([len(each) for each in sources]):
            batch = collate([sources[row] for row in rows], [[] for _ in rows])
            source, is_real = (torch.from_numpy(each).to(self.device) for each in batch[:2])
            best = [each[0].tokens for each in self.search.run(model, source, is_real)]
            found.update(zip(rows, self.tokenizers[1].decode(best), strict=True))
        return [found[row] for row in range(len(sources))]

    def bleu(self, model: EncoderDecoder) -> float:
        """Translate and compare."""
        return bleu(self.translate(model), self.references)


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Put rows of like length together."""
    rows: list[int] = []
    for row in np.argsort(lengths, kind="stable").tolist():
        if rows and (len(rows) + 1) * (lengths[row] + 1) > _TOKENS:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows
