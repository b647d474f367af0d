"""An update is divided into as few micro-batches as the memory allows."""

from functools import cache

import pytest
import torch

from dragoman.recipe.schema import TrainingRecipe
from dragoman.training import device, micro_batches
from dragoman.training.device import free_memory
from dragoman.training.loss import Objective
from support.small_models import small_model


@pytest.fixture
def objective():
    return Objective(small_model().train(), 0.1)


def count(objective, monkeypatch, memory, *, tokens=4096, longest=64, ranks=1):
    monkeypatch.setattr(micro_batches, "free_memory", lambda device: memory)
    settings = TrainingRecipe(tokens_per_update=tokens)
    return micro_batches.count_micro_batches(objective, settings, longest, ranks)


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
def test_a_size_in_the_recipe_decides_alone(
    objective, monkeypatch, tokens, micro_batch, ranks, expected
):
    def refuse(*_):
        raise AssertionError("the memory must not matter")

    monkeypatch.setattr(micro_batches, "free_memory", refuse)
    settings = TrainingRecipe(tokens_per_update=tokens, micro_batch=micro_batch)
    assert micro_batches.count_micro_batches(objective, settings, 64, ranks) == expected


def test_less_memory_gives_more_micro_batches_in_powers_of_two(objective, monkeypatch):
    monkeypatch.setattr(micro_batches, "_bytes_per_token", cache(micro_batches._bytes_per_token))
    counts = [count(objective, monkeypatch, 2**bits) for bits in range(34, 15, -1)]
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert set(counts) == {1, 2, 4, 8, 16, 32, 64}


def test_no_micro_batch_is_smaller_than_the_longest_sentence(objective, monkeypatch):
    """Even if nothing fits: a micro-batch must contain whole sentences."""
    for longest in (8, 64, 100, 512, 600):
        number = count(objective, monkeypatch, 0, tokens=512, longest=longest)
        assert 512 // number >= longest or number == 1
        assert 512 // (2 * number) < longest


@pytest.mark.parametrize(("ranks", "least"), [(1, 1), (2, 2), (3, 4), (8, 8)])
def test_every_rank_has_a_micro_batch(objective, monkeypatch, ranks, least):
    assert count(objective, monkeypatch, 2**40, ranks=ranks) == least


def test_half_the_memory_gives_twice_the_micro_batches(objective, monkeypatch):
    """Autograd keeps memory in proportion to the tokens, if the weights are comparatively small."""
    small, large = (count(objective, monkeypatch, 2**bits) for bits in (22, 23))
    assert small == 2 * large


def test_the_memory_per_token_does_not_depend_on_the_batch_size(objective, monkeypatch):
    estimates = []
    for tokens in (512, 2048):
        monkeypatch.setattr(micro_batches, "_PROBE_TOKENS", tokens)
        estimates.append(micro_batches._bytes_per_token(objective, 16, torch.device("cpu")))
    # The loss keeps one matrix of the size of the output weight for any number of tokens.
    assert estimates[1] == pytest.approx(estimates[0], rel=0.02)
    width, layers = 16, 4
    assert estimates[0] > 4 * width * layers


def test_measuring_leaves_no_gradients_and_changes_no_weights(objective):
    before = [parameter.detach().clone() for parameter in objective.parameters()]
    micro_batches._bytes_per_token(objective, 16, torch.device("cpu"))
    assert all(parameter.grad is None for parameter in objective.parameters())
    after = objective.parameters()
    assert all(old.equal(new) for old, new in zip(before, after, strict=True))


def test_this_machine_has_some_memory():
    assert free_memory(torch.device("cpu")) > 2**20


def test_processes_on_one_machine_share_its_memory(monkeypatch):
    """The limits of containers are tested in tests/storage/test_machine.py."""
    monkeypatch.setattr(device, "available_memory", lambda: 8 << 30)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert free_memory(torch.device("cpu")) == 2 << 30
