"""Word alignment from the attention weights of the decoder.

    position(t) = argmaxₛ mean over heads of wₜₛ, in the last cross-attention layer

The finished translation is read once more, all its tokens at once, and the weights are recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from dragoman.decoding.engine import Answers, Hypothesis
from dragoman.decoding.search import Searchable
from dragoman.model.attention import Attention
from dragoman.model.record import AttentionRecord, record
from dragoman.shapes import Bool, Float, Int, Tensor
from dragoman.tokenizer.interface import BEGIN


def align(
    model: Searchable,
    source: Int[Tensor, "B S"],
    is_real: Bool[Tensor, "B S"],
    answers: Answers,
) -> Answers:
    """Add to each hypothesis the source position that each target token attends to most.

    Ensembles, and models without attention, get no alignment.
    """
    if not isinstance(model, nn.Module) or not has_attention(model):
        return answers
    return [
        [_align(model, source[row, : int(is_real[row].sum())], hypothesis) for hypothesis in nbest]
        for row, nbest in enumerate(answers)
    ]


def _align(model: nn.Module, source: Int[Tensor, " S"], hypothesis: Hypothesis) -> Hypothesis:
    # The input that predicts the end is left out: a model with learned positions may have no
    # position left for it.
    inputs = [BEGIN, *hypothesis.tokens[:-1]]
    target = torch.tensor([inputs], device=source.device)
    weights = _cross_weights(model, source.unsqueeze(0), target)
    # The source ends with an end token, which is no word.
    weights = weights[: len(hypothesis.tokens), :-1]
    positions = weights.argmax(dim=1).tolist() if weights.shape[1] else []
    return replace(hypothesis, alignment=tuple(positions))


def has_attention(model: nn.Module) -> bool:
    """Return whether the decoder of a model attends to the source."""
    return any(isinstance(module, Attention) for module in model.modules())


def weights_of_last_layer(records: Sequence[AttentionRecord]) -> Float[Tensor, "N T S"]:
    """Return the weights of the last cross-attention layer, as the mean over its heads."""
    *_, last = (entry for entry in records if entry.role == "cross")
    return last.weights.float().mean(dim=1)


def _cross_weights(
    model: nn.Module, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"]
) -> Float[Tensor, "T S"]:
    with record(model) as records, torch.no_grad():
        model(source, torch.ones_like(source, dtype=torch.bool), target)
    return weights_of_last_layer(records)[0]
