"""Translates a few validation sentences during training, and records their cross-attention.

The search is greedy, as for validation BLEU. Then source and translation go through the model once
more, all positions at once, under `model/record.py`. Nothing here draws random numbers or changes a
weight, so the training is bit-identical to one that is not watched.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch import nn

from dragoman.dashboard.samples import (
    WEIGHT_SCALE,
    SampleTranslation,
    ValidationSamples,
    append_samples,
)
from dragoman.data.batch import collate
from dragoman.evaluation.validation import ValidationSet
from dragoman.explanation.html_page import END_LABEL
from dragoman.inference.lines import clean_output
from dragoman.inference.translator import Translator
from dragoman.model.record import record
from dragoman.tokenizer.interface import BEGIN
from dragoman.training.loss import Objective

COUNT = 4
MIN_TOKENS, MAX_TOKENS = 4, 40
"""Lengths of sample sentences: in a shorter one little can change, and a larger map cannot be read.
"""


class SampleRecorder:
    """Records the translations of fixed validation sentences."""

    def __init__(
        self, folder: Path, validation_set: ValidationSet, objective: Objective, *, compiled: bool
    ) -> None:
        self._folder = folder
        self._objective = objective
        self._compiled = compiled
        self._device = validation_set.device
        self._translator = validation_set.translator(objective)
        pairs = zip(validation_set.sources, validation_set.references, strict=True)
        self._sentences = _choose(self._translator, list(pairs))

    def record(self, step: int) -> None:
        """Translate the sentences with the current weights, and append them to `samples.jsonl`."""
        engine, settings = self._translator.engine, self._translator.settings
        with self._eager():
            answers = engine.translate([ids for _, _, ids in self._sentences], settings)
            sentences = tuple(
                self._sample(*sentence, best.tokens)
                for sentence, (best, *_) in zip(self._sentences, answers, strict=True)
            )
        append_samples(self._folder, ValidationSamples(step=step, sentences=sentences))

    def _sample(
        self, source: str, reference: str, ids: list[int], output: Sequence[int]
    ) -> SampleTranslation:
        translator = self._translator
        (text,) = translator.target.decode([output])
        tokens = output[:MAX_TOKENS]  # Early in training, many outputs do not end.
        return SampleTranslation(
            source=source,
            reference=reference,
            translation=clean_output(text, source),
            source_tokens=(*translator.source.pieces(ids), END_LABEL),
            target_tokens=tuple(translator.target.pieces(tokens)),
            layers=self._cross_attention(ids, tokens),
        )

    def _cross_attention(
        self, ids: Sequence[int], tokens: Sequence[int]
    ) -> tuple[tuple[tuple[int, ...], ...], ...]:
        source, is_real, *_ = collate([ids], [[]])
        # The input that predicts the end is left out: a model with learned positions may have no
        # position left for it.
        target = torch.tensor([[BEGIN, *tokens[:-1]]], device=self._device)
        model: nn.Module = self._objective
        with record(model) as records, torch.no_grad():
            memory = self._objective.encode(
                torch.from_numpy(source).to(self._device),
                torch.from_numpy(is_real).to(self._device),
            )
            self._objective.decode(target, memory, None)
        layers = []
        for entry in records:
            if entry.role == "cross":
                weights = entry.weights[0].float().mean(dim=0)[: len(tokens)]
                scaled = (WEIGHT_SCALE * weights.nan_to_num()).round().int().tolist()
                layers.append(tuple(tuple(row) for row in scaled))
        return tuple(layers)

    def _eager(self) -> AbstractContextManager[None]:
        """Compiled layers cannot be observed, so they run as they were written."""
        # `torch.compiler.set_stance` imports the compiler, which takes seconds.
        return torch.compiler.set_stance("force_eager") if self._compiled else nullcontext()


def _choose(
    translator: Translator, pairs: Sequence[tuple[str, str]]
) -> list[tuple[str, str, list[int]]]:
    """Choose sentences of a readable length, spread over the validation set."""
    limit = min(MAX_TOKENS, translator.settings.max_source_tokens)
    encoded = [(source, reference, translator.ids(source)) for source, reference in pairs]
    short = [sentence for sentence in encoded if 0 < len(sentence[2]) <= limit]
    readable = [sentence for sentence in short if len(sentence[2]) >= MIN_TOKENS]
    chosen = readable if len(readable) >= COUNT else short
    count = min(COUNT, len(chosen))
    return [chosen[number * len(chosen) // count] for number in range(count)]
