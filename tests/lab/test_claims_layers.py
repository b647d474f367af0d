"""Criteria of the claims C28 to C30: stacked layers, the self-attention of the decoder, groups."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from dragoman.lab.claims.c28_attention_layers import pointer_task
from dragoman.lab.claims.c29_decoder_self_attention import (
    _share_complete,
    any_order_task,
    remove_self_attention,
)
from dragoman.lab.claims.c30_group_convolution import _build, _reads_input, _weight_change
from dragoman.lab.task import FIRST
from dragoman.lab.training import build
from dragoman.tokenizer.interface import BEGIN, END
from support.judgments import judged

SUPPORTED, PARTLY, NOT = "supported", "partly supported", "not supported"


# C28


def _c28(
    once: float = 1.0, twice: tuple[float, ...] = (0.1, 0.1), deep: float = 1.0
) -> dict[str, Any]:
    count = len(twice)
    correct = {"1": [[once] * count, list(twice)], "2": [[1.0] * count, [deep] * count]}
    return {"hops": [1, 2], "steps": 100, "correct": correct}


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c28(), SUPPORTED),
        (_c28(once=0.5), PARTLY),  # One layer cannot do one step either.
        (_c28(deep=0.8), PARTLY),  # Two layers do not learn it well.
        (_c28(twice=(0.6, 0.6)), PARTLY),  # One layer does not really fail.
        (_c28(twice=(0.0, 0.9)), NOT),  # The seeds differ too much.
        (_c28(twice=(1.0, 1.0)), NOT),
        (_c28(deep=0.05), NOT),
    ],
)
def test_c28_needs_failure_of_one_layer_and_success_of_two(
    numbers: dict[str, Any], verdict: str
) -> None:
    assert judged("C28", numbers) == verdict


def test_c28_the_target_follows_the_numbers() -> None:
    source, target = pointer_task(2).draw(random.Random(1), 8)
    assert target == [source[source[number]] for number in source]


# C29


def _c29(with_it: tuple[float, ...], without: tuple[float, ...]) -> dict[str, Any]:
    def rows(shares: tuple[float, ...]) -> list[dict[str, float]]:
        return [{"complete": share, "loss": 1.0} for share in shares]

    return {"minimum": 0.9, "with": rows(with_it), "without": rows(without)}


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c29((0.9, 0.92, 0.91), (0.03, 0.04, 0.05)), SUPPORTED),
        (_c29((0.9, 0.92, 0.91), (0.6, 0.6, 0.6)), PARTLY),  # Without it many are complete too.
        (_c29((0.5, 0.5, 0.5), (0.03, 0.04, 0.05)), PARTLY),
        (_c29((0.9, 0.9, 0.9), (0.9, 0.9, 0.9)), NOT),
        (_c29((1.0, 0.1, 1.0), (0.0, 0.9, 0.0)), NOT),  # The seeds differ too much.
    ],
)
def test_c29_needs_a_clear_difference(numbers: dict[str, Any], verdict: str) -> None:
    assert judged("C29", numbers) == verdict


def test_c29_without_self_attention_only_the_last_token_counts() -> None:
    task = any_order_task()
    model = build(task, 1).eval()
    examples = task.examples(2, random.Random(1))
    other = examples.target.clone()
    other[:, 1] = FIRST + (other[:, 1] - FIRST + 1) % task.symbols  # An earlier token.

    def change() -> float:
        with torch.no_grad():
            first, second = (
                model(examples.source, examples.is_real, target)[:, -1]
                for target in (examples.target, other)
            )
        return (first - second).abs().max().item()

    assert change() > 0
    remove_self_attention(model)
    assert change() == 0


def test_c29_counts_outputs_with_every_symbol_once() -> None:
    """A model that always repeats the last symbol, and one that says the source in order."""

    class Fixed(torch.nn.Module):
        def __init__(self, *, is_copying: bool) -> None:
            super().__init__()
            self.is_copying = is_copying

        def forward(
            self, source: torch.Tensor, is_real: torch.Tensor, target: torch.Tensor
        ) -> torch.Tensor:
            step = target.shape[1] - 1
            chosen = source[:, step] if self.is_copying else source[:, 0]
            logits = torch.full((*target.shape, FIRST + 12), -1e9)
            logits[:, -1] = torch.nn.functional.one_hot(chosen, FIRST + 12) * 2e9 - 1e9
            return logits

    task = any_order_task()
    assert _share_complete(Fixed(is_copying=True), task, 1) == 1
    assert _share_complete(Fixed(is_copying=False), task, 1) == 0
    source, target = task.draw(random.Random(1), 6)
    assert sorted(source) == sorted(target)
    assert len(set(source)) == 6
    assert BEGIN != END


# C30


def _c30(error: float = 0.0, values: float = 0.0, narrow: float = 0.0, change: float = 0.5) -> Any:
    def reads(other: float) -> list[list[float]]:
        return [[1.0, other], [other, 1.0]]

    kinds = {"narrow": narrow, "standard": 0.7 if change else 0.0}
    return {"error": error} | {
        kind: {"values": reads(values), "input": reads(other), "change": change}
        for kind, other in kinds.items()
    }


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c30(change=0.0), SUPPORTED),  # If the weights were fixed and all parts separate.
        (_c30(), PARTLY),
        (_c30(narrow=0.1), PARTLY),
        (_c30(error=0.1), NOT),
        (_c30(values=0.1), NOT),
    ],
)
def test_c30_needs_equal_sums_and_separate_parts(numbers: dict[str, Any], verdict: str) -> None:
    assert judged("C30", numbers) == verdict


def test_c30_only_standard_heads_read_the_whole_input() -> None:
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    for kind, is_separate in (("narrow", True), ("standard", False)):
        attention = _build(kind, 16, 1)
        others = [
            value
            for row, line in enumerate(_reads_input(attention, x))
            for column, value in enumerate(line)
            if row != column
        ]
        assert (max(others) == 0) == is_separate
    assert _weight_change(attention, x[:1].repeat(2, 1, 1)) == 0
