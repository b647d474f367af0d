"""What `--measure` measures: known processes exactly, and short real runs like the long one."""

import sys

import pytest

from dragoman.errors import DataError, DragomanError
from dragoman.planning.figures import STAGES
from dragoman.planning.measure import _micro_batch, _power_law
from dragoman.planning.usage import run_measured
from dragoman.workflow.planning import PlanOptions, plan

ALL = frozenset(STAGES)
MIB = 1 << 20


def measured(program):
    return run_measured((sys.executable, "-c", program))[0]


def test_bytes_memory_and_time_of_a_process_are_measured(tmp_path):
    program = (
        "import time\n"
        f"block = bytearray({200 * MIB})\n"
        f"open({str(tmp_path / 'file')!r}, 'wb').write(block[:{5 * MIB}])\n"
        "while time.process_time() < 0.3: pass\n"
    )
    usage = measured(program)
    assert 200 * MIB < usage.peak_bytes < 260 * MIB
    assert 5 * MIB <= usage.written_bytes < 5 * MIB + 10_000
    assert 0.3 <= usage.cpu_seconds < 0.6


def test_child_processes_count():
    child = f"block = bytearray({100 * MIB}); import time; time.sleep(0.4)"
    program = (
        "import subprocess, sys\n"
        f"children = [subprocess.Popen([sys.executable, '-c', {child!r}]) for _ in range(2)]\n"
        "for child in children: child.wait()\n"
    )
    assert 200 * MIB < measured(program).peak_bytes < 300 * MIB


def test_a_run_that_fails_is_explained():
    with pytest.raises(DragomanError, match=r"(?s)ended with code 3.*too bad"):
        measured("import sys; print('too bad', file=sys.stderr); sys.exit(3)")


def test_a_cost_that_grows_with_the_square_root_is_found():
    law = _power_law((1000, 4000), [2.0, 4.0], 16_000)
    assert law.exponent == pytest.approx(0.5)
    assert law.at(16_000) == pytest.approx(8.0)
    assert law.at(10**9) == law.at(16_000)
    assert _power_law((1000, 4000), [0.0, 4.0], 16_000).at(8000) == pytest.approx(8.0)


@pytest.mark.parametrize("tokens", [257, 1024, 5000])
@pytest.mark.parametrize("planned", [1, 257, 297, 700, 9000])
def test_the_longest_pair_fits_into_a_measured_micro_batch(tokens, planned):
    longest = 257
    count = -(-tokens // _micro_batch(tokens, planned, longest))  # As training counts.
    assert tokens // count >= longest
    assert count <= max(1, -(-tokens // planned))


def test_devices_elsewhere_cannot_be_measured():
    options = PlanOptions(gpus="1xT4", pairs=1000, measure=ALL)
    with pytest.raises(DataError, match="not the devices of --gpus"):
        plan("tiny", ["model.encoder_layers=1", "model.decoder_layers=1"], options)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_measured_plans_agree_with_real_runs(prepared_recipe):
    settings = [
        "model.encoder_layers=1",
        "model.decoder_layers=1",
        "training.steps=60",
        "training.save_every=20",
        "training.validate_every=30",
        "training.validation_pairs=20",
    ]
    command = (sys.executable, "-m", "dragoman", "train", prepared_recipe, *settings)
    estimated = plan(prepared_recipe, settings).stage("training")
    usage, _ = run_measured(command)
    assert estimated.value("written") == pytest.approx(usage.written_bytes, rel=0.2)
    assert estimated.value("peak_memory_per_rank") == pytest.approx(usage.peak_bytes, rel=0.4)
    # The run is finished now, so translation is measured too.
    stages = []
    result = plan(
        prepared_recipe,
        settings,
        PlanOptions(measure=ALL, sentences=100),
        on_progress=stages.append,
    )
    assert stages == list(STAGES)
    training = result.stage("training")
    assert {figure.basis for figure in training.figures if figure.name == "cpu_time"} == {
        "measured"
    }
    # Other programs share the machine: CPU seconds vary more than the rest.
    assert training.value("cpu_time") == pytest.approx(usage.cpu_seconds, rel=0.5)
    assert training.value("written") == pytest.approx(usage.written_bytes, rel=0.1)
    assert training.value("peak_memory_per_rank") == pytest.approx(usage.peak_bytes, rel=0.2)
    assert result.stage("preparation").value("cpu_time") > 1
    assert result.stage("translation").value("written") > 1000
