"""The number of ranks changes only the time.

An update has four micro-batches, which one, two or four ranks share. torchrun forks the ranks.
"""

import json
from collections import Counter

import pytest

from dragoman.data.store import Prepared
from dragoman.training.card import read_card
from support import digits, trainees
from support.trainees import left_over, losses, outcome, saved_steps, start, train

pytestmark = pytest.mark.slow

DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1, "feed_forward_dropout": 0.1}
TRAINING = {
    "steps": 14,
    "save_every": 4,
    "validate_every": 7,
    "ema_decay": 0.9,
    "average_checkpoints": 3,
}
FSDP = "training.parallel=fsdp"
TOLERANCE = 1e-5
"""Relative difference of losses. Gradients are summed in another order, and Adam divides by small
ones. Over five seeds with two and four ranks, and three seeds stopped and resumed, most losses
differ by at most 1e-7 and one by 1.3e-6: a limit of 1e-6 would fail by chance."""


@pytest.fixture(autouse=True)
def _kill_processes():
    yield
    trainees.kill_all()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return digits.write(tmp_path_factory.mktemp("ranks"), model=DROPOUT, training=TRAINING)


@pytest.fixture(scope="module")
def alone(recipe):
    return train(recipe, "training.folder=alone")


@pytest.fixture(scope="module")
def sharded(recipe):
    """Trained by two ranks; each has half of every weight."""
    return train(recipe, "training.folder=sharded", FSDP, ranks=2)


def stop_in(step, recipe, *settings, faults=(), **options):
    """Train up to a step, and stop there by a signal."""
    fault = {"kind": "at_step", "step": step, "rank": 0, "signals": ["SIGTERM"]}
    trainee = start(recipe, *settings, faults=[fault, *faults], **options)
    assert trainee.wait() == (1 if options.get("ranks") else 75), trainee.text
    assert f"stopped and saved at update {step};" in trainee.text


@pytest.mark.parametrize("ranks", [1, 4])
def test_several_ranks_change_no_bit(recipe, alone, ranks):
    folder = train(recipe, f"training.folder=ranks-{ranks}", ranks=ranks)
    assert outcome(folder) == outcome(alone)
    assert read_card(folder).world_size == ranks


def test_a_changing_number_of_ranks_changes_no_bit_and_reads_every_pair_once(
    recipe, alone, tmp_path
):
    """One rank, then two, then four, then one, stopped in the middle of an epoch."""
    rows, folder_setting = tmp_path / "rows.jsonl", "training.folder=changing"
    listing = {"kind": "listed_rows", "path": str(rows)}
    stop_in(3, recipe, folder_setting, faults=[listing])
    stop_in(6, recipe, folder_setting, faults=[listing], ranks=2)
    stop_in(8, recipe, folder_setting, faults=[listing], ranks=4)
    folder = train(recipe, folder_setting, faults=[listing])
    assert outcome(folder) == outcome(alone)

    # Rows that were read ahead before a stop are read again, for the same position.
    batches = {}
    for line in rows.read_text(encoding="utf-8").splitlines():
        then, number, shard, chosen, epoch = json.loads(line)
        assert batches.setdefault((*then, number), (epoch, shard, chosen)) == (epoch, shard, chosen)
    reads = Counter((epoch, shard, row) for epoch, shard, rows in batches.values() for row in rows)
    last = json.loads((folder / "checkpoints/step-00000014/state.json").read_text())["position"][0]
    pairs = Prepared.open(recipe.parent / "prepared").rows
    everything = {
        (epoch, shard, row)
        for epoch in range(last)
        for shard, count in enumerate(pairs)
        for row in range(count)
    }
    assert last >= 2
    assert {row for row in reads if row[0] < last} == everything
    assert max(reads.values()) == 1


