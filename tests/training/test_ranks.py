"""Does the number of ranks change nothing but the time?

Four micro-batches an update: one, two or four ranks share them. Ranks are forked by torchrun.
"""

import json
from collections import Counter

import pytest

import digits
from dragoman.data.store import Prepared
from training import trainees
from training.trainees import left_over, losses, outcome, saved_steps, start, train

pytestmark = pytest.mark.slow

DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1, "feed_forward_dropout": 0.1}
TRAINING = {"steps": 14, "save_every": 4, "validate_every": 7, "moving_average": 0.9, "average": 3}
FSDP = "training.parallel=fsdp"
TOLERANCE = 1e-5
"""Relative, of a loss. Gradients are added in another order, and Adam divides by small ones. Over
five seeds with two and four ranks, and three seeds stopped and gone on with, most differ by 1e-7 at
most, and one by 1.3e-6: a limit of 1e-6 would be broken by chance."""
MUON_TOLERANCE = 1e-3
"""The same, where the last bit of a gradient may change the last of eight bits of a direction."""


@pytest.fixture(autouse=True)
def _nobody_is_left():
    yield
    trainees.kill_the_rest()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return digits.write(tmp_path_factory.mktemp("ranks"), model=DROPOUT, training=TRAINING)


@pytest.fixture(scope="module")
def alone(recipe):
    return train(recipe, "training.folder=alone")


@pytest.fixture(scope="module")
def sharded(recipe):
    """Trained by two ranks that each have half of every weight."""
    return train(recipe, "training.folder=sharded", FSDP, ranks=2)


def stop_in(step, recipe, *overrides, faults=(), **more):
    """Train up to a step, and be stopped in it."""
    fault = {"kind": "at_step", "step": step, "rank": 0, "signals": ["SIGTERM"]}
    trainee = start(recipe, *overrides, faults=[fault, *faults], **more)
    assert trainee.wait() == (1 if more.get("ranks") else 75), trainee.text
    assert f"stopped and saved at step {step};" in trainee.text


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_that_share_the_work_change_no_bit(recipe, alone, ranks):
    folder = train(recipe, f"training.folder=ranks-{ranks}", ranks=ranks)
    assert outcome(folder) == outcome(alone)
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    assert card["ranks"] == ranks


def test_ranks_that_come_and_go_change_no_bit_and_see_every_pair_once(recipe, alone, tmp_path):
    """One rank, then two, then four, then one, each stopped in the middle of an epoch."""
    rows, override = tmp_path / "rows.jsonl", "training.folder=changing"
    listing = {"kind": "listed_rows", "path": str(rows)}
    stop_in(3, recipe, override, faults=[listing])
    stop_in(6, recipe, override, faults=[listing], ranks=2)
    stop_in(8, recipe, override, faults=[listing], ranks=4)
    folder = train(recipe, override, faults=[listing])
    assert outcome(folder) == outcome(alone)

    # What was read ahead of a stop is read again: the same rows, for the same place.
    batches = {}
    for line in rows.read_text(encoding="utf-8").splitlines():
        then, number, shard, chosen, epoch = json.loads(line)
        assert batches.setdefault((*then, number), (epoch, shard, chosen)) == (epoch, shard, chosen)
    seen = Counter((epoch, shard, row) for epoch, shard, rows in batches.values() for row in rows)
    last = json.loads((folder / "checkpoints/step-00000014/state.json").read_text())["place"][0]
    pairs = Prepared.open(recipe.parent / "prepared").rows
    everything = {
        (epoch, shard, row)
        for epoch in range(last)
        for shard, count in enumerate(pairs)
        for row in range(count)
    }
    assert last >= 2
    assert {each for each in seen if each[0] < last} == everything
    assert max(seen.values()) == 1


