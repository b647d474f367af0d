"""Models that searches are tried on."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.model.transformer import Transformer
from dragoman.tokenizer.interface import PADDING
from small_models import VOCABULARY, small_model


def loud_model(seed: int = 0, **settings: object) -> Transformer:
    """A model whose translations are not one token repeated: untied, and loud."""
    model = small_model(**{"norm": "pre", "tied_embeddings": "none"} | settings)
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=chance))
    return model


def padded_source(lengths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The same sentences each time, padded with padding."""
    chance = torch.Generator().manual_seed(len(lengths))
    source = torch.randint(3, VOCABULARY, (len(lengths), max(lengths)), generator=chance)
    is_real = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return torch.where(is_real, source, PADDING), is_real


class NeverEnding:
    """The same model, never willing to end."""

    def __init__(self, model: Transformer, end: int) -> None:
        self.encode, self.model, self.end = model.encode, model, end

    def decode(self, target, memory, cache):
        logits, cache = self.model.decode(target, memory, cache)
        return logits.index_fill(-1, torch.tensor([self.end]), -torch.inf), cache


class Willing:
    """The same model, more willing to end with every word it has said."""

    def __init__(self, model: Transformer, end: int, by: float) -> None:
        self.encode, self.model, self.end, self.by = model.encode, model, end, by

    def decode(self, target, memory, cache):
        logits, cache = self.model.decode(target, memory, cache)
        places = torch.arange(cache.length - target.shape[1], cache.length).unsqueeze(1)
        return logits + self.by * places * (torch.arange(logits.shape[-1]) == self.end), cache


class WholePrefix:
    """The same model without a cache: it reads all it has said again, at every step."""

    def __init__(self, model: Transformer) -> None:
        self.encode, self.model = model.encode, model

    def decode(self, target, memory, cache):
        tokens = target if cache is None else torch.cat([cache.tokens, target], dim=1)
        logits, _ = self.model.decode(tokens, memory, None)
        return logits[:, -1:], Said(tokens)


class Said(NamedTuple):
    tokens: Tensor

    def reorder(self, hypotheses, sentences):
        return Said(self.tokens[hypotheses])
