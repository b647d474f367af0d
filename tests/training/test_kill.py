"""Is a run that was killed or stopped, and goes on, the run that was not, to the last bit?"""

import contextlib
import os
import random
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

import digits
from training import trainees
from training.trainees import journal, left_over, outcome, saved_steps, start, train, wait_for

SEED = 20170612
DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1, "feed_forward_dropout": 0.1}
TRAINING = {"steps": 20, "save_every": 3, "validate_every": 8, "moving_average": 0.9, "average": 3}
SHORT = {"steps": 5, "save_every": 2, "keep": 1, "average": 1, "moving_average": 0.9}


@pytest.fixture(autouse=True)
def _nobody_is_left():
    yield
    trainees.kill_the_rest()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """All chance that there is: three dropouts; and a moving average that must be remembered."""
    return digits.write(tmp_path_factory.mktemp("kill"), model=DROPOUT, training=TRAINING)


@pytest.fixture(scope="module")
def undisturbed(recipe):
    return outcome(train(recipe, "training.folder=undisturbed"))


def kill_until(kills, recipe, expected, *overrides):
    """Kill runs at random moments until so many were hit; each must end as if nothing happened."""
    began = time.monotonic()
    assert outcome(train(recipe, "training.folder=timed", *overrides)) == expected
    longest = time.monotonic() - began
    chance = random.Random(SEED)
    hits, inside_a_save, runs = 0, 0, 0
    while hits < kills:
        runs += 1
        folder = recipe.parent / f"killed-{runs}"
        code = None
        while code != 0:
            trainee = start(recipe, f"training.folder={folder.name}", *overrides)
            if hits < kills:
                time.sleep(chance.uniform(0.1, 0.9) * longest)
                code = trainee.kill()
            else:
                code = trainee.wait()
            assert code in (0, -signal.SIGKILL), trainee.text
            hits += code != 0
            inside_a_save += any((folder / "checkpoints").glob(".step-*"))
            _at_most_one_interval_is_lost(folder, TRAINING["save_every"])
        assert outcome(folder) == expected
        assert not left_over(folder)
    print(f"seed {SEED}: {hits} kills, {inside_a_save} of them inside a save, in {runs} runs")


def _at_most_one_interval_is_lost(folder, interval):
    done = [each["step"] for each in journal(folder)]
    assert max(done, default=0) - max(saved_steps(folder), default=0) <= interval


@pytest.mark.slow
def test_twenty_kills_at_random_moments_change_no_bit(recipe, undisturbed):
    kill_until(20, recipe, undisturbed)


@pytest.mark.slow
def test_nor_do_they_where_matrices_are_multiplied_in_bfloat16(tmp_path):
    settings = TRAINING | {"precision": "bfloat16"}
    recipe = digits.write(tmp_path, model=DROPOUT, training=settings)
    kill_until(5, recipe, outcome(train(recipe)))


def kill_at_each_call(tmp_path, recipe, expected, step, origin=None, some=0):
    """Kill a copy of a run just before each call of the file system, and let it go on."""
    calls = tmp_path / "calls.txt"
    fault = {"kind": "at_call", "step": step, "signals": ["SIGKILL"]}
    count = fault | {"call": 0, "list_to": str(calls)}
    _copy(origin, tmp_path / "counted")
    train(recipe, "training.folder=counted", faults=[count])
    names = calls.read_text(encoding="utf-8").splitlines()
    chosen = random.Random(SEED).sample(range(len(names)), some) if some else range(len(names))
    for call in chosen:
        print(f"killed before call {call + 1} of {len(names)}: {names[call]}")
        folder = tmp_path / f"killed-{call + 1}"
        _copy(origin, folder)
        override = f"training.folder={folder.name}"
        killed = start(recipe, override, faults=[fault | {"call": call + 1}])
        assert killed.wait() == -signal.SIGKILL, killed.text
        train(recipe, override)
        assert outcome(folder) == expected
        assert not left_over(folder)
    return names


def _copy(origin, folder):
    if origin is not None:
        shutil.copytree(origin, folder)


@pytest.mark.slow
def test_a_kill_before_any_call_of_a_save_changes_no_bit(tmp_path):
    """Twenty calls and more: the weights torn, half a checkpoint, the old one half removed."""
    recipe = digits.write(tmp_path, model=DROPOUT, training=SHORT)
    expected = outcome(train(recipe, "training.folder=undisturbed"))
    fault = {"kind": "at_step", "step": 3, "signals": ["SIGKILL"]}
    assert start(recipe, "training.folder=origin", faults=[fault]).wait() == -signal.SIGKILL
    names = kill_at_each_call(tmp_path, recipe, expected, 4, tmp_path / "origin")
    for each in (
        "half of save_file model",
        "open manifest",
        "fsync",
        "os.rename .step",
        "os.rmdir",
    ):
        assert any(name.startswith(each) for name in names), each
    assert len(names) > 20


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, -1], ids=["begins", "ends"])
def test_a_kill_while_a_run_begins_or_ends_changes_no_bit(tmp_path, step):
    recipe = digits.write(tmp_path, model=DROPOUT, training=SHORT)
    expected = outcome(train(recipe, "training.folder=undisturbed"))
    kill_at_each_call(tmp_path, recipe, expected, step, some=8)


