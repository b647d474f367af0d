"""Is the sum of gradients the same however many ranks share the work?"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from dragoman.training.parallel import Sum, World, _tournament, join_world

SHAPES = ((3, 2), (5,), ())


def micro_batches(count, seed):
    """Gradients of so different sizes that the order of adding them shows."""
    generator = torch.Generator().manual_seed(seed)

    def draw(shape):
        sizes = 10 ** torch.empty(shape).uniform_(-4, 4, generator=generator)
        return sizes * torch.randn(shape, generator=generator)

    return [[draw(shape) for shape in SHAPES] for _ in range(count)]


def add_up(gradients, *, by_parts=False):
    """Add up as a learner does: put all but the last, and finish with it."""
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in SHAPES]
    total = Sum(parameters)
    for number, given_ in enumerate(gradients):
        for parameter, gradient in zip(parameters, given_, strict=True):
            parameter.grad = gradient.clone()
        if number < len(gradients) - 1:
            total.put()
            assert all(parameter.grad is None for parameter in parameters)
    if by_parts:  # DDP hands them out in buckets, the last parameters first.
        for bucket in ([2], [1, 0]):
            some = [parameters[index] for index in bucket]
            total.finish_some(some, [each.grad for each in some])
        total.clear()
    else:
        total.finish()
    return [parameter.grad for parameter in parameters]


def shares(gradients, ranks):
    """Divide as `Sampler.share` does."""
    count = len(gradients)
    return [
        [each for number, each in enumerate(gradients) if number * ranks // count == rank]
        for rank in range(ranks)
    ]


def is_same(found, truth):
    return all(left.equal(right) for left, right in zip(found, truth, strict=True))


@given(st.integers(1, 16), st.integers(0, 2**32))
def test_it_is_the_sum(count, seed):
    gradients = micro_batches(count, seed)
    for found, each in zip(add_up(gradients), zip(*gradients, strict=True), strict=True):
        stacked = torch.stack(each).double()
        # Sixteen float32 numbers: each addition rounds the 24th bit of at most their sizes' sum.
        bound = 16 * 2**-24 * stacked.abs().sum(dim=0)
        assert ((found.double() - stacked.sum(dim=0)).abs() <= bound).all()


@given(st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([1, 2, 4]), st.integers(0, 2**32))
def test_any_power_of_two_of_ranks_gives_the_same_to_the_last_bit(count, ranks, seed):
    count = max(count, ranks)
    gradients = micro_batches(count, seed)
    alone = add_up(gradients)
    each_rank = [add_up(share, by_parts=True) for share in shares(gradients, ranks)]
    together = [_tournament(list(each)) for each in zip(*each_rank, strict=True)]
    assert is_same(together, alone)


def test_another_order_would_be_another_sum():
    """The test above proves something: added one after the other, the last bits differ."""
    gradients = micro_batches(16, seed=1)
    one_by_one = [sum(each) for each in zip(*gradients, strict=True)]
    assert not is_same(one_by_one, add_up(gradients))


@given(st.integers(1, 16), st.integers(0, 2**32))
def test_handed_out_in_parts_it_is_the_same_sum(count, seed):
    gradients = micro_batches(count, seed)
    assert is_same(add_up(gradients, by_parts=True), add_up(gradients))


@given(st.integers(1, 16), st.integers(1, 16), st.integers(0, 2**32))
def test_any_ranks_add_up_everything_once(count, ranks, seed):
    count = max(count, ranks)
    gradients = micro_batches(count, seed)
    parts = shares(gradients, ranks)
    assert all(parts), "every rank has something to add"
    each_rank = [add_up(share) for share in parts]
    for found, each in zip(zip(*each_rank, strict=True), zip(*gradients, strict=True), strict=True):
        stacked = torch.stack(each).double()
        bound = 16 * 2**-24 * stacked.abs().sum(dim=0)
        assert ((_tournament(list(found)).double() - stacked.sum(dim=0)).abs() <= bound).all()


def test_a_sum_can_be_used_again():
    parameters = [nn.Parameter(torch.zeros(2))]
    total = Sum(parameters)
    for _ in range(2):
        for number in range(3):
            parameters[0].grad = torch.ones(2)
            total.put() if number < 2 else total.finish()
        assert parameters[0].grad.tolist() == [3, 3]


@pytest.mark.parametrize("without", [0, 1, 2])
def test_a_weight_without_gradient_adds_nothing_and_loses_nothing(without):
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))]
    total = Sum(parameters)
    for number in range(3):
        parameters[0].grad = torch.ones(2)
        parameters[1].grad = None if number == without else torch.ones(2)
        total.put() if number < 2 else total.finish()
    assert [parameter.grad.tolist() for parameter in parameters] == [[3, 3], [2, 2]]


def test_alone_there_is_nothing_to_wait_for(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with join_world() as world:
        assert (world.rank, world.ranks, world.is_first) == (0, 1, True)
        assert world.add_up([1.5, 2]) == [1.5, 2]
        world.wait()
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_first_rank_is_first(rank):
    assert World(rank, 2, torch.device("cpu")).is_first == (rank == 0)
