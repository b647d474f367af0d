"""Criteria of the claims about the parts of a Transformer layer, and the exact facts behind them.

Made-up numbers must give every verdict of an experiment: each criterion can fail.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import nn

from dragoman.lab.claims.c07_nonlinearity import (
    FrozenWeights,
    freeze_attention,
    superposition_error,
)
from dragoman.lab.claims.c09_scaled_dot_product import _KEYS, DividedDot
from dragoman.lab.claims.c11_residual import measure_stack
from dragoman.lab.claims.c12_layer_norm import _best, output_changes
from dragoman.lab.claims.c27_vanishing_gradient import _NETWORKS, _gradients, _task
from dragoman.lab.experiment import load_experiment
from dragoman.lab.task import pair_rule_task
from dragoman.lab.training import build_encoder_only, remove_norms
from dragoman.model.initialization import initialize
from dragoman.model.record import record
from dragoman.tokenizer.interface import END, PADDING
from support.judgments import judged

SUPPORTED, PARTLY, NOT = "supported", "partly supported", "not supported"
GOOD, BAD = (0.99, 1.0, 0.98), (0.01, 0.0, 0.02)


def _trials(*shares: float, reached: tuple[int | None, ...] = (100,)) -> list[dict[str, Any]]:
    """One trial per seed, with these shares of correct examples."""
    steps = reached * (len(shares) // len(reached))
    return [
        {"accuracy": share, "reached": step, "curve": [1.0] * 25}
        for share, step in zip(shares, steps, strict=True)
    ]


# C7


def _c7(
    error: float, without: tuple[int | None, ...], deep: tuple[int | None, ...] = (320, 330, 340)
) -> dict[str, Any]:
    shallow, larger = (
        _trials(*GOOD, reached=(200, 210, 220)),
        _trials(*GOOD, reached=deep),
    )
    for trials, parameters in ((shallow, 9_000), (larger, 18_000)):
        for trial in trials:
            trial["parameters"] = parameters
    return {
        "superposition": {"weights frozen": error, "weights computed": 1.0},
        "depths": [1, 4],
        "steps": 400,
        "with": [shallow] * 2,
        "without": [_trials(*GOOD, reached=without), larger],
        "frozen": [_trials(*BAD, reached=(None,))] * 2,
    }


SLOWER, SAME, MIXED = (320, 330, 340), (200, 212, 218), (100, 400, 250)


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c7(1e-16, SLOWER), SUPPORTED),
        (_c7(1e-16, (None, None, None)), SUPPORTED),
        (_c7(1e-16, SAME), PARTLY),
        (_c7(1e-16, SAME, SAME), PARTLY),
        (_c7(1e-16, MIXED), PARTLY),  # Seeds disagree: not significant.
        (_c7(1e-3, SLOWER), PARTLY),
        (_c7(1e-3, SAME), PARTLY),  # Slower at one depth.
        (_c7(1e-3, SAME, MIXED), NOT),
    ],
)
def test_c7_needs_linearity_and_more_steps(numbers: dict[str, Any], verdict: str) -> None:
    assert judged("C7", numbers) == verdict


def test_c7_says_whether_the_task_is_learned_without_feed_forward() -> None:
    experiment = load_experiment("C7")
    assert "but it succeeds" in experiment.judge(_c7(1e-16, SLOWER)).summary
    never = experiment.judge(_c7(1e-16, (None, None, None)))
    assert "if it succeeds at all" in never.summary
    assert "400 to 400 without" in never.explanation


def test_c7_excludes_the_number_of_parameters_as_the_reason_only_where_the_numbers_do() -> None:
    experiment, reason = load_experiment("C7"), "The number of parameters is not the reason"
    slower = experiment.judge(_c7(1e-16, SLOWER)).explanation
    assert f"{reason}: 4 layers without it have 18,000 and need 320 to 340 steps" in slower
    assert reason not in experiment.judge(_c7(1e-16, SLOWER, SAME)).explanation


def test_c7_a_stack_with_frozen_weights_is_linear_and_with_feed_forward_it_is_not() -> None:
    task = pair_rule_task(4, 6, (-1, 0))
    x, y = torch.randn(2, 3, 6, 16, dtype=torch.float64)
    is_real = torch.ones(3, 6, dtype=torch.bool)
    errors = {}
    for feed_forward in ("none", "relu"):
        small = {"width": 16, "heads": 2, "encoder_layers": 3, "feed_forward_width": 32}
        model = build_encoder_only(
            task, 1, **small, position="none", feed_forward=feed_forward
        ).double()
        remove_norms(model)
        assert not any(isinstance(module, nn.LayerNorm) for module in model.modules())
        with torch.no_grad():
            with record(model) as maps:
                before = model.encoder(x, is_real).layer_outputs[-1]
            freeze_attention(model, [attention.weights for attention in maps])
            # The frozen weights are those of x, so nothing changes for x.
            torch.testing.assert_close(model.encoder(x, is_real).layer_outputs[-1], before)
            errors[feed_forward] = superposition_error(model, x, y)
    assert errors["none"] < 1e-12  # Rounding of float64 through three layers.
    assert errors["relu"] > 1e-2


def test_c7_frozen_weights_ignore_scores() -> None:
    weights = torch.eye(3).view(1, 1, 3, 3)
    scores = torch.randn(2, 1, 3, 3)
    mask = torch.ones(1, 1, 1, 3, dtype=torch.bool)
    assert torch.equal(FrozenWeights(weights)(scores, mask), weights.expand(2, 1, 3, 3))


# C9


def _c9(
    spread: float = 32.0,
    dot: float = 1e-6,
    scaled: float = 1.0,
    divided: float = 1 / _KEYS,
    reached: tuple[int | None, int | None] = (100, None),
) -> dict[str, Any]:
    def rows(spreads: list[float], gradient: float, largest: float) -> list[dict[str, float]]:
        return [
            {"spread": a, "gradient": b, "largest": largest}
            for a, b in zip(spreads, [1.0, gradient], strict=True)
        ]

    steps = {"dot": 200, "scaled_dot": reached[0], "divided_dot": reached[1]}
    return {
        "sizes": [4, 1024],
        "dot": rows([2.0, spread], dot, 0.9),
        "scaled_dot": rows([1.0, 1.0], scaled, 0.2),
        "divided_dot": rows([0.5, 0.03], 0.9, divided),
        "steps": 400,
        "rates": [1e-3, 4e-3],
        "widths": [64, 128],
        # At the other learning rate nothing is learned: the better one counts. So does the larger
        # width; at the smaller one all learn equally fast.
        "trials": {
            name: [
                [_trials(*GOOD, reached=(50,))] * 2,
                [_trials(*BAD, reached=(None,)), _trials(*GOOD, reached=(step,))],
            ]
            for name, step in steps.items()
        },
    }


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c9(), SUPPORTED),
        (_c9(reached=(100, 300)), PARTLY),  # Divided by d, it learns, only later.
        (_c9(reached=(100, 90)), PARTLY),
        (_c9(reached=(None, None)), PARTLY),  # Divided by √d, it does not learn either.
        (_c9(divided=0.2), PARTLY),  # The weights are not uniform.
        (_c9(dot=0.9), PARTLY),  # Scores grow, but gradients stay.
        (_c9(scaled=1e-6), PARTLY),  # √d does not help.
        (_c9(spread=2.0), NOT),
    ],
)
def test_c9_needs_growth_a_remedy_and_too_much_of_it(numbers: dict[str, Any], verdict: str) -> None:
    assert judged("C9", numbers) == verdict


def test_c9_says_what_division_by_d_does() -> None:
    experiment = load_experiment("C9")
    assert "the model does not learn" in experiment.judge(_c9()).summary
    assert "still learns, only later" in experiment.judge(_c9(reached=(100, 300))).summary
    assert "and not clearly later" in experiment.judge(_c9(reached=(100, 90))).summary
    assert "not every model learns" in experiment.judge(_c9(reached=(None, None))).summary


def test_c9_the_similarity_divides_by_d() -> None:
    queries, keys = torch.randn(1, 1, 2, 8), torch.randn(1, 1, 3, 8)
    expected = queries @ keys.transpose(-1, -2) / 8
    similarity = DividedDot(8)
    torch.testing.assert_close(similarity(queries, keys), expected)
    product = similarity.as_dot_product(queries, keys)
    fused = product.scale * product.queries @ product.keys.transpose(-1, -2)
    torch.testing.assert_close(fused, expected)


# C10


def _c10(
    positions: tuple[Any, Any], kinds: tuple[Any, Any], reached: tuple[int, int] = (100, 100)
) -> dict[str, Any]:
    tasks = {"positions": positions, "kinds": kinds}
    trials = {
        name: {
            str(heads): _trials(*shares, reached=(steps,))
            for heads, shares, steps in zip((1, 2), both, reached, strict=True)
        }
        for name, both in tasks.items()
    }
    return {"heads": [1, 2], "steps": {"positions": 450, "kinds": 250}, **trials}


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c10((BAD, GOOD), (BAD, GOOD)), SUPPORTED),
        (_c10((BAD, GOOD), (GOOD, GOOD)), PARTLY),
        (_c10((GOOD, GOOD), (GOOD, GOOD)), NOT),
        (_c10((GOOD, GOOD), (GOOD, GOOD), reached=(200, 100)), PARTLY),
        (_c10((GOOD, GOOD), (GOOD, GOOD), reached=(100, 200)), NOT),
        (_c10((GOOD, BAD), (GOOD, BAD)), NOT),
        # A mean gain on which the seeds disagree is not significant.
        (_c10(((0.0, 0.9, 0.5), (1.0, 0.4, 0.9)), (GOOD, GOOD)), NOT),
    ],
)
def test_c10_needs_a_significant_gain_in_accuracy_or_steps(
    numbers: dict[str, Any], verdict: str
) -> None:
    assert judged("C10", numbers) == verdict


def test_c10_says_where_four_heads_gain_and_two_may_not() -> None:
    numbers = _c10((BAD, GOOD), (BAD, (0.0, 0.9, 0.5)))
    experiment = load_experiment("C10")
    assert "four heads" not in experiment.judge(numbers).summary
    for name in ("positions", "kinds"):
        numbers[name]["4"] = _trials(*GOOD)
    assert judged("C10", numbers) == PARTLY
    assert "four heads are better in both" in experiment.judge(numbers).summary
    numbers["kinds"]["4"] = _trials(*BAD)
    assert "four heads" not in experiment.judge(numbers).summary


# C11


def _c11(
    gradients: dict[str, float] | None = None, learned: tuple[str, ...] = ("post", "pre")
) -> dict[str, Any]:
    """At the greatest depth: the gradients of some stacks (1 for the others), and which learn."""
    names = {
        "residual": "residual",
        "residual_post": "post",
        "residual_pre": "pre",
        "plain": "plain",
        "plain_norm": "plain_norm",
    }
    last = {kind: (gradients or {}).get(name, 1.0) for kind, name in names.items()}
    gradient = {kind: [1.0, 1.0, value] for kind, value in last.items()}
    trials = {
        kind: [
            # With one layer, all learn; at the other learning rate, none.
            [_trials(*BAD), _trials(*GOOD)],
            [_trials(*BAD), _trials(*(GOOD if name in learned else BAD))],
        ]
        for kind, name in names.items()
    }
    measured = {"depths": [1, 2, 4], "gradient": gradient, "differences": gradient}
    return measured | {"trained_depths": [1, 12], "steps": 250, "trials": trials}


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c11({"plain": 1e-5, "plain_norm": 1e-4}), SUPPORTED),
        (_c11({"plain": 1e5, "plain_norm": 1e4}), SUPPORTED),
        (_c11({"plain": 1e-5, "plain_norm": 1e-4}, ("post", "plain")), PARTLY),
        (_c11(), PARTLY),  # Learning needs residuals, the size of the gradient does not.
        (_c11({"plain": 1e-5}, ("post", "plain")), PARTLY),  # Half of the gradient's criterion.
        (_c11({"plain": 1e-5, "residual": 1e5}, ("post", "plain_norm")), NOT),
        (_c11({"post": 1e-5, "plain_norm": 1e-5}, ()), NOT),
        (_c11({}, ("post", "plain", "plain_norm")), NOT),
        (_c11({}, ()), NOT),  # At the greater depth nothing learns.
    ],
)
def test_c11_needs_residuals_to_decide_gradient_and_learning(
    numbers: dict[str, Any], verdict: str
) -> None:
    assert judged("C11", numbers) == verdict


def test_c11_a_gradient_passes_a_stack_without_sublayers_unchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With sublayers that output zero, x + f(x) is x: the gradient stays bit-identical."""

    def initialize_with_zeros(model: nn.Module, seed: int) -> None:
        initialize(model, seed)
        for weights in model.parameters():
            nn.init.zeros_(weights)

    monkeypatch.setattr("dragoman.lab.claims.c11_residual.initialize", initialize_with_zeros)
    assert measure_stack("residual", 5, 1)[0] == 1.0
    assert measure_stack("plain", 5, 1)[0] == 0.0


