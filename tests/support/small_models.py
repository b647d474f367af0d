"""Small models: every combination of parts can be tested with them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.model.build import build_from_recipe
from dragoman.model.encoder_decoder import EncoderDecoder
from dragoman.recipe import parts
from dragoman.recipe.schema import Recipe

VOCABULARY = 13
KINDS = ("head_kind", "similarity", "attention_kind", "position")
EVERY_PART = [(kind, name) for kind in KINDS for name in parts.names(f"model.{kind}")]
"""Discovered by listing folders: a new file is tested without being named here."""

SMALL = {
    "width": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "heads": 2,
    "feed_forward_width": 24,
    "position_features": 4,
    "dropout": 0.0,
}

BASELINES: dict[str, dict[str, object]] = {
    "recurrent": {"architecture": "recurrent", "recurrent": {"attention": False}},
    "recurrent with attention": {"architecture": "recurrent"},
    "convolutional": {"architecture": "convolutional"},
}
"""Settings of the networks that are not Transformers."""


def small_recipe(**model: object) -> Recipe:
    """A recipe for a small model without dropout; settings of `model` can be changed."""
    return Recipe.model_validate(
        {"tokenizer": {"vocabulary_size": VOCABULARY}, "model": SMALL | model}
    )


def small_model(**model: object) -> EncoderDecoder:
    """A small model with weights, for evaluation."""
    return build_from_recipe(small_recipe(**model)).eval()


class Sentences(NamedTuple):
    """A padded batch."""

    source: Tensor
    is_real: Tensor
    target: Tensor


def sentences(lengths: tuple[int, ...] = (7, 4, 1), target_length: int = 6) -> Sentences:
    """Random sentences of these lengths, padded at the right with random tokens."""
    source = torch.randint(VOCABULARY, (len(lengths), max(lengths)))
    is_real = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    target = torch.randint(VOCABULARY, (len(lengths), target_length))
    return Sentences(source, is_real, target)
