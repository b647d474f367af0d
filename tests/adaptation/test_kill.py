"""An adaptation that was killed and started again gives the same weights, to the bit."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from dragoman.adaptation.versions import VersionedModel
from support import word_language
from support.word_language import SETTINGS, domain_pairs, general_pairs, write_pairs

# Daft leaves pipes of its workers open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
SCRIPT = Path(word_language.__file__).with_name("adapt_small.py")
ARGUMENTS = [
    *("adapt", "parent/run", "--data", "memory.tsv", "--test", "trusted.tsv"),
    *("--general", "general.tsv", "--minutes", "0", *SETTINGS, "training.steps=40"),
]
SHORT = {"steps": 60, "validate_every": 60, "save_every": 60}
"""Whether the parent is good does not matter here."""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kill")
    with pytest.MonkeyPatch.context() as patch:
        training = word_language.RECIPE["training"] | SHORT
        patch.setitem(word_language.RECIPE, "training", training)
        word_language.parent(folder / "parent")
    write_pairs(folder / "memory.tsv", domain_pairs(200, 2))
    write_pairs(folder / "trusted.tsv", domain_pairs(60, 3))
    write_pairs(folder / "general.tsv", general_pairs(200, 4))
    return folder


@pytest.fixture(scope="module")
def server(project):
    """A process that runs commands in the project."""
    with subprocess.Popen(
        [sys.executable, SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=project,
    ) as process:
        yield process
        process.kill()


def run(server, output, until=None):
    """Adapt; kill the process with all its children as soon as a path exists. Return its code."""
    server.stdin.write(json.dumps([*ARGUMENTS, "-o", output.name]) + "\n")
    server.stdin.flush()
    process = int(server.stdout.readline())
    if until is not None:
        end = time.monotonic() + 240
        while not list(output.glob(until)) and time.monotonic() < end:
            if not Path(f"/proc/{process}").exists():
                break
            time.sleep(0.002)
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
    return int(server.stdout.readline())


def outcome(folder):
    """Everything that must not depend on a kill: weights, verdict, test sets."""
    model = VersionedModel.open(folder)
    tests = {path.name: path.read_bytes() for path in sorted(model.tests.iterdir())}
    versions = [
        record.model_dump(exclude={"created"}) for record in model.history if record.number > 1
    ]
    report = json.loads((model.folder_of(2) / "report.json").read_text())
    kept = {name: report[name] for name in ("gate", "curve", "improved", "learned", "notes")}
    return tests, versions, kept


KILLS = (
    "versions/1",
    "tests",
    "work/2/*/prepared/manifest.json",
    "work/2/*/run/checkpoints/step-00000000",
    "work/2/*/run/checkpoints/step-00000020",
    "work/2/*/outputs/in_domain.parent",
    "work/2/*/run/report.json",
    "versions/2",
    "refused/2",
)
"""A process is killed as soon as one of these exists, in this order; the last two are one step."""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kills_change_no_bit(project, server):
    whole, killed = project / "whole", project / "killed"
    code = run(server, whole)
    log = (project / "log.txt").read_text()
    assert code in (0, 8), log
    refused = code == 8
    hits = 0
    for path in KILLS[:-2] + (KILLS[-1:] if refused else KILLS[-2:-1]):
        hits += run(server, killed, until=path) == -signal.SIGKILL
    assert hits >= len(KILLS) - 4, (project / "log.txt").read_text()
    assert run(server, killed) == code
    assert outcome(killed) == outcome(whole)
    # Once more: it is finished, and nothing changes.
    history = (killed / "history.jsonl").read_bytes()
    assert run(server, killed) == code
    assert (killed / "history.jsonl").read_bytes() == history
    left_over = [path for path in (killed / "work").iterdir() if path.name[0] != "."]
    assert not left_over
    shutil.rmtree(killed)
