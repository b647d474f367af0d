"""Is an update cut into as few pieces as the memory allows?"""

from functools import cache

import pytest
import torch

from dragoman.recipe import TrainingRecipe
from dragoman.training import fit
from dragoman.training.device import free_memory
from dragoman.training.loss import Objective
from small_models import small_model


@pytest.fixture
def objective():
    return Objective(small_model().train(), 0.1)


def count(objective, monkeypatch, memory, *, tokens=4096, longest=64, ranks=1):
    monkeypatch.setattr(fit, "free_memory", lambda device: memory)
    settings = TrainingRecipe(tokens_per_update=tokens)
    return fit.count_micro_batches(objective, settings, longest, ranks)


@pytest.mark.parametrize(
    ("tokens", "micro_batch", "ranks", "expected"),
    [
        (1000, 1000, 1, 1),
        (1000, 999, 1, 2),
        (1000, 500, 1, 2),
        (1000, 499, 1, 3),
        (1000, 5000, 1, 1),
        (1000, 500, 4, 4),
        (1000, 100, 4, 10),
    ],
)
def test_what_the_recipe_says_is_divided_and_rounded_up(
    objective, monkeypatch, tokens, micro_batch, ranks, expected
):
    def no_one_asks(*_):
        raise AssertionError("memory must not be asked")

    monkeypatch.setattr(fit, "free_memory", no_one_asks)
    settings = TrainingRecipe(tokens_per_update=tokens, micro_batch=micro_batch)
    assert fit.count_micro_batches(objective, settings, 64, ranks) == expected


def test_less_memory_makes_more_pieces_each_time_a_power_of_two(objective, monkeypatch):
    monkeypatch.setattr(fit, "_bytes_per_token", cache(fit._bytes_per_token))
    counts = [count(objective, monkeypatch, 2**bits) for bits in range(34, 15, -1)]
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert set(counts) == {1, 2, 4, 8, 16, 32, 64}


def test_no_piece_is_smaller_than_the_longest_sentence(objective, monkeypatch):
    """Even where nothing fits: a piece holds a whole sentence or is of no use."""
    for longest in (8, 64, 100, 512, 600):
        found = count(objective, monkeypatch, 0, tokens=512, longest=longest)
        assert 512 // found >= longest or found == 1
        assert 512 // (2 * found) < longest


@pytest.mark.parametrize(("ranks", "least"), [(1, 1), (2, 2), (3, 4), (8, 8)])
def test_every_rank_has_a_piece(objective, monkeypatch, ranks, least):
    assert count(objective, monkeypatch, 2**40, ranks=ranks) == least


def test_half_the_memory_makes_twice_the_pieces(objective, monkeypatch):
    """What is kept grows with the tokens, so, far from the weights' own size, it is division."""
    small, large = (count(objective, monkeypatch, 2**bits) for bits in (22, 23))
    assert small == 2 * large


def test_the_estimate_is_what_autograd_keeps(objective, monkeypatch):
    """A larger batch of the same sentences needs no more for each token."""
    estimates = []
    for tokens in (512, 2048):
        monkeypatch.setattr(fit, "_PROBE_TOKENS", tokens)
        estimates.append(fit._bytes_per_token(objective, 16, torch.device("cpu")))
    # The loss keeps one matrix as large as the weight's, whatever the tokens.
    assert estimates[1] == pytest.approx(estimates[0], rel=0.02)
    width, layers = 16, 4
    assert estimates[0] > 4 * width * layers


def test_asking_leaves_no_gradient_and_no_trace(objective):
    before = [each.detach().clone() for each in objective.parameters()]
    fit._bytes_per_token(objective, 16, torch.device("cpu"))
    assert all(each.grad is None for each in objective.parameters())
    after = objective.parameters()
    assert all(old.equal(new) for old, new in zip(before, after, strict=True))


def test_this_machine_has_some_memory():
    assert free_memory(torch.device("cpu")) > 2**20