def test_fsdp_gives_the_losses_of_ddp(alone, sharded):
    ours, others = losses(sharded), losses(alone)
    worst = max(abs(ours[step] - others[step]) / others[step] for step in others)
    print(f"largest relative difference of a loss: {worst:.1e}")
    assert ours.keys() == others.keys()
    assert worst < TOLERANCE
    files = {path.name for path in (sharded / "checkpoints/step-00000014").iterdir()}
    shards = {name for name in files if name.endswith(".safetensors")}
    assert files - shards == {"manifest.json", "state.json"}
    assert len(shards) == 2


def test_muon_works_with_shards(recipe):
    muon = ("training.optimizer=muon", "training.schedule=linear")
    alone = train(recipe, "training.folder=muon-alone", *muon)
    sharded = train(recipe, "training.folder=muon-sharded", FSDP, *muon, ranks=2)
    assert losses(sharded) == pytest.approx(losses(alone), rel=TOLERANCE)
    # Stopped, and resumed with another number of ranks: the momentum is saved and put together.
    stop_in(6, recipe, "training.folder=muon-stopped", *muon, ranks=2)
    assert outcome(train(recipe, "training.folder=muon-stopped", *muon)) == outcome(alone)


def test_a_killed_fsdp_run_changes_no_bit(recipe, sharded):
    """Killed in a step, and while a rank writes its shard."""
    folder_setting = "training.folder=killed-shards"
    in_a_step = {"kind": "at_step", "step": 6, "rank": 1, "signals": ["SIGKILL"]}
    in_a_save = {"kind": "at_call", "step": 8, "call": 2, "rank": 1, "signals": ["SIGKILL"]}
    # Step 7 was validated and is the best.
    for fault, saved in ((in_a_step, [4]), (in_a_save, [4, 7])):
        trainee = start(recipe, folder_setting, FSDP, ranks=2, faults=[fault])
        assert trainee.wait() == 1, trainee.text
        assert not trainee.orphans()
        assert saved_steps(recipe.parent / "killed-shards") == saved
    folder = train(recipe, folder_setting, FSDP, ranks=2)
    assert outcome(folder) == outcome(sharded)
    assert not left_over(folder)


def test_an_fsdp_run_is_resumed_on_one_device_and_back(recipe, alone):
    folder_setting = "training.folder=together"
    stop_in(5, recipe, folder_setting, FSDP, ranks=2)
    stop_in(9, recipe, folder_setting, FSDP)
    folder = train(recipe, folder_setting, FSDP, ranks=4)
    assert losses(folder) == pytest.approx(losses(alone), rel=TOLERANCE)


def test_measuring_the_memory_leaves_the_weights_sharded(recipe, alone):
    """The memory is measured by a forward pass, which must leave no weight unsharded."""
    settings = ("training.folder=measured", "training.micro_batch=auto")
    folder = train(recipe, FSDP, *settings, ranks=2)
    assert max(saved_steps(folder)) == max(saved_steps(alone))


def test_activation_checkpointing_gives_the_same_run(recipe, alone, sharded):
    setting = "training.activation_checkpointing=true"
    one = train(recipe, "training.folder=again", setting)
    assert outcome(one) == outcome(alone)
    two = train(recipe, "training.folder=again-sharded", FSDP, setting, ranks=2)
    assert outcome(two) == outcome(sharded)


def test_more_ranks_than_micro_batches_are_refused(recipe):
    settings = ["training.folder=few", "training.micro_batch=256"]
    stop_in(2, recipe, *settings)
    trainee = start(recipe, *settings, ranks=4)
    assert trainee.wait() == 1
    assert "an update of this run has 2 micro-batches, too few for 4 ranks" in trainee.text
    assert "start it with at most 2 ranks" in trainee.text
    assert "4" in trainee.exit_codes


def test_fsdp_ranks_that_do_not_divide_the_micro_batches_are_refused(recipe):
    trainee = start(recipe, "training.folder=three", FSDP, ranks=3)
    assert trainee.wait() == 1
    assert "found 3 ranks, expected a number that divides 4" in trainee.text
    assert "4" in trainee.exit_codes
