"""The lab: the catalog, the stored findings, the pages and the command line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html import escape
from pathlib import Path

import pytest

from dragoman.cli.display.lab import show_finding
from dragoman.errors import DataError
from dragoman.lab import gallery
from dragoman.lab.catalog import find_claim, list_claims
from dragoman.lab.digest import measurement_code
from dragoman.lab.experiment import load_experiment, load_experiments
from dragoman.lab.finding import Finding, read_finding, write_finding
from dragoman.lab.lectures import LECTURES, lectures_of
from dragoman.lab.page import html_page, markdown_page
from support.judgments import assert_one_sentence
from support.sets import first_quick

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "docs" / "lab"
STORED = sorted(COMMITTED.glob("c*.json"))

CLAIMED_IN = {
    "C1": "NLU APPLY-DL",
    "C2": "NLU",
    "C3": "CS224N CS182",
    "C4": "CS224N APPLY-DL CS182",
    "C5": "NLU CS224N CS182",
    "C6": "CS224N CS182",
    "C7": "CS224N CS182",
    "C8": "CS224N APPLY-DL CS182",
    "C9": "CS224N NLP10 APPLY-DL",
    "C10": "NLU CS182",
    "C11": "NLU APPLY-DL",
    "C12": "NLU APPLY-DL CS182",
    "C13": "APPLY-DL",
    "C14": "CS182",
    "C15": "CS182",
    "C16": "APPLY-DL",
    "C17": "APPLY-DL",
    "C18": "APPLY-DL",
    "C19": "CS182",
    "C20": "APPLY-DL",
    "C21": "CS182",
    "C22": "NLU",
    "C23": "CS182",
    "C24": "NLP10",
    "C25": "NLP10",
    "C26": "NLU",
    "C27": "NLU CS224N",
    "C28": "CS182 APPLY-DL NLP10",
    "C29": "CS224N APPLY-DL",
    "C30": "APPLY-DL",
    "C31": "CS182",
}
"""Which lectures make which claim."""

SEED_INDEPENDENT = dict.fromkeys(("C3", "C4", "C5", "C8", "C13", "C22"), "supported") | {
    "C21": "partly supported",  # Halves can be read; even and odd cannot.
    "C30": "partly supported",  # The sums are the same; the weights are not fixed.
}
"""The verdicts of claims that do not depend on the seed."""

VERDICTS = ("supported", "partly supported", "not supported", "inconclusive")


def lab(*arguments: str, folder: Path, minutes: float = 1) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dragoman", "lab", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        timeout=60 * minutes,
        env=os.environ | {"COLUMNS": "100", "DRAGOMAN_LAB": str(folder / "runs")},
    )


@pytest.fixture
def finding() -> Finding:
    return read_finding(COMMITTED / "c09.json")


# The catalog


def test_the_catalog_lists_exactly_the_claims_of_the_lectures():
    assert list(list_claims()) == list(CLAIMED_IN)


def test_the_catalog_reads_the_same_as_the_experiments_say():
    for number, experiment in load_experiments().items():
        entry = list_claims()[number]
        assert (entry.title, entry.sources) == (experiment.title, experiment.sources)
        assert entry.durations == experiment.durations
        assert experiment.number() == number


@pytest.mark.parametrize("name", CLAIMED_IN)
def test_a_claim_has_all_texts(name):
    experiment = load_experiment(name)
    assert experiment.number() == name
    # Other lectures may make the claim too.
    lectures = set(lectures_of(experiment.sources))
    assert set(CLAIMED_IN[name].split()) <= lectures <= set(LECTURES)
    for _, section, paraphrase in experiment.sources:
        assert section
        assert_one_sentence(paraphrase)
    if experiment.limitation:
        assert_one_sentence(experiment.limitation)
    for text in (experiment.claim, experiment.method, experiment.criterion):
        assert len(text) > 40, "at least one sentence"
        assert text.endswith(".")
    assert not experiment.title.endswith(".")
    assert "upported if" in experiment.criterion
    quick, full = experiment.durations
    assert 0 < quick <= full


def test_seed_independent_claims_have_an_expected_verdict():
    experiments = load_experiments()
    independent = {name for name in CLAIMED_IN if experiments[name].is_seed_independent}
    assert independent == set(SEED_INDEPENDENT)


def test_titles_are_unique():
    titles = [entry.title for entry in list_claims().values()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", ["C9", "c9", "C09", "9"])
def test_a_claim_is_found_by_its_number(name):
    assert find_claim(name).number == "C9"
    assert load_experiment(name).number() == "C9"


@pytest.mark.parametrize("name", ["C32", "C0", "nine", ""])
def test_an_unknown_claim_is_refused(name):
    with pytest.raises(DataError, match=r"there is no claim .* dragoman lab list"):
        load_experiment(name)


def test_a_lecture_that_is_cited_in_two_sections_counts_once():
    sources = [("CS182", "a", "One."), ("NLU", "b", "Two."), ("CS182", "c", "Three.")]
    assert lectures_of(sources) == ("CS182", "NLU")


# The command line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "C99"], "there is no claim 'C99'"),
        (["run"], "name one or more claims, for example: dragoman lab run C9"),
        (["run", "C9", "--all"], "or run all claims: dragoman lab run --all"),
        (["render", "missing"], "there are no findings (c01.json, c02.json, …) in 'missing'"),
    ],
)
def test_a_mistake_is_reported_and_writes_nothing(arguments, message, tmp_path):
    process = lab(*arguments, folder=tmp_path)
    assert process.returncode == DataError.exit_code, process.stderr
    assert message in process.stderr
    assert "Traceback" not in process.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_list_shows_lectures_and_durations_without_importing_torch():
    """In a new process: PyTorch and matplotlib take seconds to import."""
    code = (
        "import sys\n"
        "from dragoman.cli.lab import lab_list\n"
        "lab_list()\n"
        "heavy = {'torch', 'matplotlib', 'numpy', 'daft'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"COLUMNS": "140"},
        timeout=60,
    )
    assert process.returncode == 0, process.stderr
    header, *lines = process.stdout.splitlines()
    assert header.split() == ["claim", "title", "lectures", "quick", "full"]
    rows = {line.split()[0]: line for line in lines if line.startswith("C")}
    assert set(CLAIMED_IN) <= set(rows)
    assert "Why attention divides by √d" in rows["C9"]
    assert "CS224N, NLP10, APPLY-DL" in rows["C9"]
    assert rows["C17"].rstrip().endswith("250 min")
    assert LECTURES["CS182"] in process.stdout


def test_a_finding_is_shown_with_its_verdict(finding, capsys):
    show_finding(finding)
    output = " ".join(capsys.readouterr().out.split())
    assert f"supported. {finding.summary}" in output
    assert finding.explanation in output
    assert "may be due to chance" not in output
    show_finding(finding.model_copy(update={"size": "quick", "is_seed_independent": False}))
    assert "quick run, may be due to chance" in " ".join(capsys.readouterr().out.split())


# Findings


def test_a_finding_is_written_and_read_back(finding, tmp_path):
    write_finding(finding, tmp_path)
    assert read_finding(tmp_path / "c09.json") == finding
    assert (tmp_path / "c09.json").read_bytes() == (COMMITTED / "c09.json").read_bytes()


def test_a_finding_is_frozen(finding):
    with pytest.raises(ValueError, match="frozen"):
        finding.verdict = "supported"


@pytest.mark.parametrize(
    ("change", "message"),
    [({"verdict": "holds"}, "verdict"), ({"format": 1}, "format"), ({"says": ""}, "says")],
)
def test_a_file_that_is_not_a_finding_is_refused(finding, change, message, tmp_path):
    path = tmp_path / "c09.json"
    path.write_text(json.dumps(finding.model_dump(mode="json") | change), encoding="utf-8")
    with pytest.raises(DataError, match=f"not a finding of the lab.*{message}"):
        read_finding(path)


@pytest.mark.parametrize("path", first_quick(STORED), ids=lambda path: path.stem)
def test_a_committed_finding_follows_from_its_numbers(path, tmp_path):
    """Verdict, texts and figure; after a change, run: dragoman lab render docs/lab."""
    finding = read_finding(path)
    assert gallery.judge_again(finding) == finding
    assert_one_sentence(finding.summary)
    experiment = load_experiment(finding.number)
    figures = [tmp_path / folder / f"{path.stem}.svg" for folder in ("first", "second")]
    for figure in figures:
        figure.parent.mkdir()
        gallery.draw(experiment, finding.numbers, figure)
    assert figures[0].read_bytes() == figures[1].read_bytes()
    assert path.with_suffix(".svg").exists()
    # Reused runs make a measurement shorter than the estimate, never longer.
    assert experiment.durations[1] >= round(finding.seconds)


def test_the_committed_page_is_what_the_numbers_make(tmp_path):
    measured = {read_finding(path).number for path in STORED}
    assert measured == set(CLAIMED_IN)
    for path in STORED:
        shutil.copy(path, tmp_path)
        shutil.copy(path.with_suffix(".svg"), tmp_path)
    gallery.write_pages(tmp_path)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert (COMMITTED / "README.md").read_text(encoding="utf-8") == page


def test_claims_without_a_finding_are_named_on_both_pages(finding):
    for page in (markdown_page([finding]), html_page([finding], {"C9": b"<svg/>"})):
        (line,) = re.findall(r"Not measured here, so inconclusive: (.*?)\.", page)
        assert set(line.split(", ")) == set(CLAIMED_IN) - {"C9"}


def test_an_outdated_finding_is_marked_on_both_pages(finding):
    current = finding.model_copy(update={"code": measurement_code(find_claim("C9").module).digest})
    outdated = finding.model_copy(update={"code": "0" * 16})
    figures = {"C9": b"<svg/>"}
    mark = "outdated: measured with earlier code"
    assert mark in markdown_page([outdated])
    assert mark in html_page([outdated], figures)
    assert mark not in markdown_page([current]) + html_page([current], figures)


def test_the_pages_show_what_the_lectures_say(finding):
    for page in (markdown_page([finding]), html_page([finding], {"C9": b"<svg/>"})):
        for lecture, section, paraphrase in finding.sources:
            assert f"[{lecture}]" in page
            assert section in page
            assert escape(paraphrase) in page or paraphrase in page
        assert finding.summary in page


def test_rendering_rewrites_verdicts_figures_and_pages(finding, tmp_path):
    outdated = finding.model_copy(update={"verdict": "not supported", "title": "Old title"})
    write_finding(outdated, tmp_path)
    assert gallery.render(tmp_path) == [finding]
    assert read_finding(tmp_path / "c09.json") == finding
    assert {path.name for path in tmp_path.iterdir()} == {
        "c09.json",
        "c09.svg",
        "README.md",
        "index.html",
    }


def test_the_html_page_is_self_contained_and_escapes_text(finding):
    hostile = finding.model_copy(update={"title": "<script>alert(1)</script>"})
    page = html_page([hostile], {"C9": b"<svg/>"})
    assert "<script" not in page
    assert "data:image/svg+xml;base64," in page
    assert "http" not in page.replace(hostile.numbers.__repr__(), "")
    assert "prefers-color-scheme: dark" in page
    assert "width=device-width" in page


# All claims


SHORT = ("C9", "C14", "C25")
"""Claims that take seconds each. The other verdicts that do not depend on the seed are tested in
test_claims_exact.py, and claims that train translators in test_claims_baselines.py."""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        pytest.param(SHORT, SHORT, marks=pytest.mark.slow, id="short"),
        pytest.param(("--all",), tuple(CLAIMED_IN), marks=pytest.mark.long, id="all"),
    ],
)
def test_claims_run_in_minutes_from_the_command_line(arguments, names, tmp_path):
    """Seed-independent claims must give their expected verdict."""
    process = lab("run", *arguments, "--quick", "-o", "out", folder=tmp_path, minutes=15)
    assert process.returncode == 0, process.stderr
    page = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    html = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    mistakes = []
    for name in names:
        stem = f"c{int(name[1:]):02}"
        finding = read_finding(tmp_path / "out" / f"{stem}.json")
        assert finding.number == name
        assert finding.verdict in VERDICTS
        assert_one_sentence(finding.summary)
        assert finding.explanation
        assert finding.size == "quick"
        assert f"## {name} {finding.title}" in page
        assert f"({stem}.svg)" in page
        assert f'id="{stem}"' in html
        assert (tmp_path / "out" / f"{stem}.svg").read_text(encoding="utf-8").startswith("<?xml")
        if gallery.judge_again(finding) != finding:
            mistakes.append(f"{name} judged again gives another verdict or text")
        if finding.verdict != SEED_INDEPENDENT.get(name, finding.verdict):
            mistakes.append(f"{name} does not depend on the seed, but: {finding.explanation}")
    assert not mistakes