# C12


def _c12(layer: float, post: int | None, none: int | None, pre: int | None = 90) -> dict[str, Any]:
    return {
        "exchange": {
            "layer": {"batch": layer, "neighbors": layer},
            "batch_norm": {"batch": 0.3, "neighbors": 0.2},
        },
        "rates": {"post": 1e-3, "pre": 4e-3, "none": 1e-3},
        "steps": 500,
        "trials": {
            name: _trials(*GOOD, reached=(steps,))
            for name, steps in (("post", post), ("pre", pre), ("none", none))
        },
    }


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c12(0.0, 100, 200), SUPPORTED),
        (_c12(0.0, 100, None), SUPPORTED),
        (_c12(0.0, 200, 100), PARTLY),
        (_c12(0.0, None, None), PARTLY),
        (_c12(1e-7, 100, 200), PARTLY),
        (_c12(1e-7, 200, 100), PARTLY),  # Pre-norm is faster.
        (_c12(1e-7, 200, 100, pre=150), NOT),
    ],
)
def test_c12_needs_independence_and_fewer_steps(numbers: dict[str, Any], verdict: str) -> None:
    assert judged("C12", numbers) == verdict


def test_c12_says_for_how_many_seeds_pre_norm_is_faster() -> None:
    numbers = _c12(0.0, 100, 200)
    numbers["trials"]["pre"][0]["reached"] = 150
    explanation = load_experiment("C12").judge(numbers).explanation
    assert "faster than the lectures' norm for 2 of 3 seeds" in explanation
    assert "faster than no norm for 3 of 3" in explanation


