"""Learning rates, updates and clipping equal the published formulas."""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from dragoman.recipe.schema import TrainingRecipe
from dragoman.training.muon import orthogonal
from dragoman.training.optimizer import (
    FIRST,
    SECOND,
    build_optimizers,
    clip_grad_norm,
    learning_rate,
    moments,
    set_learning_rate,
    set_updates,
)

# A few float32 roundings in each of a few steps.
CLOSE = {"rtol": 1e-5, "atol": 1e-7}


@pytest.mark.parametrize(("width", "warmup"), [(512, 4000), (1024, 4000), (256, 100)])
def test_the_learning_rate_is_that_of_vaswani_et_al(width, warmup):
    settings = TrainingRecipe(learning_rate=(width * warmup) ** -0.5, warmup_steps=warmup)
    for step in (1, 2, warmup - 1, warmup, warmup + 1, 10 * warmup, 100_000):
        paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        # The same float64 product in another order.
        assert learning_rate(settings, step) == pytest.approx(paper, rel=1e-12)


def test_the_learning_rate_rises_to_its_peak_and_falls():
    settings = TrainingRecipe(learning_rate=0.5, warmup_steps=10)
    rates = [learning_rate(settings, step) for step in range(1, 50)]
    assert rates[9] == 0.5
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)


@pytest.mark.parametrize(("steps", "warmup"), [(50, 10), (10, 10), (5, 10), (2, 1)])
def test_a_linear_schedule_falls_to_the_last_step(steps, warmup):
    settings = TrainingRecipe(
        learning_rate=0.5, warmup_steps=warmup, steps=steps, schedule="linear"
    )
    rates = [learning_rate(settings, step) for step in range(1, steps + 1)]
    peak = min(warmup, steps) - 1
    assert rates[peak] == pytest.approx(0.5 * min(steps / warmup, 1), rel=1e-12)
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert min(rates) > 0, "every step has a rate above 0"
    differences = {round(first - second, 12) for first, second in pairwise(rates[peak:])}
    assert len(differences) <= 1, "the rate falls linearly"
    assert learning_rate(settings, steps + 1) in (0.0, pytest.approx(0.5 * (steps + 1) / warmup))


def parameters():
    return {
        "matrix": nn.Parameter(torch.randn(3, 4)),
        "bias": nn.Parameter(torch.randn(4)),
        "scalar": nn.Parameter(torch.randn(())),
    }


def reference_adamw(weights, gradients, rate, decay, moments, step):
    """Algorithm 2 of Loshchilov and Hutter (2019), in float64; betas of Vaswani et al."""
    for name, weight in weights.items():
        first, second = moments[name]
        first.mul_(0.9).add_(gradients[name], alpha=0.1)
        second.mul_(0.98).add_(gradients[name] ** 2, alpha=0.02)
        unbiased = first / (1 - 0.9**step), second / (1 - 0.98**step)
        weight_decay = decay if weight.ndim > 1 else 0.0
        update = unbiased[0] / (unbiased[1].sqrt() + 1e-9) + weight_decay * weight
        weight.sub_(rate * update)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_updates_are_adamw_with_decay_of_matrices_only(decay):
    ours = parameters()
    truth = {name: value.detach().double() for name, value in ours.items()}
    moments = {name: (value * 0, value * 0) for name, value in truth.items()}
    [optimizer] = build_optimizers(ours, TrainingRecipe(weight_decay=decay))
    for step in range(1, 8):
        gradients = {name: torch.randn_like(value) for name, value in ours.items()}
        for name, parameter in ours.items():
            parameter.grad = gradients[name]
        rate = 0.1 / step
        set_learning_rate([optimizer], rate)
        optimizer.step()
        in_float64 = {name: gradient.double() for name, gradient in gradients.items()}
        reference_adamw(truth, in_float64, rate, decay, moments, step)
    for name, parameter in ours.items():
        torch.testing.assert_close(parameter.detach().double(), truth[name], **CLOSE)
        state = optimizer.state[parameter]
        torch.testing.assert_close(state[FIRST].double(), moments[name][0], **CLOSE)
        torch.testing.assert_close(state[SECOND].double(), moments[name][1], **CLOSE)


def test_adam_is_resumed_bit_for_bit_from_its_moments_and_the_number_of_updates():
    """A checkpoint keeps two moments per weight, and the number of updates."""
    torch.manual_seed(1)
    whole, resumed = parameters(), None
    [optimizer] = build_optimizers(whole, TrainingRecipe())
    set_learning_rate([optimizer], 0.1)
    gradients = [{name: torch.randn_like(value) for name, value in whole.items()} for _ in range(6)]
    for number, step_gradients in enumerate(gradients):
        if number == 3:
            resumed = {name: nn.Parameter(value.detach().clone()) for name, value in whole.items()}
            [again] = build_optimizers(resumed, TrainingRecipe())
            for name, parameter in resumed.items():
                for moment in (FIRST, SECOND):
                    again.state[parameter][moment].copy_(optimizer.state[whole[name]][moment])
            set_updates([again], 3)
            set_learning_rate([again], 0.1)
        for weights, stepper in ((whole, optimizer), (resumed, again if resumed else None)):
            if weights is not None:
                for name, parameter in weights.items():
                    parameter.grad = step_gradients[name].clone()
                stepper.step()
    for name, parameter in whole.items():
        assert resumed[name].equal(parameter)


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


