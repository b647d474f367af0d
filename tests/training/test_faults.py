"""Does a run survive full disks, damaged checkpoints, wrong numbers, and ranks that fall silent?"""

import contextlib
import json
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

import digits
from dragoman.durable import sha256
from dragoman.errors import ArtifactError
from dragoman.training.checkpoint import Checkpoints
from dragoman.training.parallel import World
from training import trainees
from training.trainees import (
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
TRAINING = {"steps": 14, "save_every": 4, "validate_every": 100, "keep": 9, "average": 1}
DISK = 2_400_000
"""Room for eight checkpoints of the small model."""
TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _nobody_is_left():
    yield
    trainees.kill_the_rest()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return digits.write(tmp_path_factory.mktemp("faults"), training=TRAINING)


@pytest.fixture(scope="module")
def undisturbed(recipe):
    return train(recipe, "training.folder=undisturbed")


# A disk that is full.


@dataclass(frozen=True)
class Disk:
    """A small disk, or a folder whose files may be made to stay small."""

    folder: Path
    is_real: bool

    def full(self, step, until=0, leave=100_000):
        """Fill it from one step to another."""
        if self.is_real:
            place = {"folder": str(self.folder), "leave": leave}
            return {"kind": "full_disk", "step": step, "until": until, **place}
        return {"kind": "small_files", "step": step, "until": until, "size": leave or 20_000}

    def empty(self):
        (self.folder / "ballast").unlink(missing_ok=True)


@contextlib.contextmanager
def mounted(folder, size):
    """A file system in memory, where we may mount one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    try:
        is_real = subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        is_real = False
    print("a tmpfs" if is_real else "may not mount: a limit on the size of files instead")
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
def test_a_disk_that_is_full_for_a_while_is_told_and_training_goes_on(recipe, undisturbed, disk):
    override = f"training.folder={disk.folder}/run"
    trainee = start(recipe, override, faults=[disk.full(5, until=9)])
    assert trainee.wait() == 0, trainee.text
    assert "not saved: " in trainee.text
    assert "the newest checkpoint is of step 4" in trainee.text
    told = journal(disk.folder / "run")
    assert [each["step"] for each in told if each["kind"] == "not_saved"] == [8]
    story, weights = outcome(undisturbed)
    assert [each for each in told if each["kind"] != "not_saved"] == story
    assert sha256(disk.folder / "run/model.safetensors") == weights
    assert saved_steps(disk.folder / "run") == [4, 12, 14]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [0, 2])
def test_three_saves_that_fail_in_a_row_end_it(recipe, undisturbed, disk, ranks):
    """With two ranks, in shards: whoever fails, all agree, and nothing half done stays."""
    folder = disk.folder / "run"
    overrides = [f"training.folder={folder}", "training.parallel=fsdp"]
    saving = ["training.save_every=1", "training.keep=3"]
    fault = disk.full(5, leave=40_000)
    trainee = start(recipe, *overrides, *saving, ranks=ranks, faults=[fault])
    assert trainee.wait() == (1 if ranks else 74), trainee.text
    assert "3 saves failed one after the other; not saved: " in trainee.text
    assert [each["step"] for each in journal(folder) if each["kind"] == "not_saved"] == [5, 6, 7]
    assert saved_steps(folder) == [2, 3, 4]
    assert not left_over(folder)
    assert not (folder / "format.json").exists()
    if not ranks:
        for name in ("model.safetensors", "optimizer.safetensors"):
            place = f"checkpoints/step-00000004/{name}"
            assert sha256(folder / place) == sha256(undisturbed / place)
    disk.empty()
    train(recipe, *overrides, ranks=ranks)
    if not ranks:
        assert outcome(folder) == outcome(undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "leave", "stop"),
    [(13, 100_000, 0), (5, 100_000, 6), (5, 0, 0), (-1, 40_000, 0)],
    ids=["the last save", "a stop", "everything", "the model"],
)
def test_what_is_not_saved_never_ends_well(recipe, undisturbed, disk, step, leave, stop):
    """Full for the last save, for the save of a stop, to the last byte, or for the model only."""
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
        assert "and two checkpoints take" in trainee.text
        assert "make room, or choose another training.folder" in trainee.text
        assert not journal(disk.folder / "run")


# Checkpoints that are damaged.


ALONE = World(0, 1, torch.device("cpu"))


@pytest.fixture
def three(tmp_path):
    """Three checkpoints of other weights, and the weights."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", ALONE)
    weights = {}
    for step in (1, 2, 3):
        model = {"a": torch.randn(40, 16), "b": torch.randn(16)}
        others = {f"first_moment.{name}": torch.randn_like(each) for name, each in model.items()}
        checkpoints.save(step, model, others, {"step": step, "place": [0, 0, step]})
        weights[step] = model | others
    return checkpoints, weights


