"""Which source token does each target token come from?

    place(t) = argmaxₛ mean over heads of wₜₛ, in the last layer's attention to the source

A translation is read once more, all its tokens at once, and the weights are looked at.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from dragoman.decoding.engine import Answers
from dragoman.decoding.search import Searchable
from dragoman.model.attention import Attention
from dragoman.model.record import record
from dragoman.shapes import Bool, Float, Int, Tensor
from dragoman.tokenizer.interface import BEGIN


def align(
    model: Searchable,
    source: Int[Tensor, "B S"],
    is_real: Bool[Tensor, "B S"],
    answers: Answers,
) -> Answers:
    """Say for each target token where the decoder looked most.

    An ensemble has no one place, and a model that does not attend has none.
    """
    if not isinstance(model, nn.Module) or not _attends(model):
        return answers
    aligned: Answers = []
    for row, hypotheses in enumerate(answers):
        words = source[row : row + 1, : int(is_real[row].sum())]
        told = []
        for hypothesis in hypotheses:
            # What reads the last token says the end: for that there may be no place left.
            target = torch.tensor([[BEGIN, *hypothesis.tokens[:-1]]], device=source.device)
            # The source's end is no word.
            weights = _weights(model, words, target)[: len(hypothesis.tokens), :-1]
            places = weights.argmax(dim=1).tolist() if weights.shape[1] else []
            told.append(replace(hypothesis, alignment=tuple(places)))
        aligned.append(told)
    return aligned


def _attends(model: nn.Module) -> bool:
    return any(isinstance(each, Attention) for each in model.modules())


def _weights(
    model: nn.Module, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"]
) -> Float[Tensor, "T S"]:
    with record(model) as maps, torch.no_grad():
        model(source, torch.ones_like(source, dtype=torch.bool), target)
    *_, last = (each for each in maps if each.kind == "cross")
    return last.weights[0].mean(dim=0)
