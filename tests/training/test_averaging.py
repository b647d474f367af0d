"""Averaged weights follow their formulas."""

import pytest
import torch
from torch import nn

from dragoman.training.averaging import ExponentialMovingAverage, mean_of


def parameters():
    return {"matrix": nn.Parameter(torch.randn(3, 4)), "bias": nn.Parameter(torch.randn(4))}


def randomize(weights):
    with torch.no_grad():
        for weight in weights.values():
            weight.copy_(torch.randn_like(weight))


@pytest.mark.parametrize("decay", [0.05, 0.5, 0.999])
def test_the_moving_average_follows_its_formula(decay):
    """a ← d · a + (1 − d) · w,  d = min(decay, t / (t + 50))."""
    weights = parameters()
    average = ExponentialMovingAverage(weights, decay)
    expected = {name: weight.detach().double() for name, weight in weights.items()}
    for update in range(1, 101):
        randomize(weights)
        average.update(update)
        d = min(decay, update / (update + 50))
        expected = {
            name: d * value + (1 - d) * weights[name].detach().double()
            for name, value in expected.items()
        }
    for name, value in expected.items():
        # One float32 rounding in each of a hundred updates, whose weight decays.
        torch.testing.assert_close(average.weights[name].double(), value, rtol=1e-5, atol=1e-6)


def test_the_moving_average_starts_as_a_copy_of_the_weights():
    weights = parameters()
    average = ExponentialMovingAverage(weights, 0.9)
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    randomize(weights)
    assert all(average.weights[name].equal(weight) for name, weight in before.items())


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
def test_applied_restores_the_weights_bit_for_bit(error):
    weights = parameters()
    average = ExponentialMovingAverage(weights, 0.9)
    randomize(weights)
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    addresses = [weight.data_ptr() for weight in weights.values()]
    try:
        with average.applied():
            assert all(average.weights[name].equal(weight) for name, weight in weights.items())
            # Values are copied; the parameters stay the same objects in the same memory.
            assert [weight.data_ptr() for weight in weights.values()] == addresses
            if error is not None:
                raise error
    except (RuntimeError, KeyboardInterrupt):
        assert error is not None
    assert all(weights[name].equal(weight) for name, weight in before.items())
    assert all(weight.requires_grad for weight in weights.values())


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_mean_of_is_the_mean(count):
    checkpoints = [
        {name: weight.detach() for name, weight in parameters().items()} for _ in range(count)
    ]
    mean = mean_of(iter(checkpoints))
    for name, weight in mean.items():
        stacked = torch.stack([checkpoint[name].double() for checkpoint in checkpoints])
        # Summed in float64 and rounded once: half a unit in the last place.
        torch.testing.assert_close(weight.double(), stacked.mean(dim=0), rtol=2**-24, atol=0)
        assert weight.dtype == torch.float32


def test_the_mean_of_one_checkpoint_is_itself_and_inputs_do_not_change():
    checkpoint = {name: weight.detach() for name, weight in parameters().items()}
    before = {name: weight.clone() for name, weight in checkpoint.items()}
    for weights in (mean_of([checkpoint]), mean_of([checkpoint, checkpoint]), checkpoint):
        assert all(weights[name].equal(weight) for name, weight in before.items())
