"""Is an update the one that was published?"""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from dragoman.recipe import TrainingRecipe
from dragoman.training.muon import orthogonal
from dragoman.training.optimizer import (
    FIRST,
    SECOND,
    build_optimizers,
    learning_rate,
    moments,
    set_learning_rate,
    set_updates,
    shorten,
)

# Some roundings of float32 in each of a few steps.
CLOSE = {"rtol": 1e-5, "atol": 1e-7}


@pytest.mark.parametrize(("width", "warmup"), [(512, 4000), (1024, 4000), (256, 100)])
def test_the_rate_is_the_papers(width, warmup):
    settings = TrainingRecipe(learning_rate=(width * warmup) ** -0.5, warmup=warmup)
    for step in (1, 2, warmup - 1, warmup, warmup + 1, 10 * warmup, 100_000):
        paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        # The same product of float64 numbers, in another order.
        assert learning_rate(settings, step) == pytest.approx(paper, rel=1e-12)


def test_the_rate_rises_to_its_peak_and_falls():
    settings = TrainingRecipe(learning_rate=0.5, warmup=10)
    rates = [learning_rate(settings, step) for step in range(1, 50)]
    assert rates[9] == 0.5
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)


@pytest.mark.parametrize(("steps", "warmup"), [(50, 10), (10, 10), (5, 10), (2, 1)])
def test_a_linear_rate_rises_and_comes_down_to_the_last_step(steps, warmup):
    settings = TrainingRecipe(learning_rate=0.5, warmup=warmup, steps=steps, schedule="linear")
    rates = [learning_rate(settings, step) for step in range(1, steps + 1)]
    peak = min(warmup, steps) - 1
    assert rates[peak] == pytest.approx(0.5 * min(steps / warmup, 1), rel=1e-12)
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert min(rates) > 0, "every step moves"
    falls = {round(first - second, 12) for first, second in pairwise(rates[peak:])}
    assert len(falls) <= 1, "by the same amount"
    assert learning_rate(settings, steps + 1) in (0.0, pytest.approx(0.5 * (steps + 1) / warmup))


def parameters():
    return {
        "matrix": nn.Parameter(torch.randn(3, 4)),
        "bias": nn.Parameter(torch.randn(4)),
        "scalar": nn.Parameter(torch.randn(())),
    }


def by_hand(weights, gradients, rate, decay, moments, step):
    """Algorithm 2 of Loshchilov and Hutter (2019), in float64; betas of Vaswani et al."""
    for name, weight in weights.items():
        first, second = moments[name]
        first.mul_(0.9).add_(gradients[name], alpha=0.1)
        second.mul_(0.98).add_(gradients[name] ** 2, alpha=0.02)
        unbiased = first / (1 - 0.9**step), second / (1 - 0.98**step)
        pull = decay if weight.ndim > 1 else 0.0
        weight.sub_(rate * (unbiased[0] / (unbiased[1].sqrt() + 1e-9) + pull * weight))


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_updates_are_adamw_and_decay_pulls_at_matrices_only(decay):
    ours = parameters()
    truth = {name: each.detach().double() for name, each in ours.items()}
    moments = {name: (each * 0, each * 0) for name, each in truth.items()}
    [optimizer] = build_optimizers(ours, TrainingRecipe(weight_decay=decay))
    for step in range(1, 8):
        gradients = {name: torch.randn_like(each) for name, each in ours.items()}
        for name, parameter in ours.items():
            parameter.grad = gradients[name]
        rate = 0.1 / step
        set_learning_rate([optimizer], rate)
        optimizer.step()
        doubled = {name: each.double() for name, each in gradients.items()}
        by_hand(truth, doubled, rate, decay, moments, step)
    for name, parameter in ours.items():
        torch.testing.assert_close(parameter.detach().double(), truth[name], **CLOSE)
        state = optimizer.state[parameter]
        torch.testing.assert_close(state[FIRST].double(), moments[name][0], **CLOSE)
        torch.testing.assert_close(state[SECOND].double(), moments[name][1], **CLOSE)


def test_it_goes_on_from_its_moments_and_the_number_of_updates_bit_for_bit():
    """All that a checkpoint keeps of it: two moments for each weight, and a number."""
    torch.manual_seed(1)
    whole, halves = parameters(), None
    [optimizer] = build_optimizers(whole, TrainingRecipe())
    set_learning_rate([optimizer], 0.1)
    gradients = [{name: torch.randn_like(each) for name, each in whole.items()} for _ in range(6)]
    for number, given in enumerate(gradients):
        if number == 3:
            halves = {name: nn.Parameter(each.detach().clone()) for name, each in whole.items()}
            [again] = build_optimizers(halves, TrainingRecipe())
            for name, parameter in halves.items():
                for moment in (FIRST, SECOND):
                    again.state[parameter][moment].copy_(optimizer.state[whole[name]][moment])
            set_updates([again], 3)
            set_learning_rate([again], 0.1)
        for each, stepper in ((whole, optimizer), (halves, again if halves else None)):
            if each is not None:
                for name, parameter in each.items():
                    parameter.grad = given[name].clone()
                stepper.step()
    for name, parameter in whole.items():
        assert halves[name].equal(parameter)


