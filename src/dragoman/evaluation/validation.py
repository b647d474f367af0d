"""Scores a model on the validation set during training.

The set is translated as `Translator` does it: the same text normalization, and the same splitting
of lines that are too long. The search is greedy, because it is cheap and ranks models well enough.
BLEU is that of sacreBLEU, on detokenized text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from sacrebleu.metrics.bleu import BLEU

from dragoman.data.batch import Batch, collate
from dragoman.decoding.engine import clamp_lengths
from dragoman.decoding.engines import pytorch
from dragoman.decoding.search import Searchable
from dragoman.inference.loading import LoadedModel
from dragoman.inference.translator import Translator
from dragoman.recipe.schema import Recipe
from dragoman.text.normalization import normalize_text
from dragoman.tokenizer.interface import Tokenizer


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return the BLEU score; 0 for no sentences."""
    if not hypotheses:
        return 0.0
    # `force` accepts tokenized text without a warning.
    return float(BLEU(force=True).corpus_score(list(hypotheses), [list(references)]).score)


@dataclass(frozen=True, slots=True)
class ValidationSet:
    """Source sentences with their references."""

    sources: Sequence[str]
    references: Sequence[str]
    tokenizers: tuple[Tokenizer, Tokenizer]
    recipe: Recipe
    device: torch.device
    max_positions: int | None = None
    """Maximum tokens of a sequence (None = unlimited)."""

    def loss(self, batch_loss: Callable[[Batch], float]) -> float:
        """Return the mean loss per target token; `batch_loss` gives the sum over one batch.

        A pair that is longer than the positions of the model has no loss and is left out.
        """
        sources, targets = (
            tokenizer.encode(self._normalized(texts))
            for tokenizer, texts in zip(
                self.tokenizers, (self.sources, self.references), strict=True
            )
        )
        pairs = [
            pair
            for pair in zip(sources, targets, strict=True)
            if self.max_positions is None or max(map(len, pair)) < self.max_positions
        ]
        total, count = 0.0, 0
        lengths = [max(map(len, pair)) for pair in pairs]
        for rows in pytorch.batches(lengths, pytorch.BATCH_TOKENS):
            batch = collate([pairs[row][0] for row in rows], [pairs[row][1] for row in rows])
            total += batch_loss(batch)
            count += int(batch.target_is_real.sum())
        return total / max(count, 1)

    def translator(self, model: Searchable) -> Translator:
        """Return a translator that searches as validation does."""
        # Early in training most outputs are degenerate, so a second attempt would cost much time.
        update = {"search": "greedy", "num_hypotheses": 1, "retry": False}
        greedy = self.recipe.decoding.model_copy(update=update)
        decoding = clamp_lengths(greedy, self.max_positions)
        recipe = self.recipe.model_copy(update={"decoding": decoding})
        engine = pytorch.PyTorch(model, self.device)
        return Translator(LoadedModel(engine, recipe, self.tokenizers, model_hash=""))

    def translate(self, model: Searchable) -> list[str]:
        """Translate the sources, in their order."""
        return [translation.text for translation in self.translator(model).translate(self.sources)]

    def bleu(self, model: Searchable) -> float:
        """Translate the sources and score the translations."""
        return bleu(self.translate(model), self.references)

    def _normalized(self, texts: Sequence[str]) -> Sequence[str]:
        """Normalize text as the training corpus was normalized."""
        if any(choice.name == "unicode" for choice in self.recipe.corpus.filters):
            return [normalize_text(text) for text in texts]
        return texts
