"""Are the paired tests those of sacreBLEU's own command?"""

import json
import re

import pytest

from dragoman.errors import DataError
from dragoman.evaluation.compare import compare
from dragoman.evaluation.metrics import PAPERS, measure
from evaluation.sacrebleu_command import sacrebleu, texts

THREE = ("-m", "bleu", "chrf", "ter")
NUMBER = r"(\d+\.\d+)"
CELL = re.compile(rf"{NUMBER} \({NUMBER} ± {NUMBER}\)(?: \(p = {NUMBER}\))?")


@pytest.fixture(scope="module")
def systems():
    references, first, other, far = texts(1, 60, wrong=[0.3, 0.3, 0.6])
    return {"first": first, "near": [*other[:6], *first[6:]], "far": far}, [references]


def by_system(found):
    """The comparisons as the command's table has them: a row for each system."""
    names = dict.fromkeys(each.system for each in found)
    return [[each for each in found if each.system == name] for name in names]


def check_bootstrap(folder, systems, references, *options, **how):
    """Against the table, for the command cannot write these numbers as JSON."""
    printed = sacrebleu(folder, systems, references, *THREE, "--paired-bs", *options,
                        "-f", "latex", "-w", "6")  # fmt: skip
    rows = [CELL.findall(line) for line in printed.split("\n") if "±" in line and " & " in line]
    rows = [row for row in rows if row]
    found = compare(systems, references, **how)
    said = [
        [
            (
                *(f"{each:.6f}" for each in (one.score.value, one.score.mean, one.score.margin)),
                "" if one.p_value is None else f"{one.p_value:.4f}",
            )
            for one in row
        ]
        for row in by_system(found)
    ]
    assert said == rows
    for each in found:
        assert re.search(rf"{each.score.name} +{re.escape(each.score.signature)}\n", printed)


def test_bootstrap_is_what_the_command_says(tmp_path, systems):
    check_bootstrap(tmp_path, *systems, "--paired-bs-n", "50", trials=50)


def test_without_being_told_it_makes_as_many_trials_as_the_command(tmp_path, systems):
    check_bootstrap(tmp_path, *systems)


def test_bootstrap_of_one_score_agrees_to_the_last_digit(tmp_path, systems):
    """BLEU alone the command can write as JSON."""
    texts_, references = systems
    printed = json.loads(
        sacrebleu(tmp_path, texts_, references, "--paired-bs", "--paired-bs-n", "50", "-f", "json")
    )
    found = [row[0] for row in by_system(compare(texts_, references, trials=50))]
    assert [
        {"score": one.score.value, "p_value": one.p_value, "mean": one.score.mean,
         "ci": one.score.margin}
        for one in found
    ] == [row["BLEU"] for row in printed]  # fmt: skip


def check_randomisation(folder, systems, references, *options, **how):
    printed = json.loads(
        sacrebleu(folder, systems, references, *THREE, "--paired-ar", *options, "-f", "json")
    )
    found = compare(systems, references, test="randomisation", **how)
    said = [
        {one.score.name: {"score": one.score.value, "p_value": one.p_value} for one in row}
        for row in by_system(found)
    ]
    assert said == [
        {
            name: {key: cell[key] for key in ("score", "p_value")}
            for name, cell in row.items()
            if name != "system"
        }
        for row in printed
    ]
    assert all(each.score.interval is None for each in found)
    return found


def test_randomisation_is_what_the_command_says(tmp_path, systems):
    found = check_randomisation(tmp_path, *systems, "--paired-ar-n", "50", trials=50)
    assert all("|ar:50|seed:12345|" in each.score.signature for each in found)


@pytest.mark.slow
def test_randomisation_makes_as_many_trials_as_the_command(tmp_path, systems):
    check_randomisation(tmp_path, *systems)


def test_the_papers_bleu_does_not_take_the_place_of_the_other(systems):
    """SacreBLEU calls both the same, and keeps one."""
    texts_, references = systems
    found = compare(texts_, references, trials=20, papers=True)
    assert [each.score.name for each in found if each.system == "far"] == [
        *("BLEU", "chrF2", "TER", PAPERS),
    ]
    for each in found:
        alone = measure(texts_[each.system], references, papers=True, resamples=20)
        (same,) = (score for score in alone if score.name == each.score.name)
        assert each.score.value == same.value
        assert each.score.signature == same.signature


def test_the_far_one_is_told_from_the_first_and_the_near_one_is_not(systems):
    p_values = {
        each.system: each.p_value
        for each in compare(*systems, trials=200)
        if each.score.name == "BLEU"
    }
    assert p_values["first"] is None
    assert p_values["far"] < 0.01
    assert p_values["near"] > 0.1


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(DataError, match=r"found 1 system\(s\), expected two or more"):
        compare({"a": ["x"]}, [["x"]])
    with pytest.raises(DataError, match="second has 1 lines and reference 1 has 2"):
        compare({"first": ["x", "y"], "second": ["x"]}, [["x", "y"]])
    with pytest.raises(DataError, match="second is empty"):
        compare({"first": ["x"], "second": []}, [["x"]])