def test_c12_the_best_learning_rate_learns_first_or_has_the_lowest_loss() -> None:
    slow, fast, never = ({"reached": step, "curve": [0.5]} for step in (300, 100, None))
    assert _best([never, slow, fast], 500) == 2
    assert _best([never, never | {"curve": [0.2]}], 500) == 1


@pytest.mark.parametrize("seed", range(3))
def test_c12_layer_norm_does_not_depend_on_other_tokens(seed: int) -> None:
    changes = output_changes(seed)
    assert changes["layer"] == {"batch": 0.0, "neighbors": 0.0}
    assert min(changes["batch_norm"].values()) > 1e-3


# C27


def _c27(
    gradients: tuple[float, ...] = (1e-9, 1e-8, 1e-5, 0.8),
    far: tuple[Any, ...] = (BAD, BAD, BAD, GOOD),
    near: tuple[Any, ...] = (GOOD, GOOD, GOOD, GOOD),
) -> dict[str, Any]:
    """The remaining gradient, and the accuracy, of the plain cell, GRU, LSTM and attention."""
    return {
        "gradients": {
            name: [[1.5, 1.0, one], [1.5, 1.0, 0.9 * one]]
            for name, one in zip(_NETWORKS, gradients, strict=True)
        },
        "distances": [5, 40],
        "steps": 300,
        "rates": [2e-3, 1e-2],
        # At the other learning rate nothing is learned: the better one counts.
        "trials": {
            name: [[_trials(*BAD), _trials(*one)], [_trials(*BAD), _trials(*other)]]
            for name, one, other in zip(_NETWORKS, near, far, strict=True)
        },
    }


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (_c27(), SUPPORTED),
        (_c27(gradients=(1e-9, 1e-8, 0.05, 0.8)), PARTLY),  # The LSTM keeps its gradient.
        (_c27(far=(BAD, BAD, GOOD, GOOD)), PARTLY),  # The LSTM learns.
        # Both are true of the plain cell only.
        (_c27(gradients=(1e-9, 0.5, 0.5, 0.8), far=(BAD, GOOD, GOOD, GOOD)), PARTLY),
        (_c27(gradients=(0.5, 1e-8, 1e-5, 0.8), far=(GOOD, BAD, BAD, GOOD)), NOT),
        (_c27(gradients=(1e-9,) * 4, far=(BAD,) * 4), NOT),  # Attention is no better.
        # A network that cannot remember a near symbol does not fail because of distance.
        (_c27(gradients=(0.5, 1e-8, 1e-5, 0.8), near=(BAD, GOOD, GOOD, GOOD)), NOT),
        (_c27(gradients=(1.0,) * 4, far=(GOOD,) * 4), NOT),
    ],
)
def test_c27_needs_vanishing_gradients_and_failed_learning(
    numbers: dict[str, Any], verdict: str
) -> None:
    assert judged("C27", numbers) == verdict


def test_c27_the_gradient_of_a_plain_cell_is_the_product_of_its_steps() -> None:
    """The ratio falls with each word, and attention has no such order."""
    tanh, attention = _gradients("tanh", 1), _gradients("attention", 1)
    assert tanh[1] == attention[1] == 1.0
    assert all(later < earlier for earlier, later in zip(tanh[::8], tanh[8::8], strict=False))
    assert min(attention) > 0.05


def test_c27_only_the_first_symbol_is_expected_at_the_end() -> None:
    examples = _task(6).examples(20, random.Random(1))
    assert examples.source.shape == (20, 7)
    assert (examples.source[:, -1] == END).all()
    assert (examples.truth[:, :-1] == PADDING).all()
    assert torch.equal(examples.truth[:, -1], examples.source[:, 0])
