"""A run survives full disks, damaged checkpoints, NaN, and dead or silent ranks."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dragoman.errors import ArtifactError
from dragoman.storage.files import sha256
from dragoman.training.card import read_card
from dragoman.training.checkpoint import Checkpoints
from dragoman.training.parallel import World
from support import digits, trainees
from support.trainees import (
    journal,
    left_over,
    outcome,
    saved_steps,
    session,
    start,
    train,
    wait_for,
)

SEED = 20170612
TRAINING = {
    "steps": 14,
    "save_every": 4,
    "validate_every": 100,
    "keep_checkpoints": 9,
    "average_checkpoints": 1,
}
DISK = 2_400_000
"""Bytes; enough for eight checkpoints of the small model."""
TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _kill_processes():
    yield
    trainees.kill_all()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return digits.write(tmp_path_factory.mktemp("faults"), training=TRAINING)


@pytest.fixture(scope="module")
def undisturbed(recipe):
    return train(recipe, "training.folder=undisturbed")


# Full disks.


@dataclass(frozen=True)
class Disk:
    """A small disk, or a folder in which the size of files can be limited."""

    folder: Path
    is_real: bool

    def full(self, step, until=0, leave=100_000):
        """Fill it from one step to another."""
        if self.is_real:
            disk = {"folder": str(self.folder), "leave": leave}
            return {"kind": "full_disk", "step": step, "until": until, **disk}
        return {"kind": "small_files", "step": step, "until": until, "size": leave or 20_000}

    def empty(self):
        (self.folder / "ballast").unlink(missing_ok=True)


@contextlib.contextmanager
def mounted(folder, size):
    """A file system in memory, if this process may mount one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    try:
        is_real = subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        is_real = False
    print("tmpfs" if is_real else "mounting is not allowed: the size of files is limited instead")
    try:
        yield Disk(folder, is_real)
    finally:
        if is_real:
            subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def disk(recipe, tmp_path):
    with mounted(tmp_path / "disk", DISK) as disk:
        yield disk


@pytest.mark.slow
def test_a_disk_that_is_full_for_a_while_is_reported_and_training_continues(
    recipe, undisturbed, disk
):
    folder_setting = f"training.folder={disk.folder}/run"
    trainee = start(recipe, folder_setting, faults=[disk.full(5, until=9)])
    assert trainee.wait() == 0, trainee.text
    assert "checkpoint not saved: " in trainee.text
    assert "newest checkpoint: update 4" in trainee.text
    entries = journal(disk.folder / "run")
    assert [entry["step"] for entry in entries if entry["kind"] == "save_failed"] == [8]
    expected, weights = outcome(undisturbed)
    assert [entry for entry in entries if entry["kind"] != "save_failed"] == expected
    assert sha256(disk.folder / "run/model.safetensors") == weights
    assert saved_steps(disk.folder / "run") == [4, 12, 14]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [0, 2])
