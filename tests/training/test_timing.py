"""Speed and remaining time exclude validation, and include earlier sessions where they should."""

import os
import time
from dataclasses import asdict

import pytest

from dragoman.training.state import TrainingState
from dragoman.training.timing import SessionTimer


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets; `clock.cpu` is the CPU time."""

    class Clock:
        now = 100.0
        cpu = 0.0

    monkeypatch.setattr(time, "monotonic", lambda: Clock.now)
    monkeypatch.setattr(time, "process_time", lambda: Clock.cpu)
    return Clock


def test_the_speed_excludes_validation_between_two_reports(clock):
    """Four updates of 1 s and 100 tokens, and a validation of 30 s in their middle."""
    timer = SessionTimer(0.0)
    for update in range(4):
        clock.now += 1
        timer.count_update(100)
        if update == 1:
            clock.now += 30
        timer.exclude()
    assert timer.tokens_per_second() == pytest.approx(100)
    clock.now += 2
    timer.count_update(100)
    assert timer.tokens_per_second() == pytest.approx(50), "only updates since the last report"


def test_the_time_left_follows_from_this_session_alone(clock):
    timer = SessionTimer(earlier_seconds=1000.0)
    for _ in range(2):
        clock.now += 60
        timer.count_update(1)
    assert timer.total_seconds == 1120
    assert timer.seconds_left(10, minutes=0) == pytest.approx(600)


def test_processor_time_counts_earlier_sessions(clock):
    timer = SessionTimer(earlier_seconds=1000.0, earlier_cpu_seconds=700.0)
    clock.now += 80
    clock.cpu += 60
    assert timer.total_cpu_seconds == 760


def test_processor_time_is_unknown_if_an_earlier_session_did_not_measure_it():
    """A run of an early version, resumed with this one, does not claim a part as the whole."""
    stored = asdict(TrainingState(seconds=1000.0, cpu_seconds=700.0))
    assert TrainingState.from_json(stored).cpu_seconds == 700
    del stored["cpu_seconds"]
    assert TrainingState.from_json(stored).cpu_seconds is None


def test_the_time_limit_counts_earlier_sessions(clock):
    timer = SessionTimer(earlier_seconds=1000.0)
    clock.now += 80
    timer.count_update(1)
    assert timer.seconds_left(1000, minutes=20) == pytest.approx(120)
    assert timer.seconds_left(1000, minutes=10) == 0


@pytest.mark.parametrize(
    ("threads", "cpu", "load", "is_slow"),
    [(2, 8.0, 6.0, True), (2, 18.0, 6.0, False), (2, 8.0, 1.0, False), (1, 4.0, 6.0, False)],
    ids=["busy machine", "enough CPU time", "idle machine", "one thread"],
)
def test_threads_that_wait_on_a_busy_machine_are_reported(
    clock, monkeypatch, threads, cpu, load, is_slow
):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0, 0), raising=False)
    timer = SessionTimer(0.0)
    clock.now += 10
    clock.cpu += cpu
    text = timer.slow_threads(threads, cpus=2)
    assert ("training.threads=1 may be faster" in text) == is_slow
