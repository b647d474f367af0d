"""Criteria of the exact claims, the seed-independent verdicts, and the counting tools.

Made-up numbers must give each verdict. Seed-independent claims are also measured at their quick
size, and the tools that count are compared with counts by hand.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dragoman.lab.claims.c03_path_length import PathLength
from dragoman.lab.claims.c04_parallel import Parallel
from dragoman.lab.claims.c05_word_order import WordOrder
from dragoman.lab.claims.c06_extrapolation import (
    _LONGEST,
    _TEST_LENGTH,
    Extrapolation,
    _rejects_longer,
)
from dragoman.lab.claims.c08_causal_mask import CausalMask
from dragoman.lab.claims.c13_feed_forward_convolution import FeedForwardConvolution
from dragoman.lab.claims.c14_attention_cost import AttentionCost, _crossing, _flops, _layers
from dragoman.lab.claims.c21_sinusoid_clock import SinusoidClock, _fit_linear, _fit_network
from dragoman.lab.claims.c22_positions import Positions
from dragoman.lab.experiment import Experiment
from dragoman.lab.graph import longest_path, shortest_path
from dragoman.lab.task import shift_task
from dragoman.lab.training import build_encoder_only
from support.judgments import judged

SUPPORTED, PARTLY, NOT = "supported", "partly supported", "not supported"

SEED_INDEPENDENT = [
    pytest.param(PathLength, SUPPORTED, marks=pytest.mark.slow),
    pytest.param(Parallel, SUPPORTED, marks=pytest.mark.slow),
    (WordOrder, SUPPORTED),
    pytest.param(CausalMask, SUPPORTED, marks=pytest.mark.slow),
    (FeedForwardConvolution, SUPPORTED),
    # Halves can be read; even and odd cannot, at any seed.
    pytest.param(SinusoidClock, PARTLY, marks=pytest.mark.slow),
    (Positions, SUPPORTED),
]


@pytest.mark.parametrize(("experiment_class", "verdict"), SEED_INDEPENDENT)
def test_a_seed_independent_claim_has_its_verdict(
    experiment_class: type[Experiment], verdict: str
) -> None:
    experiment = experiment_class()
    assert experiment.is_seed_independent
    assert experiment.judge(experiment.measure("quick", 2)).verdict == verdict


@pytest.mark.parametrize(
    ("recurrence", "attention", "verdict"),
    [
        ([6, 10, 18], [9, 9, 9], SUPPORTED),
        ([6, 8, 12], [9, 9, 9], SUPPORTED),
        ([6, 10, 18], [9, 11, 13], PARTLY),
        ([6, 7, 8], [9, 9, 9], PARTLY),  # As with ever wider windows.
        ([6, 7, 8], [9, 9, 10], NOT),
    ],
)
def test_path_length(recurrence: list[int], attention: list[int], verdict: str) -> None:
    shares = {"recurrence": [0.1, 0.9], "attention": [0.5, 0.5]}
    numbers = {
        "lengths": [2, 4, 8],
        "recurrence": recurrence,
        "attention": attention,
        "words": 2,
        "training_steps": 5,
        "before": shares,
        "after": shares,
        "accuracy": {"recurrence": 0.5, "attention": 1.0},
    }
    assert judged(PathLength(), numbers) == verdict


def test_the_shortest_path_is_counted() -> None:
    x, y = torch.ones((), requires_grad=True), torch.ones((), requires_grad=True)
    total = x.sin().cos().tanh() + x.exp() + y
    # For x: two sums and exp. For y: one sum.
    assert shortest_path(total, x) == 3
    assert shortest_path(total, y) == 1


@pytest.mark.parametrize(
    ("recurrent", "transformer", "verdict"),
    [
        ([30, 50, 90], [40, 40, 40], SUPPORTED),
        ([30, 50, 90], [40, 41, 42], PARTLY),
        ([30, 50, 60], [40, 40, 40], PARTLY),
        ([30, 30, 30], [40, 50, 60], NOT),
    ],
)
def test_parallel(recurrent: list[int], transformer: list[int], verdict: str) -> None:
    chains = {"recurrent": recurrent, "transformer": transformer, "convolutional": [9, 9, 9]}
    seconds = {name: [0.1, 0.2, 0.3] for name in chains}
    numbers = {"lengths": [1, 2, 4], "chains": chains, "seconds": seconds}
    assert judged(Parallel(), numbers) == verdict


def test_the_longest_path_is_counted() -> None:
    x = torch.ones((), requires_grad=True)
    short = x.exp()
    long = x.sin().cos().tanh()
    assert longest_path(short + long) == 4  # The sum, tanh, cos and sin.


@pytest.mark.parametrize(
    ("without", "sinusoidal", "verdict"),
    [(1e-15, 0.1, SUPPORTED), (1e-15, 1e-6, PARTLY), (1e-3, 0.1, NOT)],
)
def test_word_order(without: float, sinusoidal: float, verdict: str) -> None:
    encoder = {"none": without, "learned": 0.2, "sinusoidal": sinusoidal}
    numbers = {"encoder": encoder, "words": without, "decoder": [1e-15, 0.1]}
    assert judged(WordOrder(), numbers) == verdict


@pytest.mark.parametrize(
    ("rejects", "trained", "longer", "verdict"),
    [
        (True, [1.0, 0.99, 1.0], [0.2, 0.25, 0.2], SUPPORTED),
        (True, [1.0, 0.99, 1.0], [0.2, 0.9, 0.2], NOT),  # The seeds disagree.
        (True, [1.0, 0.99, 1.0], [0.6, 0.61, 0.62], PARTLY),
        (True, [0.5, 0.51, 0.5], [0.2, 0.2, 0.2], PARTLY),
        (True, [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], NOT),
        (False, [1.0, 0.99, 1.0], [0.2, 0.25, 0.2], NOT),
    ],
)
def test_extrapolation(
    rejects: bool, trained: list[float], longer: list[float], verdict: str
) -> None:
    further = _TEST_LENGTH - _LONGEST
    rows = [[1.0] * _LONGEST + [share] * further for share in longer]
    numbers = {
        "rejects": {"learned": [rejects] * 3},
        "trained": {"sinusoidal": [[share] * _LONGEST for share in trained]},
        "longer": {"sinusoidal": rows, "shaw": rows},
    }
    assert judged(Extrapolation(), numbers) == verdict


@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "shaw", "learned"])
def test_only_learned_positions_reject_longer_sentences(position: str) -> None:
    task = shift_task(4, _LONGEST, -1)
    for maximum, rejects in ((_LONGEST + 1, position == "learned"), (_LONGEST + 2, False)):
        part = {"name": "learned", "maximum": maximum} if position == "learned" else position
        model = build_encoder_only(task, 1, position=part, encoder_layers=1)
        assert _rejects_longer(model, task, 1) == rejects


@pytest.mark.parametrize(
    ("leaks", "encoder_changes", "error", "verdict"),
    [
        (False, True, 1e-15, SUPPORTED),
        (True, True, 1e-15, PARTLY),
        (False, True, 1e-2, PARTLY),
        (False, False, 1e-15, PARTLY),  # A change without effect proves nothing.
        (True, True, 1e-2, NOT),
    ],
)
def test_causal_mask(leaks: bool, encoder_changes: bool, error: float, verdict: str) -> None:
    all_states = torch.ones(2, 4, 4, dtype=torch.bool)
    decoder = all_states.triu()
    decoder[1, 2, 0] = leaks
    numbers = {
        "decoder": decoder.tolist(),
        "encoder": (all_states if encoder_changes else all_states.triu()).tolist(),
        "loss_error": 1e-15,
        "gradient_error": error,
        "lengths": [4],
        "at_once": [0.1],
        "one_by_one": [0.4],
    }
    assert judged(CausalMask(), numbers) == verdict


@pytest.mark.parametrize(
    ("gelu", "on_neighbor", "verdict"),
    [(1e-15, 0.0, SUPPORTED), (1e-3, 0.0, PARTLY), (1e-15, 1e-12, NOT)],
)
def test_feed_forward_convolution(gelu: float, on_neighbor: float, verdict: str) -> None:
    numbers = {
        "outputs": {"relu": 0.0, "gelu": 0.0},
        "gradients": {"relu": 1e-16, "gelu": gelu},
        "dependence": [[1.0, on_neighbor], [0.0, 1.0]],
    }
    assert judged(FeedForwardConvolution(), numbers) == verdict


def _costs(attention: list[float], recurrence: list[float]) -> dict[str, Any]:
    counts = {"attention_flops": attention, "recurrence_flops": recurrence}
    seconds = {"attention_seconds": attention, "recurrence_seconds": recurrence}
    return {"lengths": [1, 2, 4, 8], "widths": {"64": seconds | counts}}


@pytest.mark.parametrize(
    ("attention", "recurrence", "verdict"),
    [
        ([1, 4, 16, 64], [3, 6, 12, 24], SUPPORTED),
        ([1, 4, 16, 64], [100, 200, 400, 800], PARTLY),
        ([1, 2, 4, 8], [3, 6, 12, 24], NOT),
        ([1, 4, 16, 64], [1, 4, 16, 64], NOT),
    ],
)
def test_attention_cost(attention: list[float], recurrence: list[float], verdict: str) -> None:
    assert judged(AttentionCost(), _costs(attention, recurrence)) == verdict


def test_the_crossing_is_interpolated() -> None:
    lengths = [1, 2, 4, 8]
    quadratic, linear = [n * n for n in lengths], [3 * n for n in lengths]
    assert _crossing(lengths, quadratic, linear) == pytest.approx(3)
    assert _crossing(lengths, linear, quadratic) is None
    assert _crossing(lengths, quadratic, quadratic) is None


@pytest.mark.parametrize(("width", "length"), [(16, 8), (8, 16), (8, 17)])
def test_flops_match_the_equations(width: int, length: int) -> None:
    layers = _layers(width, length, "meta")
    attention = 8 * length * width**2 + 4 * length**2 * width
    assert _flops(layers["attention"]) == attention
    assert _flops(layers["recurrence"]) == 16 * length * width**2
    assert (attention == 16 * length * width**2) == (length == 2 * width)


@pytest.mark.parametrize(
    ("error", "parity", "half", "verdict"),
    [
        (1e-13, 0.95, 1.0, SUPPORTED),
        (1e-13, 0.1, 1.0, PARTLY),
        (1e-13, 0.95, 0.5, PARTLY),
        (1e-13, 0.5, 0.5, NOT),
        (1e-2, 1.0, 1.0, NOT),
    ],
)
def test_sinusoid_clock(error: float, parity: float, half: float, verdict: str) -> None:
    low = {"held_out": [0.1, 0.5, 0.1], "fitted": [0.6, 0.7, 1.0]}
    read = low | {"held_out": [parity, 0.5, half]}
    numbers = {"error": error, "periods": {"64": [6.3, 60.0]}}
    # It does not matter which readout at which width reads a digit.
    for linear, network in ((read, low), (low, read)):
        readouts = {"linear": {"64": linear, "512": low}, "network": {"64": low, "512": network}}
        assert judged(SinusoidClock(), numbers | readouts) == verdict


def test_a_small_network_reads_what_a_linear_readout_cannot() -> None:
    """Exclusive or of two signs: a check that the network is not linear, and that it learns."""
    positions = torch.arange(128)
    vectors = torch.stack([1 - 2.0 * (positions // 64 % 2), 1 - 2.0 * (positions // 32 % 2)], 1)
    vectors = torch.cat([vectors, vectors.prod(1, keepdim=True)], 1).double()
    # The digit of block size 32 is the second sign; block size 64 the first.
    for fit in (_fit_linear, _fit_network):
        assert fit(vectors, 32, 2, torch.Generator().manual_seed(1)) == (1.0, 1.0)
    gray = vectors[:, [0, 2]]  # The second sign is now the product of the two features.
    _, linear = _fit_linear(gray, 32, 20, torch.Generator().manual_seed(1))
    _, network = _fit_network(gray, 32, 2, torch.Generator().manual_seed(1))
    assert linear < 0.9
    assert network == 1.0


@pytest.mark.parametrize(
    ("without", "rotary", "verdict"),
    [
        (0.0, [0.0, 0.1, 0.1], SUPPORTED),
        (0.0, [0.0, 0.0, 0.1], PARTLY),
        (1e-4, [0.0, 0.1, 0.1], NOT),
    ],
)
def test_positions(without: float, rotary: list[float], verdict: str) -> None:
    sinusoidal = [0.4, 0.3, 0.2]
    numbers = {
        "positions": {"none": [0.0, 0.0, without], "rotary": rotary, "sinusoidal": sinusoidal},
        "words": {"sinusoidal": [1.2, 1.1, 1.0]},
    }
    assert judged(Positions(), numbers) == verdict


def test_positions_without_effect_do_not_support_the_claim() -> None:
    numbers = {
        "positions": {"none": [0.0, 0.0], "sinusoidal": [0.0, 0.0]},
        "words": {"sinusoidal": [1.0, 1.0]},
    }
    assert judged(Positions(), numbers) == NOT
