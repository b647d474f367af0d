"""Can the criteria of the exact claims fail, and do the claims that know no chance end as they did?

Made-up numbers must give each verdict. What is certain is also measured, at its quick size; and the
tools that count are compared with what can be counted by hand.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dragoman.lab.claim.c03_distance import Distance
from dragoman.lab.claim.c04_parallel import Parallel
from dragoman.lab.claim.c05_order import Order
from dragoman.lab.claim.c06_extrapolation import _ASKED, _LONGEST, Extrapolation, _refuses
from dragoman.lab.claim.c08_causal_mask import CausalMask
from dragoman.lab.claim.c09_scale import Scale
from dragoman.lab.claim.c13_convolution import Convolution
from dragoman.lab.claim.c14_crossing import Crossing, _crossing, _flops, _pair
from dragoman.lab.claim.c21_clock import Clock
from dragoman.lab.claim.c22_places import Places
from dragoman.lab.experiment import Experiment
from dragoman.lab.graph import longest, shortest
from dragoman.lab.task import shifting
from dragoman.lab.teaching import build_reader

HOLDS, IN_PART, NOT = "holds", "holds in part", "does not hold here"

CERTAIN = [
    pytest.param(Distance, HOLDS, marks=pytest.mark.slow),
    pytest.param(Parallel, HOLDS, marks=pytest.mark.slow),
    (Order, HOLDS),
    pytest.param(CausalMask, HOLDS, marks=pytest.mark.slow),
    (Convolution, HOLDS),
    (Clock, IN_PART),  # Halves can be read; even and odd cannot, at any seed.
    (Places, HOLDS),
]


@pytest.mark.parametrize(("experiment", "verdict"), CERTAIN)
def test_what_is_certain_ends_so(experiment: type[Experiment], verdict: str) -> None:
    tried = experiment()
    assert tried.is_certain
    assert tried.judge(tried.measure("quick", 2)).verdict == verdict


@pytest.mark.parametrize(
    ("recurrence", "attention", "verdict"),
    [
        ([6, 10, 18], [9, 9, 9], HOLDS),
        ([6, 8, 12], [9, 9, 9], HOLDS),
        ([6, 10, 18], [9, 11, 13], IN_PART),
        ([6, 7, 8], [9, 9, 9], IN_PART),  # As through ever wider windows.
        ([6, 7, 8], [9, 9, 10], NOT),
    ],
)
def test_distance(recurrence: list[int], attention: list[int], verdict: str) -> None:
    felt = {"recurrence": [0.1, 0.9], "attention": [0.5, 0.5]}
    numbers = {
        "lengths": [2, 4, 8],
        "recurrence": recurrence,
        "attention": attention,
        "words": 2,
        "lesson_steps": 5,
        "before": felt,
        "after": felt,
        "right": {"recurrence": 0.5, "attention": 1.0},
    }
    assert Distance().judge(numbers).verdict == verdict


def test_the_shortest_way_is_the_shortest() -> None:
    x, y = torch.ones((), requires_grad=True), torch.ones((), requires_grad=True)
    together = x.sin().cos().tanh() + x.exp() + y
    # The two sums and exp; of y, one sum.
    assert shortest(together, x) == 3
    assert shortest(together, y) == 1


@pytest.mark.parametrize(
    ("spread", "dot", "scaled", "verdict"),
    [
        (32.0, 1e-6, 1.0, HOLDS),
        (32.0, 0.9, 1.0, IN_PART),  # They grow, and nothing dies of it.
        (32.0, 1e-6, 1e-6, IN_PART),  # √d mends nothing.
        (2.0, 1e-6, 1.0, NOT),
    ],
)
def test_scale(spread: float, dot: float, scaled: float, verdict: str) -> None:
    sizes = [4, 1024]

    def rows(spreads: list[float], gradient: float) -> list[dict[str, float]]:
        kept = [1.0, gradient]
        return [
            {"spread": a, "gradient": b, "largest": 0.5} for a, b in zip(spreads, kept, strict=True)
        ]

    numbers = {"sizes": sizes, "dot": rows([2.0, spread], dot)}
    numbers["scaled_dot"] = rows([1.0, 1.0], scaled)
    assert Scale().judge(numbers).verdict == verdict


@pytest.mark.parametrize(
    ("recurrent", "transformer", "verdict"),
    [
        ([30, 50, 90], [40, 40, 40], HOLDS),
        ([30, 50, 90], [40, 41, 42], IN_PART),
        ([30, 50, 60], [40, 40, 40], IN_PART),
        ([30, 30, 30], [40, 50, 60], NOT),
    ],
)
def test_parallel(recurrent: list[int], transformer: list[int], verdict: str) -> None:
    chains = {"recurrent": recurrent, "transformer": transformer, "convolutional": [9, 9, 9]}
    seconds = {name: [0.1, 0.2, 0.3] for name in chains}
    numbers = {"lengths": [1, 2, 4], "chains": chains, "seconds": seconds}
    assert Parallel().judge(numbers).verdict == verdict


def test_the_longest_chain_is_the_longest() -> None:
    x = torch.ones((), requires_grad=True)
    short = x.exp()
    long = x.sin().cos().tanh()
    assert longest(short + long) == 4  # The sum, tanh, cos and sin.


@pytest.mark.parametrize(
    ("blind", "told", "verdict"), [(1e-15, 0.1, HOLDS), (1e-15, 1e-6, IN_PART), (1e-3, 0.1, NOT)]
)
def test_order(blind: float, told: float, verdict: str) -> None:
    encoder = {"none": blind, "learned": 0.2, "sinusoidal": told}
    numbers = {"encoder": encoder, "words": blind, "decoder": [1e-15, 0.1]}
    assert Order().judge(numbers).verdict == verdict


@pytest.mark.parametrize(
    ("refuses", "known", "beyond", "verdict"),
    [
        (True, [1.0, 0.99, 1.0], [0.2, 0.25, 0.2], HOLDS),
        (True, [1.0, 0.99, 1.0], [0.2, 0.9, 0.2], NOT),  # Seeds that say everything say nothing.
        (True, [1.0, 0.99, 1.0], [0.6, 0.61, 0.62], IN_PART),
        (True, [0.5, 0.51, 0.5], [0.2, 0.2, 0.2], IN_PART),
        (True, [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], NOT),
        (False, [1.0, 0.99, 1.0], [0.2, 0.25, 0.2], NOT),
    ],
)
def test_extrapolation(
    refuses: bool, known: list[float], beyond: list[float], verdict: str
) -> None:
    far = _ASKED - _LONGEST
    asked = [[1.0] * _LONGEST + [share] * far for share in beyond]
    numbers = {
        "refuses": {"learned": [refuses] * 3},
        "known": {"sinusoidal": [[share] * _LONGEST for share in known]},
        "asked": {"sinusoidal": asked, "shaw": asked},
    }
    assert Extrapolation().judge(numbers).verdict == verdict


@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "shaw", "learned"])
def test_only_a_matrix_of_places_ends(position: str) -> None:
    task = shifting(4, _LONGEST, -1)
    for places, does in ((_LONGEST + 1, position == "learned"), (_LONGEST + 2, False)):
        part = {"name": "learned", "maximum": places} if position == "learned" else position
        model = build_reader(task, 1, position=part, encoder_layers=1)
        assert _refuses(model, task, 1) == does


@pytest.mark.parametrize(
    ("leaks", "encoder_feels", "error", "verdict"),
    [
        (False, True, 1e-15, HOLDS),
        (True, True, 1e-15, IN_PART),
        (False, True, 1e-2, IN_PART),
        (False, False, 1e-15, IN_PART),  # A change that nobody feels shows nothing.
        (True, True, 1e-2, NOT),
    ],
)
def test_causal_mask(leaks: bool, encoder_feels: bool, error: float, verdict: str) -> None:
    every = torch.ones(2, 4, 4, dtype=torch.bool)
    decoder = every.triu()
    decoder[1, 2, 0] = leaks
    numbers = {
        "decoder": decoder.tolist(),
        "encoder": (every if encoder_feels else every.triu()).tolist(),
        "loss_error": 1e-15,
        "gradient_error": error,
        "lengths": [4],
        "at_once": [0.1],
        "one_by_one": [0.4],
    }
    assert CausalMask().judge(numbers).verdict == verdict


@pytest.mark.parametrize(
    ("gelu", "beside", "verdict"),
    [(1e-15, 0.0, HOLDS), (1e-3, 0.0, IN_PART), (1e-15, 1e-12, NOT)],
)
def test_convolution(gelu: float, beside: float, verdict: str) -> None:
    numbers = {
        "outputs": {"relu": 0.0, "gelu": 0.0},
        "gradients": {"relu": 1e-16, "gelu": gelu},
        "felt": [[1.0, beside], [0.0, 1.0]],
    }
    assert Convolution().judge(numbers).verdict == verdict


def _timed(attention: list[float], recurrence: list[float]) -> dict[str, Any]:
    counts = {"attention_flops": attention, "recurrence_flops": recurrence}
    seconds = {"attention_seconds": attention, "recurrence_seconds": recurrence}
    return {"lengths": [1, 2, 4, 8], "widths": {"64": seconds | counts}}


@pytest.mark.parametrize(
    ("attention", "recurrence", "verdict"),
    [
        ([1, 4, 16, 64], [3, 6, 12, 24], HOLDS),
        ([1, 4, 16, 64], [100, 200, 400, 800], IN_PART),
        ([1, 2, 4, 8], [3, 6, 12, 24], NOT),
        ([1, 4, 16, 64], [1, 4, 16, 64], NOT),
    ],
)
def test_crossing(attention: list[float], recurrence: list[float], verdict: str) -> None:
    assert Crossing().judge(_timed(attention, recurrence)).verdict == verdict


def test_the_crossing_lies_where_the_lines_cross() -> None:
    lengths = [1, 2, 4, 8]
    squares, straight = [n * n for n in lengths], [3 * n for n in lengths]
    assert _crossing(lengths, squares, straight) == pytest.approx(3)
    assert _crossing(lengths, straight, squares) is None
    assert _crossing(lengths, squares, squares) is None


@pytest.mark.parametrize(("width", "length"), [(16, 8), (8, 16), (8, 17)])
def test_flops_are_those_of_the_equations(width: int, length: int) -> None:
    pair = _pair(width, length, "meta")
    attention = 8 * length * width**2 + 4 * length**2 * width
    assert _flops(pair["attention"]) == attention
    assert _flops(pair["recurrence"]) == 16 * length * width**2
    assert (attention == 16 * length * width**2) == (length == 2 * width)


@pytest.mark.parametrize(
    ("error", "parity", "halves", "verdict"),
    [
        (1e-13, 0.95, 1.0, HOLDS),
        (1e-13, 0.1, 1.0, IN_PART),
        (1e-13, 0.95, 0.5, IN_PART),
        (1e-13, 0.5, 0.5, NOT),
        (1e-2, 1.0, 1.0, NOT),
    ],
)
def test_clock(error: float, parity: float, halves: float, verdict: str) -> None:
    numbers = {
        "error": error,
        "periods": {"64": [6.3, 60.0]},
        "unseen": {"64": [parity, 0.5, halves], "512": [0.0, 0.5, 0.0]},
        "fitted": {"64": [0.6, 0.7, 1.0], "512": [0.6, 0.7, 1.0]},
    }
    assert Clock().judge(numbers).verdict == verdict


@pytest.mark.parametrize(
    ("blind", "rotary", "verdict"),
    [
        (0.0, [0.0, 0.1, 0.1], HOLDS),
        (0.0, [0.0, 0.0, 0.1], IN_PART),
        (1e-4, [0.0, 0.1, 0.1], NOT),
    ],
)
def test_places(blind: float, rotary: list[float], verdict: str) -> None:
    sinusoidal = [0.4, 0.3, 0.2]
    numbers = {
        "places": {"none": [0.0, 0.0, blind], "rotary": rotary, "sinusoidal": sinusoidal},
        "words": {"sinusoidal": [1.2, 1.1, 1.0]},
    }
    assert Places().judge(numbers).verdict == verdict


def test_positions_that_tell_nothing_do_not_tell_places_apart() -> None:
    numbers = {
        "places": {"none": [0.0, 0.0], "sinusoidal": [0.0, 0.0]},
        "words": {"sinusoidal": [1.0, 1.0]},
    }
    assert Places().judge(numbers).verdict == NOT