def test_three_failed_saves_in_a_row_end_the_run(recipe, undisturbed, disk, ranks):
    """With two ranks and shards: if one rank fails, all fail, and nothing incomplete stays."""
    folder = disk.folder / "run"
    settings = [f"training.folder={folder}", "training.parallel=fsdp"]
    saving = ["training.save_every=1", "training.keep_checkpoints=3"]
    fault = disk.full(5, leave=40_000)
    trainee = start(recipe, *settings, *saving, ranks=ranks, faults=[fault])
    assert trainee.wait() == (1 if ranks else 74), trainee.text
    assert "3 saves in a row failed; checkpoint not saved: " in trainee.text
    failed = [entry["step"] for entry in journal(folder) if entry["kind"] == "save_failed"]
    assert failed == [5, 6, 7]
    assert saved_steps(folder) == [2, 3, 4]
    assert not left_over(folder)
    assert not (folder / "format.json").exists()
    if not ranks:
        for name in ("model.safetensors", "optimizer.safetensors"):
            file = f"checkpoints/step-00000004/{name}"
            assert sha256(folder / file) == sha256(undisturbed / file)
    disk.empty()
    train(recipe, *settings, ranks=ranks)
    if not ranks:
        assert outcome(folder) == outcome(undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "leave", "stop"),
    [(13, 100_000, 0), (5, 100_000, 6), (5, 0, 0), (-1, 40_000, 0)],
    ids=["the last save", "a stop", "everything", "the model"],
)
def test_a_run_that_cannot_be_saved_ends_with_an_error(
    recipe, undisturbed, disk, step, leave, stop
):
    """Full at the last save, at the save of a stop, to the last byte, or for the model only."""
    folder, faults = disk.folder / "run", [disk.full(step, leave=leave)]
    if stop:
        faults.append({"kind": "at_step", "step": stop, "signals": ["SIGTERM"]})
    trainee = start(recipe, f"training.folder={folder}", faults=faults)
    assert trainee.wait() == 74, trainee.text
    assert "Traceback" not in trainee.text
    assert not (folder / "format.json").exists()
    assert not left_over(folder)
    disk.empty()
    assert outcome(train(recipe, f"training.folder={folder}")) == outcome(undisturbed)


@pytest.mark.slow
def test_a_disk_too_small_for_two_checkpoints_is_refused_at_once(recipe, tmp_path):
    with mounted(tmp_path / "disk", 400_000) as disk:
        faults = [] if disk.is_real else [{"kind": "little_space", "free": 400_000}]
        trainee = start(recipe, f"training.folder={disk.folder}/run", faults=faults)
        assert trainee.wait() == 74, trainee.text
        assert "but two checkpoints need" in trainee.text
        assert "free some space, or choose another training.folder" in trainee.text
        assert not journal(disk.folder / "run")


# Damaged checkpoints.


ALONE = World(0, 1, torch.device("cpu"))