LAYERS = {
    "source_embedding.weight": (13, 16),
    "encoder.layers.0.self_attention.heads.query.weight": (16, 16),
    "encoder.layers.0.self_attention.heads.key.weight": (16, 16),
    "encoder.layers.0.feed_forward.network.expand.weight": (24, 16),
    "encoder.layers.0.feed_forward.network.contract.weight": (16, 24),
    "encoder.layers.0.feed_forward.network.contract.bias": (16,),
    "encoder.layers.0.shaw.table.weight": (9, 8),
    "encoder.layers.0.additive.score.weight": (1, 8),
}


def layers():
    return {name: nn.Parameter(torch.randn(shape)) for name, shape in LAYERS.items()}


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_matrices_of_layers_move_as_by_pytorchs_muon_and_the_rest_as_by_adam(decay):
    torch.manual_seed(1)
    ours = layers()
    theirs = {name: nn.Parameter(each.detach().clone()) for name, each in ours.items()}
    matrices = [name for name in LAYERS if ".heads." in name or ".network." in name]
    matrices.remove("encoder.layers.0.feed_forward.network.contract.bias")
    optimizers = build_optimizers(ours, TrainingRecipe(weight_decay=decay, optimizer="muon"))
    muon = torch.optim.Muon(
        [theirs[name] for name in matrices],
        lr=0.02,
        weight_decay=decay,
        adjust_lr_fn="match_rms_adamw",
    )
    rest = {name: each for name, each in theirs.items() if name not in matrices}
    [adam] = build_optimizers(rest, TrainingRecipe(weight_decay=decay))
    set_learning_rate([*optimizers, adam], 0.02)
    before = {name: each.detach().clone() for name, each in ours.items()}
    for _ in range(4):
        for name, parameter in ours.items():
            parameter.grad = torch.randn_like(parameter)
            theirs[name].grad = parameter.grad.clone()
        for optimizer in (*optimizers, muon, adam):
            optimizer.step()
    for name, parameter in ours.items():
        moved = parameter.detach() - before[name]
        other = theirs[name].detach() - before[name]
        # Products in bfloat16 keep eight bits, and are summed in another order in a batch.
        tolerance = 0.02 if name in matrices else 0.0
        assert (moved - other).norm() <= tolerance * other.norm(), name


def test_all_directions_move_alike():
    torch.manual_seed(1)
    given = torch.randn(3, 16, 24) * torch.logspace(-2, 2, 3)[:, None, None]
    values = torch.linalg.svdvals(orthogonal(given))
    # Where the published five turns bring every singular value that is not tiny.
    assert values.min() > 0.5
    assert values.max() < 1.4
    assert orthogonal(torch.zeros(1, 4, 4)).equal(torch.zeros(1, 4, 4))


def test_a_muon_goes_on_from_its_momentum_bit_for_bit():
    torch.manual_seed(1)
    whole = layers()
    optimizers = build_optimizers(whole, TrainingRecipe(optimizer="muon"))
    halves, again = None, []
    for number in range(6):
        if number == 3:
            halves = {name: nn.Parameter(each.detach().clone()) for name, each in whole.items()}
            again = build_optimizers(halves, TrainingRecipe(optimizer="muon"))
            stored = moments(optimizers, whole)
            for name, each in moments(again, halves).items():
                each.copy_(stored[name])
            set_updates(again, 3)
        set_learning_rate([*optimizers, *again], 0.1)
        for name, each in whole.items():
            each.grad = torch.randn_like(each)
            if halves:
                halves[name].grad = each.grad.clone()
        for optimizer in (*optimizers, *again):
            optimizer.step()
    assert all(halves[name].equal(each) for name, each in whole.items())


def with_gradients(scale):
    given = list(parameters().values())
    for each in given:
        each.grad = scale * torch.randn_like(each)
    return given


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("longest", [0.01, 1.0])
def test_shortening_is_pytorchs_clipping_of_the_mean(scale, longest):
    ours, tokens = with_gradients(scale), 37
    theirs = [nn.Parameter(each.detach().clone()) for each in ours]
    for own, other in zip(ours, theirs, strict=True):
        other.grad = own.grad / tokens
    truth = torch.nn.utils.clip_grad_norm_(theirs, longest)
    # PyTorch adds 1e-6 to the length it divides by.
    tolerance = 2e-6 / min(float(truth), 1) + 1e-6
    assert shorten(ours, tokens, longest) == pytest.approx(float(truth), rel=1e-6)
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own.grad, other.grad, rtol=tolerance, atol=0)


def test_with_no_longest_it_only_divides():
    ours = with_gradients(1e3)
    before = [each.grad.clone() for each in ours]
    shorten(ours, 16, 0.0)
    assert all(each.grad.equal(old / 16) for each, old in zip(ours, before, strict=True))


def test_no_gradient_at_all_is_no_length():
    ours = with_gradients(0.0)
    assert shorten(ours, 16, 1.0) == 0.0
    assert all(each.grad.equal(torch.zeros_like(each)) for each in ours)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_no_number_is_left_alone_and_told(value):
    ours = with_gradients(1.0)
    ours[0].grad[1, 2] = value
    before = [each.grad.clone() for each in ours]
    assert not math.isfinite(shorten(ours, 16, 1.0))
    for each, old in zip(ours, before, strict=True):
        torch.testing.assert_close(each.grad, old, rtol=0, atol=0, equal_nan=True)