def taken(checkpoints, weights):
    """The step that is gone on from; its weights must be those that were saved."""
    found = checkpoints.newest()
    loaded = {name: torch.empty_like(each) for name, each in weights[1].items()}
    checkpoints.load(found.folder, loaded)
    step = found.state["step"]
    assert found.folder.name == f"step-{step:08d}"
    assert all(torch.equal(loaded[name], weights[step][name]) for name in loaded)
    return step, found.passed_over


def test_a_flipped_bit_anywhere_is_noticed(three):
    checkpoints, weights = three
    chance = random.Random(SEED)
    files = sorted((checkpoints.folder / "step-00000003").iterdir())
    assert len(files) == 4
    for number in range(240):
        file = files[number % 4]
        whole = file.read_bytes()
        place, bit = chance.randrange(len(whole)), chance.randrange(8)
        flipped = bytearray(whole)
        flipped[place] ^= 1 << bit
        file.write_bytes(flipped)
        step, passed_over = taken(checkpoints, weights)
        assert step == 2, f"seed {SEED}: bit {bit} of byte {place} of {file.name}"
        assert passed_over[0].startswith("step-00000003 is damaged: ")
        file.write_bytes(whole)
    assert taken(checkpoints, weights) == (3, ())


def test_a_file_cut_anywhere_is_noticed(three):
    checkpoints, weights = three
    chance = random.Random(SEED)
    for file in sorted((checkpoints.folder / "step-00000003").iterdir()):
        whole = file.read_bytes()
        lengths = {0, 1, 7, 8, len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(12))}
        for length in sorted(lengths):
            for rest in (b"", bytes(len(whole) - length)):
                if whole[:length] + rest == whole:
                    continue
                file.write_bytes(whole[:length] + rest)
                step, passed_over = taken(checkpoints, weights)
                # A manifest without its last line end says the same.
                is_whole = file.name == "manifest.json" and length == len(whole) - 1 and not rest
                assert step == 3 if is_whole else step == 2, f"seed {SEED}: {length} of {file}"
                assert len(passed_over) == (not is_whole)
        file.write_bytes(whole)
    assert taken(checkpoints, weights) == (3, ())


