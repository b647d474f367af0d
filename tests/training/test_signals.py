"""Stop requests work on platforms without SIGUSR1, and evaluation mode always ends."""

import signal

import pytest
import torch

from dragoman.training.loss import Objective
from dragoman.training.parallel import Learner, World
from dragoman.training.signals import stop_on_signals
from support.small_models import small_model


def test_a_platform_without_sigusr1_handles_the_other_signals(monkeypatch):
    monkeypatch.delattr(signal, "SIGUSR1")
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals() as stop:
        assert not stop.is_requested
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_requested
    assert signal.getsignal(signal.SIGTERM) == before


def test_evaluation_mode_ends_after_an_error():
    learner = Learner(Objective(small_model().train(), 0.1), World(0, 1, torch.device("cpu")))

    def fail_inside():
        with learner.evaluating():
            assert not learner.objective.training
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_inside()
    assert learner.objective.training