@pytest.fixture
def three(tmp_path):
    """Three checkpoints with different weights, and the weights."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", ALONE)
    weights = {}
    for step in (1, 2, 3):
        model = {"a": torch.randn(40, 16), "b": torch.randn(16)}
        others = {f"first_moment.{name}": torch.randn_like(value) for name, value in model.items()}
        checkpoints.save(step, model, others, {"step": step, "position": [0, 0, step]})
        weights[step] = model | others
    return checkpoints, weights


def resumed_step(checkpoints, weights):
    """The step to resume from, and the skipped checkpoints; the weights must be those saved."""
    newest = checkpoints.newest()
    loaded = {name: torch.empty_like(value) for name, value in weights[1].items()}
    checkpoints.load(newest.folder, loaded)
    step = newest.state["step"]
    assert newest.folder.name == f"step-{step:08d}"
    assert all(torch.equal(loaded[name], weights[step][name]) for name in loaded)
    return step, newest.skipped


def test_a_flipped_bit_anywhere_is_detected(three):
    checkpoints, weights = three
    rng = random.Random(SEED)
    files = sorted((checkpoints.folder / "step-00000003").iterdir())
    assert len(files) == 4
    for number in range(240):
        file = files[number % 4]
        whole = file.read_bytes()
        position, bit = rng.randrange(len(whole)), rng.randrange(8)
        flipped = bytearray(whole)
        flipped[position] ^= 1 << bit
        file.write_bytes(flipped)
        step, skipped = resumed_step(checkpoints, weights)
        assert step == 2, f"seed {SEED}: bit {bit} of byte {position} of {file.name}"
        assert skipped[0].startswith("step-00000003 is damaged: ")
        file.write_bytes(whole)
    assert resumed_step(checkpoints, weights) == (3, ())


def test_a_truncated_file_is_detected(three):
    checkpoints, weights = three
    rng = random.Random(SEED)
    for file in sorted((checkpoints.folder / "step-00000003").iterdir()):
        whole = file.read_bytes()
        lengths = {0, 1, 7, 8, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(12))}
        for length in sorted(lengths):
            for rest in (b"", bytes(len(whole) - length)):
                if whole[:length] + rest == whole:
                    continue
                file.write_bytes(whole[:length] + rest)
                step, skipped = resumed_step(checkpoints, weights)
                # A manifest without its last newline has the same content.
                is_whole = file.name == "manifest.json" and length == len(whole) - 1 and not rest
                assert step == 3 if is_whole else step == 2, f"seed {SEED}: {length} of {file}"
                assert len(skipped) == (not is_whole)
        file.write_bytes(whole)
    assert resumed_step(checkpoints, weights) == (3, ())


def test_missing_swapped_and_foreign_files_are_detected(three):
    checkpoints, weights = three
    newest, older = (checkpoints.folder / f"step-0000000{step}" for step in (3, 2))
    kept = shutil.copytree(newest, newest.with_name("kept"))
    names = sorted(path.name for path in newest.iterdir())
    damages = {f"{name} is missing": (lambda name=name: (newest / name).unlink()) for name in names}
    damages |= {
        f"{name} is from another checkpoint": (
            lambda name=name: shutil.copy(older / name, newest / name)
        )
        for name in names
    }
    model, others = newest / "model.safetensors", newest / "optimizer.safetensors"
    damages["files are swapped"] = lambda: (
        model.rename(newest / "x"),
        others.rename(model),
        (newest / "x").rename(others),
    )
    damages["a file more"] = lambda: shutil.copy(older / model.name, newest / "more.safetensors")
    for name, damage in damages.items():
        damage()
        step, skipped = resumed_step(checkpoints, weights)
        assert step == 2, name
        assert len(skipped) == 1, name
        shutil.rmtree(newest)
        shutil.copytree(kept, newest)
    assert resumed_step(checkpoints, weights) == (3, ())


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "7", '"x"', "{}", '{"format": 1}', '{"format": 2, "sha256": {}}']
    + [f'{{"format": 1, "sha256": {value}}}' for value in ("null", "7", "[]", "{}", '["x"]')]
    + ['{"format": 1, "sha256": {"state.json": null}}', "\udcff\udcfe", "[" * 100_000],
)
def test_an_invalid_manifest_is_detected(three, text):
    checkpoints, weights = three
    path = checkpoints.folder / "step-00000003/manifest.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    step, skipped = resumed_step(checkpoints, weights)
    assert step == 2
    assert len(skipped) == 1


def test_every_checkpoint_is_tried_before_giving_up(three):
    checkpoints, weights = three
    (checkpoints.folder / "step-00000003/state.json").write_text("{}", encoding="utf-8")
    (checkpoints.folder / "step-00000002/model.safetensors").unlink()
    step, skipped = resumed_step(checkpoints, weights)
    assert step == 1
    assert [reason.partition(" is damaged: ")[0] for reason in skipped] == [
        "step-00000003",
        "step-00000002",
    ]
    (checkpoints.folder / "step-00000001/manifest.json").unlink()
    with pytest.raises(ArtifactError, match=r"no checkpoint in .* can be used") as caught:
        checkpoints.newest()
    assert caught.value.exit_code == 4
    for reason in (
        "step-00000003 is damaged: state.json is not what was written",
        "step-00000002 is damaged: model.safetensors is missing",
        "step-00000001 is damaged: it has no manifest.json",
        "Remove the run's folder to start again",
    ):
        assert reason in str(caught.value)


def test_links_are_not_followed_when_checkpoints_are_removed(three, tmp_path):
    checkpoints, weights = three
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("keep me")
    (checkpoints.folder / "step-00000009").symlink_to(outside)
    (checkpoints.folder / ".step-00000008.old").symlink_to(outside)
    (checkpoints.folder / ".hidden").mkdir()
    assert checkpoints.steps() == [1, 2, 3]
    assert resumed_step(checkpoints, weights) == (3, ())
    checkpoints.keep_only({3})
    assert checkpoints.steps() == [3]
    model = {name: value for name, value in weights[3].items() if "moment" not in name}
    path = checkpoints.save(9, model, {}, {"step": 9, "position": [0, 0, 9]})
    assert path.is_dir()
    assert not path.is_symlink()
    assert (outside / "precious.txt").read_text() == "keep me"
    assert (checkpoints.folder / ".hidden").is_dir(), "only temporary folders of training are swept"


def _flip(folder, step, name="model.safetensors"):
    """Flip one bit of the last weight."""
    path = folder / f"checkpoints/step-{step:08d}/{name}"
    content = bytearray(path.read_bytes())
    content[-2] ^= 16
    path.write_bytes(content)


@pytest.mark.slow
def test_a_run_resumes_from_an_older_checkpoint_and_removes_the_damaged_one(recipe, undisturbed):
    folder = recipe.parent / "damaged"
    folder_setting = "training.folder=damaged"
    stop = {"kind": "at_step", "step": 10, "signals": ["SIGTERM"]}
    assert start(recipe, folder_setting, faults=[stop]).wait() == 75
    _flip(folder, 10)
    kill = {"kind": "at_step", "step": 10, "signals": ["SIGKILL"]}
    trainee = start(recipe, folder_setting, faults=[kill])
    assert trainee.wait() == -signal.SIGKILL
    assert "step-00000010 is damaged: model.safetensors is not what was written" in trainee.text
    # Otherwise it would count as the newest and displace intact ones.
    assert saved_steps(folder) == [4, 8]
    assert outcome(train(recipe, folder_setting)) == outcome(undisturbed)

    for step in saved_steps(folder):
        _flip(folder, step, "optimizer.safetensors")
    trainee = start(recipe, folder_setting)
    assert trainee.wait() == 4, trainee.text
    assert "can be used" in trainee.text
    assert "Traceback" not in trainee.text


@pytest.mark.slow
def test_a_damaged_checkpoint_is_not_averaged_into_the_model(recipe):
    """The newest is intact, but an older one is not."""
    folder, folder_setting = recipe.parent / "averaged", "training.folder=averaged"
    fault = {"kind": "at_step", "step": 13, "signals": ["SIGKILL"]}
    average = "training.average_checkpoints=3"
    assert start(recipe, folder_setting, average, faults=[fault]).wait() == -signal.SIGKILL
    _flip(folder, 8)
    trainee = start(recipe, folder_setting, average)
    assert trainee.wait() == 4, trainee.text
    assert "step-00000008 is damaged: model.safetensors is not what was written" in trainee.text
    assert "Remove them and run the same command again, to use the others" in trainee.text
    assert not (folder / "model.safetensors").exists()
    shutil.rmtree(folder / "checkpoints/step-00000008")
    train(recipe, folder_setting, average)
    assert read_card(folder).checkpoint_steps == (4, 12, 14)


# Losses and gradients that are not finite.


def broken(**options):
    return digits.RECIPE["model"] | {"similarity": {"name": "support.broken", **options}}


def _is_finite(path):
    return all(bool(tensor.isfinite().all()) for tensor in load_file(path).values())


@pytest.mark.slow
def test_all_ranks_skip_an_update_that_is_not_finite_on_one(tmp_path):
    """In the fifth step: on either rank, or on one rank alone, in the loss or in the gradient."""
    training = TRAINING | {"ema_decay": 0.9}
    (tmp_path / "alone").mkdir()
    first = digits.write(tmp_path / "alone", training=training, model=broken(first=17, last=17))
    expected = outcome(train(first, path=[TESTS]))
    entries = expected[0]
    assert [entry["step"] for entry in entries if entry["kind"] == "skipped"] == [5]
    assert [entry["step"] for entry in entries if entry["kind"] == "progress"] == [
        *(1, 2, 3, 4),
        *range(6, 15),
    ]
    for rank, spoils in ((0, "forward"), (1, "forward"), (0, "backward"), (1, "backward")):
        folder = tmp_path / f"{rank}-{spoils}"
        folder.mkdir()
        model = broken(rank=rank, first=9, last=10, spoils=spoils)
        recipe = digits.write(folder, training=training, model=model)
        run = train(recipe, path=[TESTS], ranks=2)
        assert outcome(run) == expected, folder.name
    for path in run.rglob("*.safetensors"):
        assert _is_finite(path), path


@pytest.mark.slow
def test_a_diverged_run_ends_and_keeps_its_finite_checkpoints(tmp_path):
    training = TRAINING | {"steps": 100, "ema_decay": 0.9}
    model = broken(first=4 * 6 + 1, last=10**6)
    recipe = digits.write(tmp_path, training=training, model=model)
    trainee = start(recipe, path=[TESTS])
    assert trainee.wait() == 70, trainee.text
    for text in (
        "training has diverged: 21 of the last 1000 steps were skipped",
        "the last one at step 27",
        "Newest checkpoint: update 24",
        "Try a lower training.learning_rate",
    ):
        assert text in trainee.text, trainee.text
    assert "Traceback" not in trainee.text
    run = tmp_path / "run"
    assert not (run / "model.safetensors").exists()
    files = sorted(run.rglob("*.safetensors"))
    assert len(files) == 12
    assert all(map(_is_finite, files))
    # All updates after the sixth were skipped, so the weights did not change.
    eight, last = (run / f"checkpoints/step-{step:08d}" for step in (8, 24))
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert sha256(eight / name) == sha256(last / name)


# Dead and silent ranks, and two processes for one run.


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_a_dead_or_silent_rank_ends_the_others(recipe, name):
    """The other ranks wait 30 s, and torchrun another 30 s; here, 3 s each."""
    faults = [
        {"kind": "impatient", "seconds": 3},
        {"kind": "at_step", "step": 6, "rank": 1, "signals": [name]},
    ]
    started = time.monotonic()
    folder_setting = f"training.folder={name.lower()}"
    trainee = start(recipe, folder_setting, ranks=2, faults=faults, grace=3)
    assert trainee.wait(45) == 1, trainee.text
    print(f"all ended {time.monotonic() - started:.1f} s after the start")
    assert not trainee.orphans()
    assert saved_steps(recipe.parent / name.lower()) == [4]


@pytest.mark.slow
def test_torchrun_restarts_from_the_last_checkpoint(recipe, undisturbed):
    """Then one rank joins late: the other must not connect to a dead one."""
    faults = [
        {"kind": "at_step", "step": 7, "rank": 1, "attempt": 0, "signals": ["SIGKILL"]},
        {"kind": "late", "rank": 1, "attempt": 1, "seconds": 2},
    ]
    folder_setting = "training.folder=restarted"
    folder = train(recipe, folder_setting, ranks=2, faults=faults, torchrun=["--max-restarts", "1"])
    assert outcome(folder) == outcome(undisturbed)


@pytest.mark.slow
def test_a_second_process_is_refused_with_the_id_of_the_first(recipe, undisturbed):
    folder_setting = "training.folder=claimed"
    fault = {"kind": "at_step", "step": 6, "signals": ["SIGSTOP"]}
    first = start(recipe, folder_setting, faults=[fault])
    wait_for(lambda: _state(first.process) == "T")
    second = start(recipe, folder_setting)
    assert second.wait() == 4, second.text
    assert f"is being trained by process {first.process}; wait for it, stop it" in second.text
    assert session(first.process) == [first.process]
    os.kill(first.process, signal.SIGCONT)
    assert first.wait() == 0, first.text
    assert outcome(recipe.parent / "claimed") == outcome(undisturbed)


def _state(process):
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