MATRICES = [
    name
    for name in LAYERS
    if (".heads." in name or ".network." in name) and not name.endswith("bias")
]


def layers():
    return {name: nn.Parameter(torch.randn(shape)) for name, shape in LAYERS.items()}


def with_muon(parameters, decay=0.0):
    """Optimizers as training builds them; the model names its matrices."""
    settings = TrainingRecipe(weight_decay=decay, optimizer="muon")
    return build_optimizers(parameters, settings, [parameters[name] for name in MATRICES])


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_matrices_are_updated_as_by_torch_muon_and_the_rest_as_by_adam(decay):
    torch.manual_seed(1)
    ours = layers()
    theirs = {name: nn.Parameter(value.detach().clone()) for name, value in ours.items()}
    optimizers = with_muon(ours, decay)
    muon = torch.optim.Muon(
        [theirs[name] for name in MATRICES],
        lr=0.02,
        weight_decay=decay,
        adjust_lr_fn="match_rms_adamw",
    )
    rest = {name: value for name, value in theirs.items() if name not in MATRICES}
    [adam] = build_optimizers(rest, TrainingRecipe(weight_decay=decay))
    set_learning_rate([*optimizers, adam], 0.02)
    before = {name: value.detach().clone() for name, value in ours.items()}
    for _ in range(4):
        for name, parameter in ours.items():
            parameter.grad = torch.randn_like(parameter)
            theirs[name].grad = parameter.grad.clone()
        for optimizer in (*optimizers, muon, adam):
            optimizer.step()
    for name, parameter in ours.items():
        our_update = parameter.detach() - before[name]
        their_update = theirs[name].detach() - before[name]
        # PyTorch's products in bfloat16 have eight bits; ours are in float32 on a CPU.
        tolerance = 0.02 if name in MATRICES else 0.0
        assert (our_update - their_update).norm() <= tolerance * their_update.norm(), name


def test_all_singular_values_become_similar():
    torch.manual_seed(1)
    matrices = torch.randn(3, 16, 24) * torch.logspace(-2, 2, 3)[:, None, None]
    values = torch.linalg.svdvals(orthogonal(matrices))
    # The published five iterations bring all singular values that are not tiny into this range.
    assert values.min() > 0.5
    assert values.max() < 1.4
    assert orthogonal(torch.zeros(1, 4, 4)).equal(torch.zeros(1, 4, 4))


def test_muon_is_resumed_bit_for_bit_from_its_momentum():
    torch.manual_seed(1)
    whole = layers()
    optimizers = with_muon(whole)
    resumed, again = None, []
    for number in range(6):
        if number == 3:
            resumed = {name: nn.Parameter(value.detach().clone()) for name, value in whole.items()}
            again = with_muon(resumed)
            stored = moments(optimizers, whole)
            for name, moment in moments(again, resumed).items():
                moment.copy_(stored[name])
            set_updates(again, 3)
        set_learning_rate([*optimizers, *again], 0.1)
        for name, parameter in whole.items():
            parameter.grad = torch.randn_like(parameter)
            if resumed:
                resumed[name].grad = parameter.grad.clone()
        for optimizer in (*optimizers, *again):
            optimizer.step()
    assert all(resumed[name].equal(parameter) for name, parameter in whole.items())


def with_gradients(scale):
    values = list(parameters().values())
    for value in values:
        value.grad = scale * torch.randn_like(value)
    return values


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("max_norm", [0.01, 1.0])
def test_clipping_equals_torch_clipping_of_the_mean_gradient(scale, max_norm):
    ours, tokens = with_gradients(scale), 37
    theirs = [nn.Parameter(value.detach().clone()) for value in ours]
    for our, their in zip(ours, theirs, strict=True):
        their.grad = our.grad / tokens
    truth = torch.nn.utils.clip_grad_norm_(theirs, max_norm)
    # PyTorch adds 1e-6 to the norm before it divides.
    tolerance = 2e-6 / min(float(truth), 1) + 1e-6
    assert clip_grad_norm(ours, tokens, max_norm) == pytest.approx(float(truth), rel=1e-6)
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our.grad, their.grad, rtol=tolerance, atol=0)


def test_without_a_maximum_norm_gradients_are_only_divided():
    ours = with_gradients(1e3)
    before = [value.grad.clone() for value in ours]
    clip_grad_norm(ours, 16, 0.0)
    assert all(value.grad.equal(old / 16) for value, old in zip(ours, before, strict=True))


def test_zero_gradients_have_norm_0():
    ours = with_gradients(0.0)
    assert clip_grad_norm(ours, 16, 1.0) == 0.0
    assert all(value.grad.equal(torch.zeros_like(value)) for value in ours)


@pytest.mark.parametrize("bad_value", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_is_not_changed(bad_value):
    ours = with_gradients(1.0)
    ours[0].grad[1, 2] = bad_value
    before = [value.grad.clone() for value in ours]
    assert not math.isfinite(clip_grad_norm(ours, 16, 1.0))
    for value, old in zip(ours, before, strict=True):
        torch.testing.assert_close(value.grad, old, rtol=0, atol=0, equal_nan=True)
