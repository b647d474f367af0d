"""Models for tests of searches."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.model.transformer import Transformer
from dragoman.tokenizer.interface import PADDING
from support.small_models import VOCABULARY, small_model


def varied_model(seed: int = 0, **settings: object) -> Transformer:
    """A model with large random weights: its translations do not repeat one token."""
    model = small_model(**{"norm": "pre", "tied_embeddings": "none"} | settings)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator))
    return model


def padded_source(lengths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The same random sentences at each call, padded to equal length."""
    generator = torch.Generator().manual_seed(len(lengths))
    source = torch.randint(3, VOCABULARY, (len(lengths), max(lengths)), generator=generator)
    is_real = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return torch.where(is_real, source, PADDING), is_real


class NeverEnding:
    """A model that never predicts the end token."""

    def __init__(self, model: Transformer, end: int) -> None:
        self.encode, self.model, self.end = model.encode, model, end

    def decode(self, target, memory, cache):
        logits, cache = self.model.decode(target, memory, cache)
        return logits.index_fill(-1, torch.tensor([self.end]), -torch.inf), cache


class SoonEnding:
    """A model whose logit of the end token grows with each position."""

    def __init__(self, model: Transformer, end: int, by: float) -> None:
        self.encode, self.model, self.end, self.by = model.encode, model, end, by

    def decode(self, target, memory, cache):
        logits, cache = self.model.decode(target, memory, cache)
        positions = torch.arange(cache.length - target.shape[1], cache.length).unsqueeze(1)
        return logits + self.by * positions * (torch.arange(logits.shape[-1]) == self.end), cache


class WithoutCache:
    """A model without a cache: it reads the whole prefix again at every step."""

    def __init__(self, model: Transformer) -> None:
        self.encode, self.model = model.encode, model

    def decode(self, target, memory, cache):
        tokens = target if cache is None else torch.cat([cache.tokens, target], dim=1)
        logits, _ = self.model.decode(tokens, memory, None)
        return logits[:, -1:], PrefixCache(tokens)


class PrefixCache(NamedTuple):
    """The tokens of each hypothesis."""

    tokens: Tensor

    def reorder(self, hypotheses, sentences):
        return PrefixCache(self.tokens[hypotheses])