def test_missing_swapped_and_foreign_files_are_noticed(three):
    checkpoints, weights = three
    newest, older = (checkpoints.folder / f"step-0000000{step}" for step in (3, 2))
    kept = shutil.copytree(newest, newest.with_name("kept"))
    names = sorted(each.name for each in newest.iterdir())
    ways = {f"{name} is missing": (lambda name=name: (newest / name).unlink()) for name in names}
    ways |= {
        f"{name} is another's": (lambda name=name: shutil.copy(older / name, newest / name))
        for name in names
    }
    model, others = newest / "model.safetensors", newest / "optimizer.safetensors"
    ways["files are swapped"] = lambda: (
        model.rename(newest / "x"),
        others.rename(model),
        (newest / "x").rename(others),
    )
    ways["a file more"] = lambda: shutil.copy(older / model.name, newest / "more.safetensors")
    for way, damage in ways.items():
        damage()
        step, passed_over = taken(checkpoints, weights)
        assert step == 2, way
        assert len(passed_over) == 1, way
        shutil.rmtree(newest)
        shutil.copytree(kept, newest)
    assert taken(checkpoints, weights) == (3, ())


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "7", '"x"', "{}", '{"format": 1}', '{"format": 2, "sha256": {}}']
    + [f'{{"format": 1, "sha256": {value}}}' for value in ("null", "7", "[]", "{}", '["x"]')]
    + ['{"format": 1, "sha256": {"state.json": null}}', "\udcff\udcfe", "[" * 100_000],
)
def test_a_manifest_that_is_none_is_noticed(three, text):
    checkpoints, weights = three
    path = checkpoints.folder / "step-00000003/manifest.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    step, passed_over = taken(checkpoints, weights)
    assert step == 2
    assert len(passed_over) == 1


def test_every_checkpoint_is_tried_before_giving_up(three):
    checkpoints, weights = three
    (checkpoints.folder / "step-00000003/state.json").write_text("{}", encoding="utf-8")
    (checkpoints.folder / "step-00000002/model.safetensors").unlink()
    step, passed_over = taken(checkpoints, weights)
    assert step == 1
    assert [each.partition(" is damaged: ")[0] for each in passed_over] == [
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
        "Remove the run's folder to begin anew",
    ):
        assert reason in str(caught.value)


def _flip(folder, step, name="model.safetensors"):
    """Flip one bit of the last weight."""
    path = folder / f"checkpoints/step-{step:08d}/{name}"
    content = bytearray(path.read_bytes())
    content[-2] ^= 16
    path.write_bytes(content)


@pytest.mark.slow
def test_a_run_goes_on_from_the_older_checkpoint_and_forgets_the_damaged_one(recipe, undisturbed):
    folder = recipe.parent / "damaged"
    override = "training.folder=damaged"
    stop = {"kind": "at_step", "step": 10, "signals": ["SIGTERM"]}
    assert start(recipe, override, faults=[stop]).wait() == 75
    _flip(folder, 10)
    kill = {"kind": "at_step", "step": 10, "signals": ["SIGKILL"]}
    trainee = start(recipe, override, faults=[kill])
    assert trainee.wait() == -signal.SIGKILL
    assert "step-00000010 is damaged: model.safetensors is not what was written" in trainee.text
    # Else it would count as the newest, and push out those that are whole.
    assert saved_steps(folder) == [4, 8]
    assert outcome(train(recipe, override)) == outcome(undisturbed)

    for step in saved_steps(folder):
        _flip(folder, step, "optimizer.safetensors")
    trainee = start(recipe, override)
    assert trainee.wait() == 4, trainee.text
    assert "can be used" in trainee.text
    assert "Traceback" not in trainee.text


@pytest.mark.slow
def test_a_model_is_never_made_of_a_damaged_checkpoint(recipe):
    """The newest is whole, but one of those that are averaged is not."""
    folder, override = recipe.parent / "averaged", "training.folder=averaged"
    fault = {"kind": "at_step", "step": 13, "signals": ["SIGKILL"]}
    average = "training.average=3"
    assert start(recipe, override, average, faults=[fault]).wait() == -signal.SIGKILL
    _flip(folder, 8)
    trainee = start(recipe, override, average)
    assert trainee.wait() == 4, trainee.text
    assert "step-00000008 is damaged: model.safetensors is not what was written" in trainee.text
    assert "Remove them and run it again, to make it of the others" in trainee.text
    assert not (folder / "model.safetensors").exists()
    shutil.rmtree(folder / "checkpoints/step-00000008")
    train(recipe, override, average)
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    assert card["weights_of_steps"] == [4, 12, 14]


# Numbers that are none.


def broken(**options):
    return digits.RECIPE["model"] | {"similarity": {"name": "training.broken", **options}}


def _is_finite(path):
    return all(bool(each.isfinite().all()) for each in load_file(path).values())