@pytest.mark.slow
def test_killed_ranks_change_no_bit(recipe, undisturbed):
    """One of two, then the other, then torchrun with both; and once inside a save."""
    override = "training.folder=killed-ranks"
    faults = [
        {"kind": "at_step", "step": 5, "rank": 1, "signals": ["SIGKILL"]},
        {"kind": "at_step", "step": 11, "rank": 0, "signals": ["SIGKILL"]},
        {"kind": "at_call", "step": 12, "call": 9, "rank": 0, "signals": ["SIGKILL"]},
    ]
    for fault in faults:
        trainee = start(recipe, override, ranks=2, faults=[fault])
        assert trainee.wait() == 1, trainee.text
        assert not trainee.orphans()
    folder = recipe.parent / "killed-ranks"
    trainee = start(recipe, override, ranks=2)
    wait_for(lambda: journal(folder)[-1]["step"] >= 14)
    assert trainee.kill() == -signal.SIGKILL
    assert outcome(train(recipe, override, ranks=2)) == undisturbed
    assert not left_over(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_a_run_that_is_asked_to_stop_saves_and_says_how_to_go_on(recipe, undisturbed, name):
    step = random.Random(f"{SEED} {name}").choice([1, 4, 5, 7, 10, 13])
    print(f"seed {SEED}: {name} in step {step}")
    override = f"training.folder={name.lower()}"
    folder = recipe.parent / name.lower()
    fault = {"kind": "at_step", "step": step, "signals": [name]}
    trainee = start(recipe, override, faults=[fault])
    assert trainee.wait() == 75, trainee.text
    assert f"stopped and saved at step {step}; run it again to go on" in trainee.text
    assert max(saved_steps(folder)) == step
    assert outcome(train(recipe, override)) == undisturbed


@pytest.mark.slow
def test_stopping_twice_in_an_interval_averages_the_same_checkpoints(recipe, undisturbed):
    for step in (16, 17):
        fault = {"kind": "at_step", "step": step, "signals": ["SIGTERM"]}
        assert start(recipe, "training.folder=twice", faults=[fault]).wait() == 75
    assert outcome(train(recipe, "training.folder=twice")) == undisturbed


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once_and_harms_nothing(recipe, undisturbed):
    """In the middle of a step, and at two places of a save."""
    override, both = "training.folder=second", ["SIGTERM", "SIGINT"]
    faults = [
        {"kind": "at_step", "step": 5, "signals": both},
        {"kind": "at_call", "step": 6, "call": 6, "signals": both},
        {"kind": "at_call", "step": 6, "call": 14, "signals": both},
    ]
    for fault in faults:
        trainee = start(recipe, override, faults=[fault])
        assert trainee.wait() in (128 + signal.SIGTERM, 128 + signal.SIGINT), trainee.text
        assert saved_steps(recipe.parent / "second") == [3]
    assert outcome(train(recipe, override)) == undisturbed
    assert not left_over(recipe.parent / "second")


@pytest.mark.slow
def test_one_rank_that_is_asked_to_stop_stops_all_at_the_same_step(recipe, undisturbed):
    override = "training.folder=stopped-rank"
    fault = {"kind": "at_step", "step": 7, "rank": 1, "signals": ["SIGTERM"]}
    trainee = start(recipe, override, ranks=2, faults=[fault])
    assert trainee.wait() == 1, trainee.text
    assert "stopped and saved at step 7; run it again to go on" in trainee.text
    assert "75" in trainee.exit_codes
    assert not trainee.orphans()
    assert max(saved_steps(recipe.parent / "stopped-rank")) == 7
    assert outcome(train(recipe, override, ranks=2)) == undisturbed


@pytest.mark.slow
def test_torchrun_that_is_asked_to_stop_saves(tmp_path):
    """The commands as one types them: torchrun gets the signal, and hands it on to its ranks."""
    recipe = digits.write(tmp_path, model=DROPOUT, training=TRAINING | {"steps": 2000})
    log, folder = tmp_path / "log.txt", tmp_path / "run"
    with trainees.real_torchrun(2, str(recipe), log=log) as process:
        wait_for(lambda: len(journal(folder)) > 8)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) != 0
    text = log.read_text(encoding="utf-8")
    stopped = re.findall(r"stopped and saved at step (\d+); run it again to go on", text)
    assert stopped, text
    assert {*map(int, stopped)} == {max(saved_steps(folder))}
    assert not _processes_with(str(recipe))
    step = int(stopped[0])
    overrides = [f"training.steps={step + 2}"]
    expected = outcome(train(recipe, *overrides, "training.folder=undisturbed"))
    assert outcome(train(recipe, *overrides)) == expected


def _processes_with(word):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(path.parent.name)
    return found
