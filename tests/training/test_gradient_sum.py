"""The sum of gradients does not depend on the number of ranks."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from dragoman.training.parallel import PairwiseGradientSum, World, join_world, pairwise_sum

SHAPES = ((3, 2), (5,), ())


def micro_batches(count, seed):
    """Gradients of very different sizes, so that the order of summation matters."""
    generator = torch.Generator().manual_seed(seed)

    def draw(shape):
        sizes = 10 ** torch.empty(shape).uniform_(-4, 4, generator=generator)
        return sizes * torch.randn(shape, generator=generator)

    return [[draw(shape) for shape in SHAPES] for _ in range(count)]


def summed(gradients, *, in_buckets=False):
    """Sum as a learner does: add all but the last micro-batch, and finish with the last."""
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in SHAPES]
    total = PairwiseGradientSum(parameters)
    for number, micro_batch in enumerate(gradients):
        for parameter, gradient in zip(parameters, micro_batch, strict=True):
            parameter.grad = gradient.clone()
        if number < len(gradients) - 1:
            total.add()
            assert all(parameter.grad is None for parameter in parameters)
    if in_buckets:  # As DDP gives them, the last parameters first.
        for bucket in ([2], [1, 0]):
            chosen = [parameters[index] for index in bucket]
            total.finish_bucket(chosen, [parameter.grad for parameter in chosen])
        total.clear()
    else:
        total.finish()
    return [parameter.grad for parameter in parameters]


def shares(gradients, ranks):
    """Divide as `Sampler.share` does."""
    count = len(gradients)
    return [
        [item for number, item in enumerate(gradients) if number * ranks // count == rank]
        for rank in range(ranks)
    ]


def is_same(ours, theirs):
    return all(left.equal(right) for left, right in zip(ours, theirs, strict=True))


@given(st.integers(1, 16), st.integers(0, 2**32))
def test_the_result_is_the_sum(count, seed):
    gradients = micro_batches(count, seed)
    for total, terms in zip(summed(gradients), zip(*gradients, strict=True), strict=True):
        stacked = torch.stack(terms).double()
        # Sixteen float32 numbers: each addition rounds the 24th bit of at most their total size.
        bound = 16 * 2**-24 * stacked.abs().sum(dim=0)
        assert ((total.double() - stacked.sum(dim=0)).abs() <= bound).all()


@given(st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([1, 2, 4]), st.integers(0, 2**32))
def test_any_power_of_two_of_ranks_gives_the_same_bits(count, ranks, seed):
    count = max(count, ranks)
    gradients = micro_batches(count, seed)
    alone = summed(gradients)
    rank_sums = [summed(share, in_buckets=True) for share in shares(gradients, ranks)]
    together = [pairwise_sum(list(terms)) for terms in zip(*rank_sums, strict=True)]
    assert is_same(together, alone)


def test_another_order_gives_another_sum():
    """So the test above can fail: one after the other, the last bits differ."""
    gradients = micro_batches(16, seed=1)
    one_by_one = [sum(terms) for terms in zip(*gradients, strict=True)]
    assert not is_same(one_by_one, summed(gradients))


@given(st.integers(1, 16), st.integers(0, 2**32))
def test_buckets_give_the_same_sum(count, seed):
    gradients = micro_batches(count, seed)
    assert is_same(summed(gradients, in_buckets=True), summed(gradients))


@given(st.integers(1, 16), st.integers(1, 16), st.integers(0, 2**32))
def test_any_number_of_ranks_sums_everything_once(count, ranks, seed):
    count = max(count, ranks)
    gradients = micro_batches(count, seed)
    parts = shares(gradients, ranks)
    assert all(parts), "every rank has a micro-batch"
    rank_sums = [summed(share) for share in parts]
    for parts, terms in zip(
        zip(*rank_sums, strict=True), zip(*gradients, strict=True), strict=True
    ):
        stacked = torch.stack(terms).double()
        bound = 16 * 2**-24 * stacked.abs().sum(dim=0)
        assert ((pairwise_sum(list(parts)).double() - stacked.sum(dim=0)).abs() <= bound).all()


def test_a_sum_can_be_used_again():
    parameters = [nn.Parameter(torch.zeros(2))]
    total = PairwiseGradientSum(parameters)
    for _ in range(2):
        for number in range(3):
            parameters[0].grad = torch.ones(2)
            total.add() if number < 2 else total.finish()
        assert parameters[0].grad.tolist() == [3, 3]


@pytest.mark.parametrize("without", [0, 1, 2])
def test_a_missing_gradient_counts_as_zero(without):
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))]
    total = PairwiseGradientSum(parameters)
    for number in range(3):
        parameters[0].grad = torch.ones(2)
        parameters[1].grad = None if number == without else torch.ones(2)
        total.add() if number < 2 else total.finish()
    assert [parameter.grad.tolist() for parameter in parameters] == [[3, 3], [2, 2]]


def test_a_single_process_needs_no_process_group(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with join_world() as world:
        assert (world.rank, world.world_size, world.is_main) == (0, 1, True)
        assert world.all_reduce_sum([1.5, 2]) == [1.5, 2]
        world.barrier()
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize("rank", [0, 1])
def test_only_rank_0_is_main(rank):
    assert World(rank, 2, torch.device("cpu")).is_main == (rank == 0)
