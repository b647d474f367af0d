"""A run that was killed or stopped, and resumed, is bit-identical to one that was not."""

import contextlib
import os
import random
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from support import digits, trainees
from support.trainees import journal, left_over, outcome, saved_steps, start, train, wait_for

SEED = 20170612
DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1, "feed_forward_dropout": 0.1}
TRAINING = {
    "steps": 20,
    "save_every": 3,
    "validate_every": 8,
    "ema_decay": 0.9,
    "average_checkpoints": 3,
}
SHORT = {
    "steps": 5,
    "save_every": 2,
    "keep_checkpoints": 1,
    "average_checkpoints": 1,
    "ema_decay": 0.9,
}


@pytest.fixture(autouse=True)
def _kill_processes():
    yield
    trainees.kill_all()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """All random parts: three kinds of dropout; and a moving average, which must be saved."""
    return digits.write(tmp_path_factory.mktemp("kill"), model=DROPOUT, training=TRAINING)


@pytest.fixture(scope="module")
def undisturbed(recipe):
    return outcome(train(recipe, "training.folder=undisturbed"))


def kill_until(kills, recipe, expected, *settings):
    """Kill runs at random moments, this many times; all must end with the expected outcome."""
    began = time.monotonic()
    assert outcome(train(recipe, "training.folder=timed", *settings)) == expected
    longest = time.monotonic() - began
    rng = random.Random(SEED)
    hits, inside_a_save, runs = 0, 0, 0
    while hits < kills:
        runs += 1
        folder = recipe.parent / f"killed-{runs}"
        code = None
        while code != 0:
            trainee = start(recipe, f"training.folder={folder.name}", *settings)
            if hits < kills:
                time.sleep(rng.uniform(0.1, 0.9) * longest)
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
    steps = [entry["step"] for entry in journal(folder)]
    assert max(steps, default=0) - max(saved_steps(folder), default=0) <= interval


@pytest.mark.parametrize(
    "kills",
    [pytest.param(4, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.long)],
)
def test_kills_at_random_moments_change_no_bit(recipe, undisturbed, kills):
    kill_until(kills, recipe, undisturbed)


@pytest.mark.long
def test_kills_change_no_bit_in_bfloat16(tmp_path):
    settings = TRAINING | {"precision": "bfloat16"}
    recipe = digits.write(tmp_path, model=DROPOUT, training=settings)
    kill_until(5, recipe, outcome(train(recipe)))


def kill_at_each_call(tmp_path, recipe, expected, step, origin=None, sample=0):
    """Kill a copy of a run just before each file system call, or a sample, and resume it."""
    calls = tmp_path / "calls.txt"
    fault = {"kind": "at_call", "step": step, "signals": ["SIGKILL"]}
    count = fault | {"call": 0, "list_to": str(calls)}
    _copy(origin, tmp_path / "counted")
    train(recipe, "training.folder=counted", faults=[count])
    names = calls.read_text(encoding="utf-8").splitlines()
    every = range(len(names))
    chosen = random.Random(SEED).sample(every, sample) if sample else every
    for call in chosen:
        print(f"killed before call {call + 1} of {len(names)}: {names[call]}")
        folder = tmp_path / f"killed-{call + 1}"
        _copy(origin, folder)
        setting = f"training.folder={folder.name}"
        killed = start(recipe, setting, faults=[fault | {"call": call + 1}])
        assert killed.wait() == -signal.SIGKILL, killed.text
        train(recipe, setting)
        assert outcome(folder) == expected
        assert not left_over(folder)
    return names


def _copy(origin, folder):
    if origin is not None:
        shutil.copytree(origin, folder)


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(10, marks=pytest.mark.slow, id="some"),
        pytest.param(0, marks=pytest.mark.long, id="all"),
    ],
)
def test_a_kill_before_any_call_of_a_save_changes_no_bit(tmp_path, sample):
    """More than twenty calls: incomplete weights, half a checkpoint, an old one half removed."""
    recipe = digits.write(tmp_path, model=DROPOUT, training=SHORT)
    expected = outcome(train(recipe, "training.folder=undisturbed"))
    fault = {"kind": "at_step", "step": 3, "signals": ["SIGKILL"]}
    assert start(recipe, "training.folder=origin", faults=[fault]).wait() == -signal.SIGKILL
    names = kill_at_each_call(tmp_path, recipe, expected, 4, tmp_path / "origin", sample)
    for prefix in (
        "half of save_file model",
        "open manifest",
        "fsync",
        "os.rename .step",
        "os.rmdir",
    ):
        assert any(name.startswith(prefix) for name in names), prefix
    assert len(names) > 20


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, -1], ids=["start", "end"])
def test_a_kill_while_a_run_starts_or_ends_changes_no_bit(tmp_path, step):
    recipe = digits.write(tmp_path, model=DROPOUT, training=SHORT)
    expected = outcome(train(recipe, "training.folder=undisturbed"))
    kill_at_each_call(tmp_path, recipe, expected, step, sample=5)


