"""Does the lab try every claim, and can all it says be repeated from its numbers?"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.lab import gallery
from dragoman.lab.experiment import claims, find

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "docs" / "lab"
STORED = sorted(COMMITTED.glob("c*.json"))

LECTURES = {"000", "001", "002", "003", "004"}
SAID_IN = {
    **{"C1": "000 003", "C2": "000", "C3": "001 004", "C4": "001 003 004", "C5": "000 001 004"},
    **{"C6": "001 004", "C7": "001 004", "C8": "001 003 004", "C9": "001 002 003"},
    **{"C10": "000 004", "C11": "000 003", "C12": "000 003 004", "C13": "003", "C14": "004"},
    **{"C15": "004", "C16": "003", "C17": "003", "C18": "003", "C19": "004", "C20": "003"},
    **{"C21": "004", "C22": "000", "C23": "004", "C24": "002", "C25": "002", "C26": "000"},
}
"""Which lecture notes make which claim."""

CERTAIN = dict.fromkeys(("C3", "C4", "C5", "C8", "C9", "C13", "C22"), "holds") | {
    "C11": "does not hold here",  # Norms alone are as steady; without norms, sums explode.
    "C21": "holds in part",  # Halves can be read; even and odd cannot.
}
"""How claims end that chance does not decide."""

VERDICTS = ("holds", "holds in part", "does not hold here")


def lab(*words: str, folder: Path, minutes: float = 1) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dragoman", "lab", *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        timeout=60 * minutes,
        env=os.environ | {"COLUMNS": "100", "DRAGOMAN_LAB": str(folder / "runs")},
    )


# What is there


def test_every_claim_of_the_lectures_is_tried_and_no_other():
    assert list(claims()) == list(SAID_IN)


@pytest.mark.parametrize("name", SAID_IN)
def test_a_claim_says_what_it_needs_to_say(name):
    experiment = find(name)
    assert experiment.name() == name
    # Others may say it too.
    assert set(SAID_IN[name].split()) <= set(experiment.lectures) <= LECTURES
    for text in (experiment.claim, experiment.method, experiment.criterion):
        assert len(text) > 40, "a sentence at least"
        assert text.endswith((".", "?"))
    assert not experiment.title.endswith(".")
    # A criterion has a way to be missed.
    assert "olds if" in experiment.criterion


def test_what_is_certain_has_a_verdict_to_end_with():
    assert {name for name in SAID_IN if find(name).is_certain} == set(CERTAIN)


def test_titles_are_different():
    titles = [each.title for each in claims().values()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", ["C9", "c9", "C09", "9"])
def test_a_claim_is_found_by_its_number(name):
    assert find(name).name() == "C9"


# What is refused


@pytest.mark.parametrize("name", ["C27", "C0", "nine", ""])
def test_an_unknown_claim_is_refused(name):
    with pytest.raises(DataError, match="there is no claim"):
        find(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "C99"], "there is no claim 'C99'"),
        (["run"], "name claims, as: dragoman lab run C9; or all of them: --all"),
        (["run", "C9", "--all"], "name claims, as: dragoman lab run C9; or all of them: --all"),
    ],
)
def test_a_mistake_is_told_and_writes_nothing(words, told, tmp_path):
    ended = lab(*words, folder=tmp_path)
    assert ended.returncode == DataError.exit_code, ended.stderr
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_list_names_every_claim(tmp_path):
    lines = lab("list", folder=tmp_path).stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(SAID_IN)


# What can be repeated


def repeats(told: dict, folder: Path) -> Iterator[str]:
    """Name what a stored claim does not say again when its numbers are asked again."""
    experiment = find(told["claim"])
    judgement = experiment.judge(told["numbers"])
    if (judgement.verdict, judgement.because) != (told["verdict"], told["because"]):
        yield f"judged again: {judgement.verdict}. {judgement.because}"
    stem = f"c{int(told['claim'][1:]):02}"
    first, second = folder / f"{stem}.svg", folder / "again" / f"{stem}.svg"
    for path in (first, second):
        path.parent.mkdir(exist_ok=True, parents=True)
        gallery.draw(experiment, told["numbers"], path)
    if first.read_bytes() != second.read_bytes():
        yield "drawn twice, the figure differs"


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_committed_verdict_follows_from_its_numbers(path, tmp_path):
    told = json.loads(path.read_text(encoding="utf-8"))
    assert list(repeats(told, tmp_path)) == []
    experiment = find(told["claim"])
    assert told["criterion"] == experiment.criterion, (
        "tried by a criterion of its own; run it again"
    )
    for key, said in (
        ("says", experiment.claim),
        ("title", experiment.title),
        ("method", experiment.method),
    ):
        assert told[key] == said
    assert path.with_suffix(".svg").exists()


@pytest.mark.skipif(not STORED, reason="nothing was run into docs/lab yet")
def test_the_committed_page_is_what_the_numbers_make(tmp_path):
    for path in STORED:
        shutil.copy(path, tmp_path)
    page = gallery.write_page(tmp_path).read_text(encoding="utf-8")
    assert (COMMITTED / "README.md").read_text(encoding="utf-8") == page


# All of it


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_all_claims_are_tried_in_minutes_from_the_command_line(tmp_path):
    """A quarter of an hour on one core; what chance does not decide must end as it did."""
    ended = lab("run", "--all", "--quick", "-o", "out", folder=tmp_path, minutes=15)
    assert ended.returncode == 0, ended.stderr
    page = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    faults = []
    for name in SAID_IN:
        stem = f"c{int(name[1:]):02}"
        told = json.loads((tmp_path / "out" / f"{stem}.json").read_text(encoding="utf-8"))
        assert told["claim"] == name
        assert told["verdict"] in VERDICTS
        assert told["because"]
        assert told["size"] == "quick"
        assert f"## {name} {told['title']}" in page
        assert f"({stem}.svg)" in page
        assert (tmp_path / "out" / f"{stem}.svg").read_text(encoding="utf-8").startswith("<?xml")
        faults += [f"{name} {fault}" for fault in repeats(told, tmp_path / "drawn")]
        if told["verdict"] != CERTAIN.get(name, told["verdict"]):
            faults.append(f"{name} is certain, and found: {told['because']}")
    assert not faults
