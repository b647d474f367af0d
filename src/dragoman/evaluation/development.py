"""How good is a model while it learns?

Its development text is translated by greedy search, which is cheap and tells better from worse.
BLEU is sacreBLEU's, on text as people read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from sacrebleu.metrics.bleu import BLEU

from dragoman.data.batch import collate
from dragoman.decoding.pytorch import PLACES, PyTorch, batches
from dragoman.decoding.search import Searchable
from dragoman.recipe import DecodingRecipe
from dragoman.tokenizer.interface import Tokenizer


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Compare translations with their references; of nothing, it is 0."""
    if not hypotheses:
        return 0.0
    # Text that is tokenised, as in papers, is no mistake here.
    return float(BLEU(force=True).corpus_score(list(hypotheses), [list(references)]).score)


@dataclass(frozen=True, slots=True)
class Development:
    """Sentences with their references, to watch a model by."""

    sources: Sequence[str]
    references: Sequence[str]
    tokenizers: tuple[Tokenizer, Tokenizer]
    settings: DecodingRecipe
    device: torch.device

    def loss(self, model: Searchable) -> float:
        """The mean of −log p over all target tokens."""
        sources = self.tokenizers[0].encode(self.sources)
        targets = self.tokenizers[1].encode(self.references)
        total, count = 0.0, 0
        lengths = [max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
        for rows in batches(lengths, PLACES):
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

    def translate(self, model: Searchable) -> list[str]:
        """Translate the sources, in their order."""
        engine = PyTorch(model, self.device)
        answers = engine.translate(self.tokenizers[0].encode(self.sources), self.settings)
        return self.tokenizers[1].decode([each[0].tokens for each in answers])

    def bleu(self, model: Searchable) -> float:
        """Translate and compare."""
        return bleu(self.translate(model), self.references)