@pytest.mark.slow
def test_killed_ranks_change_no_bit(recipe, undisturbed):
    """One of two, then the other, then inside a save, then torchrun with both."""
    folder_setting = "training.folder=killed-ranks"
    faults = [
        {"kind": "at_step", "step": 5, "rank": 1, "signals": ["SIGKILL"]},
        {"kind": "at_step", "step": 11, "rank": 0, "signals": ["SIGKILL"]},
        {"kind": "at_call", "step": 12, "call": 9, "rank": 0, "signals": ["SIGKILL"]},
    ]
    for fault in faults:
        trainee = start(recipe, folder_setting, ranks=2, faults=[fault])
        assert trainee.wait() == 1, trainee.text
        assert not trainee.orphans()
    folder = recipe.parent / "killed-ranks"
    trainee = start(recipe, folder_setting, ranks=2)
    wait_for(lambda: journal(folder)[-1]["step"] >= 14)
    assert trainee.kill() == -signal.SIGKILL
    assert outcome(train(recipe, folder_setting, ranks=2)) == undisturbed
    assert not left_over(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_a_signal_saves_a_checkpoint_and_says_how_to_continue(recipe, undisturbed, name):
    step = random.Random(f"{SEED} {name}").choice([1, 4, 5, 7, 10, 13])
    print(f"seed {SEED}: {name} in step {step}")
    folder_setting = f"training.folder={name.lower()}"
    folder = recipe.parent / name.lower()
    fault = {"kind": "at_step", "step": step, "signals": [name]}
    trainee = start(recipe, folder_setting, faults=[fault])
    assert trainee.wait() == 75, trainee.text
    assert f"stopped and saved at update {step}; run the same command to continue" in trainee.text
    assert max(saved_steps(folder)) == step
    assert outcome(train(recipe, folder_setting)) == undisturbed


@pytest.mark.slow
def test_stopping_twice_in_an_interval_averages_the_same_checkpoints(recipe, undisturbed):
    for step in (16, 17):
        fault = {"kind": "at_step", "step": step, "signals": ["SIGTERM"]}
        assert start(recipe, "training.folder=twice", faults=[fault]).wait() == 75
    assert outcome(train(recipe, "training.folder=twice")) == undisturbed


@pytest.mark.slow
def test_a_second_signal_ends_the_process_at_once_without_damage(recipe, undisturbed):
    """In the middle of a step, and at two points of a save."""
    folder_setting, both = "training.folder=second", ["SIGTERM", "SIGINT"]
    faults = [
        {"kind": "at_step", "step": 5, "signals": both},
        {"kind": "at_call", "step": 6, "call": 6, "signals": both},
        {"kind": "at_call", "step": 6, "call": 14, "signals": both},
    ]
    for fault in faults:
        trainee = start(recipe, folder_setting, faults=[fault])
        assert trainee.wait() in (128 + signal.SIGTERM, 128 + signal.SIGINT), trainee.text
        assert saved_steps(recipe.parent / "second") == [3]
    assert outcome(train(recipe, folder_setting)) == undisturbed
    assert not left_over(recipe.parent / "second")


@pytest.mark.slow
def test_a_signal_to_one_rank_stops_all_at_the_same_step(recipe, undisturbed):
    folder_setting = "training.folder=stopped-rank"
    fault = {"kind": "at_step", "step": 7, "rank": 1, "signals": ["SIGTERM"]}
    trainee = start(recipe, folder_setting, ranks=2, faults=[fault])
    assert trainee.wait() == 1, trainee.text
    assert "stopped and saved at update 7; run the same command to continue" in trainee.text
    assert "75" in trainee.exit_codes
    assert not trainee.orphans()
    assert max(saved_steps(recipe.parent / "stopped-rank")) == 7
    assert outcome(train(recipe, folder_setting, ranks=2)) == undisturbed


@pytest.mark.slow
def test_a_signal_to_torchrun_saves_a_checkpoint(tmp_path):
    """The real commands: torchrun gets the signal and forwards it to its ranks."""
    recipe = digits.write(tmp_path, model=DROPOUT, training=TRAINING | {"steps": 2000})
    log, folder = tmp_path / "log.txt", tmp_path / "run"
    with trainees.real_torchrun(2, str(recipe), log=log) as process:
        wait_for(lambda: len(journal(folder)) > 8)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=180) != 0
    text = log.read_text(encoding="utf-8")
    stopped = re.findall(
        r"stopped and saved at update (\d+); run the same command to continue", text
    )
    assert stopped, text
    assert {*map(int, stopped)} == {max(saved_steps(folder))}
    assert not _processes_with(str(recipe))
    step = int(stopped[0])
    setting = f"training.steps={step + 2}"
    expected = outcome(train(recipe, setting, "training.folder=undisturbed"))
    assert outcome(train(recipe, setting)) == expected


def _processes_with(word):
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                processes.append(path.parent.name)
    return processes
