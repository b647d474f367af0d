"""Are averaged weights the averages they are called?"""

import pytest
import torch
from torch import nn

from dragoman.training.averaging import MovingAverage, mean_of


def parameters():
    return {"matrix": nn.Parameter(torch.randn(3, 4)), "bias": nn.Parameter(torch.randn(4))}


def change(weights):
    with torch.no_grad():
        for each in weights.values():
            each.copy_(torch.randn_like(each))


@pytest.mark.parametrize("decay", [0.05, 0.5, 0.999])
def test_it_follows_by_its_formula(decay):
    """a ← d · a + (1 − d) · w,  d = min(decay, t / (t + 50))."""
    weights = parameters()
    average = MovingAverage(weights, decay)
    truth = {name: each.detach().double() for name, each in weights.items()}
    for update in range(1, 101):
        change(weights)
        average.follow(update)
        d = min(decay, update / (update + 50))
        truth = {
            name: d * each + (1 - d) * weights[name].detach().double()
            for name, each in truth.items()
        }
    for name, each in truth.items():
        # A rounding of float32 in each of a hundred updates, which are then forgotten again.
        torch.testing.assert_close(average.weights[name].double(), each, rtol=1e-5, atol=1e-6)


def test_it_begins_as_the_weights_and_does_not_share_their_memory():
    weights = parameters()
    average = MovingAverage(weights, 0.9)
    before = {name: each.detach().clone() for name, each in weights.items()}
    change(weights)
    assert all(average.weights[name].equal(each) for name, each in before.items())


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
def test_in_place_gives_the_weights_back_bit_for_bit(error):
    weights = parameters()
    average = MovingAverage(weights, 0.9)
    change(weights)
    before = {name: each.detach().clone() for name, each in weights.items()}
    places = [each.data_ptr() for each in weights.values()]
    try:
        with average.in_place():
            assert all(average.weights[name].equal(each) for name, each in weights.items())
            # Put in, not put in the place of: who holds a parameter sees it.
            assert [each.data_ptr() for each in weights.values()] == places
            if error is not None:
                raise error
    except (RuntimeError, KeyboardInterrupt):
        assert error is not None
    assert all(weights[name].equal(each) for name, each in before.items())
    assert all(each.requires_grad for each in weights.values())


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_mean_is_the_mean(count):
    reads = [{name: each.detach() for name, each in parameters().items()} for _ in range(count)]
    found = mean_of(iter(reads))
    for name, each in found.items():
        exact = torch.stack([read[name].double() for read in reads]).mean(dim=0)
        # Added up in float64 and rounded once: half a unit in the last place.
        torch.testing.assert_close(each.double(), exact, rtol=2**-24, atol=0)
        assert each.dtype == torch.float32


def test_the_mean_of_one_is_itself_and_reading_changes_nothing():
    read = {name: each.detach() for name, each in parameters().items()}
    before = {name: each.clone() for name, each in read.items()}
    for found in (mean_of([read]), mean_of([read, read]), read):
        assert all(found[name].equal(each) for name, each in before.items())