@pytest.mark.slow
def test_all_ranks_skip_the_step_in_which_one_has_no_number(tmp_path):
    """Spoiled in the fifth step: by either rank, by one alone, going forward or back."""
    training = TRAINING | {"moving_average": 0.9}
    (tmp_path / "alone").mkdir()
    first = digits.write(tmp_path / "alone", training=training, model=broken(first=17, last=17))
    expected = outcome(train(first, path=[TESTS]))
    story = expected[0]
    assert [each["step"] for each in story if each["kind"] == "skipped"] == [5]
    assert [each["step"] for each in story if each["kind"] == "learned"] == [
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
def test_numbers_that_do_not_come_back_end_the_run_and_keep_the_good(tmp_path):
    training = TRAINING | {"steps": 100, "moving_average": 0.9}
    model = broken(first=4 * 6 + 1, last=10**6)
    recipe = digits.write(tmp_path, training=training, model=model)
    trainee = start(recipe, path=[TESTS])
    assert trainee.wait() == 70, trainee.text
    for words in (
        "training has diverged: 21 of the last 1000 steps gave no finite loss or gradient",
        "the latest at step 27",
        "The newest checkpoint (of step 24) is from before it and is kept",
        "Try a lower training.learning_rate",
    ):
        assert words in trainee.text, trainee.text
    assert "Traceback" not in trainee.text
    run = tmp_path / "run"
    assert not (run / "model.safetensors").exists()
    files = sorted(run.rglob("*.safetensors"))
    assert len(files) == 12
    assert all(map(_is_finite, files))
    # Nothing was learned from the sixth step on, so nothing changed.
    eight, last = (run / f"checkpoints/step-{step:08d}" for step in (8, 24))
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert sha256(eight / name) == sha256(last / name)


# Ranks that die or fall silent, and trainers that meet.


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_a_rank_that_dies_or_falls_silent_is_noticed(recipe, name):
    """The others wait 30 s, and torchrun again 30 s for the silent one; here, 3 each."""
    faults = [
        {"kind": "impatient", "seconds": 3},
        {"kind": "at_step", "step": 6, "rank": 1, "signals": [name]},
    ]
    began = time.monotonic()
    override = f"training.folder={name.lower()}"
    trainee = start(recipe, override, ranks=2, faults=faults, grace=3)
    assert trainee.wait(45) == 1, trainee.text
    print(f"noticed, and all ended, {time.monotonic() - began:.1f} s after the start")
    assert not trainee.orphans()
    assert saved_steps(recipe.parent / name.lower()) == [4]


@pytest.mark.slow
def test_torchrun_starts_again_from_the_last_checkpoint(recipe, undisturbed):
    """Then one of them comes late: the other must not take a dead one for it."""
    faults = [
        {"kind": "at_step", "step": 7, "rank": 1, "attempt": 0, "signals": ["SIGKILL"]},
        {"kind": "late", "rank": 1, "attempt": 1, "seconds": 2},
    ]
    override = "training.folder=restarted"
    folder = train(recipe, override, ranks=2, faults=faults, torchrun=["--max-restarts", "1"])
    assert outcome(folder) == outcome(undisturbed)


@pytest.mark.slow
def test_a_second_trainer_is_refused_with_the_number_of_the_first(recipe, undisturbed):
    override = "training.folder=claimed"
    fault = {"kind": "at_step", "step": 6, "signals": ["SIGSTOP"]}
    first = start(recipe, override, faults=[fault])
    wait_for(lambda: _state(first.process) == "T")
    second = start(recipe, override)
    assert second.wait() == 4, second.text
    assert f"is being trained by process {first.process}; wait for it, stop it" in second.text
    assert session(first.process) == [first.process]
    os.kill(first.process, signal.SIGCONT)
    assert first.wait() == 0, first.text
    assert outcome(recipe.parent / "claimed") == outcome(undisturbed)


def _state(process):
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