def test_ranks_with_shards_learn_what_ranks_with_copies_learn(alone, sharded):
    ours, others = losses(sharded), losses(alone)
    worst = max(abs(ours[step] - others[step]) / others[step] for step in others)
    print(f"largest relative difference of a loss: {worst:.1e}")
    assert ours.keys() == others.keys()
    assert worst < TOLERANCE
    files = {each.name for each in (sharded / "checkpoints/step-00000014").iterdir()}
    shards = {each for each in files if each.endswith(".safetensors")}
    assert files - shards == {"manifest.json", "state.json"}
    assert len(shards) == 2


def test_matrices_that_move_whole_do_so_in_shards_too(recipe):
    muon = ("training.optimizer=muon", "training.schedule=linear")
    alone = train(recipe, "training.folder=muon-alone", *muon)
    sharded = train(recipe, "training.folder=muon-sharded", FSDP, *muon, ranks=2)
    assert losses(sharded) == pytest.approx(losses(alone), rel=MUON_TOLERANCE)
    # Killed and gone on with, by other ranks: the momentum is kept and put together again.
    stop_in(6, recipe, "training.folder=muon-stopped", *muon, ranks=2)
    assert outcome(train(recipe, "training.folder=muon-stopped", *muon)) == outcome(alone)


def test_a_killed_run_in_shards_changes_no_bit(recipe, sharded):
    """In a step, and by a rank that falls while it writes its shard."""
    override = "training.folder=killed-shards"
    in_a_step = {"kind": "at_step", "step": 6, "rank": 1, "signals": ["SIGKILL"]}
    in_a_save = {"kind": "at_call", "step": 8, "call": 2, "rank": 1, "signals": ["SIGKILL"]}
    # Step 7 was validated, and best.
    for fault, saved in ((in_a_step, [4]), (in_a_save, [4, 7])):
        trainee = start(recipe, override, FSDP, ranks=2, faults=[fault])
        assert trainee.wait() == 1, trainee.text
        assert not trainee.orphans()
        assert saved_steps(recipe.parent / "killed-shards") == saved
    folder = train(recipe, override, FSDP, ranks=2)
    assert outcome(folder) == outcome(sharded)
    assert not left_over(folder)


def test_shards_go_on_on_one_device_and_back(recipe, alone):
    override = "training.folder=together"
    stop_in(5, recipe, override, FSDP, ranks=2)
    stop_in(9, recipe, override, FSDP)
    folder = train(recipe, override, FSDP, ranks=4)
    assert losses(folder) == pytest.approx(losses(alone), rel=TOLERANCE)


def test_shards_are_in_order_after_the_memory_was_measured(recipe, alone):
    """How much fits is measured by going forward, which must leave no weight unsharded."""
    overrides = ("training.folder=measured", "training.micro_batch=auto")
    folder = train(recipe, FSDP, *overrides, ranks=2)
    assert max(saved_steps(folder)) == max(saved_steps(alone))


def test_layers_that_are_computed_again_learn_the_same(recipe, alone, sharded):
    again = "training.recompute=true"
    one = train(recipe, "training.folder=again", again)
    assert outcome(one) == outcome(alone)
    two = train(recipe, "training.folder=again-sharded", FSDP, again, ranks=2)
    assert outcome(two) == outcome(sharded)


def test_more_ranks_than_micro_batches_are_refused_in_plain_words(recipe):
    overrides = ["training.folder=few", "training.micro_batch=256"]
    stop_in(2, recipe, *overrides)
    trainee = start(recipe, *overrides, ranks=4)
    assert trainee.wait() == 1
    assert "this run cuts an update into 2 micro-batches, too few for 4 ranks" in trainee.text
    assert "start it with at most 2" in trainee.text
    assert "4" in trainee.exit_codes


def test_shards_for_ranks_that_do_not_divide_the_micro_batches_are_refused(recipe):
    trainee = start(recipe, "training.folder=three", FSDP, ranks=3)
    assert trainee.wait() == 1
    assert "found 3 ranks, expected a number that divides 4" in trainee.text
    assert "4" in trainee.exit_codes
