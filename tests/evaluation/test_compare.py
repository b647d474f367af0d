"""The paired significance tests give the numbers of sacreBLEU's own command."""

import json
import re

import pytest

from dragoman.errors import DataError
from dragoman.evaluation.compare import compare
from dragoman.evaluation.metrics import TOKENIZED_BLEU, measure
from support.sacrebleu_command import random_texts, sacrebleu

THREE_METRICS = ("-m", "bleu", "chrf", "ter")
NUMBER = r"(\d+\.\d+)"
CELL = re.compile(rf"{NUMBER} \({NUMBER} ± {NUMBER}\)(?: \(p = {NUMBER}\))?")


@pytest.fixture(scope="module")
def systems():
    references, first, other, far = random_texts(1, 60, error_rates=[0.3, 0.3, 0.6])
    return {"first": first, "near": [*other[:6], *first[6:]], "far": far}, [references]


def by_system(comparisons):
    """The comparisons as the command prints them: one row for each system."""
    names = dict.fromkeys(comparison.system for comparison in comparisons)
    return [
        [comparison for comparison in comparisons if comparison.system == name] for name in names
    ]


def check_bootstrap(folder, systems, references, *options, **parameters):
    """Compare with the printed table: the command cannot write these numbers as JSON."""
    printed = sacrebleu(folder, systems, references, *THREE_METRICS, "--paired-bs", *options,
                        "-f", "latex", "-w", "6")  # fmt: skip
    rows = [CELL.findall(line) for line in printed.split("\n") if "±" in line and " & " in line]
    expected = [row for row in rows if row]
    comparisons = compare(systems, references, **parameters)
    actual = [
        [
            (
                f"{comparison.score.value:.6f}",
                f"{comparison.score.mean:.6f}",
                f"{comparison.score.margin:.6f}",
                "" if comparison.p_value is None else f"{comparison.p_value:.4f}",
            )
            for comparison in row
        ]
        for row in by_system(comparisons)
    ]
    assert actual == expected
    for comparison in comparisons:
        score = comparison.score
        assert re.search(rf"{score.name} +{re.escape(score.signature)}\n", printed)


def test_bootstrap_equals_the_command(tmp_path, systems):
    check_bootstrap(tmp_path, *systems, "--paired-bs-n", "50", trials=50)


@pytest.mark.slow
def test_the_default_number_of_bootstrap_trials_is_that_of_the_command(tmp_path, systems):
    check_bootstrap(tmp_path, *systems)


def test_bootstrap_of_one_metric_equals_the_command_to_the_last_digit(tmp_path, systems):
    """For BLEU alone, the command can write JSON."""
    texts, references = systems
    printed = json.loads(
        sacrebleu(tmp_path, texts, references, "--paired-bs", "--paired-bs-n", "50", "-f", "json")
    )
    bleu = [row[0] for row in by_system(compare(texts, references, trials=50))]
    assert [
        {"score": comparison.score.value, "p_value": comparison.p_value,
         "mean": comparison.score.mean, "ci": comparison.score.margin}
        for comparison in bleu
    ] == [row["BLEU"] for row in printed]  # fmt: skip


def check_randomization(folder, systems, references, *options, **parameters):
    printed = json.loads(
        sacrebleu(
            folder, systems, references, *THREE_METRICS, "--paired-ar", *options, "-f", "json"
        )
    )
    comparisons = compare(systems, references, test="randomization", **parameters)
    actual = [
        {
            comparison.score.name: {
                "score": comparison.score.value,
                "p_value": comparison.p_value,
            }
            for comparison in row
        }
        for row in by_system(comparisons)
    ]
    assert actual == [
        {
            name: {key: cell[key] for key in ("score", "p_value")}
            for name, cell in row.items()
            if name != "system"
        }
        for row in printed
    ]
    assert all(comparison.score.interval is None for comparison in comparisons)
    return comparisons


def test_randomization_equals_the_command(tmp_path, systems):
    comparisons = check_randomization(tmp_path, *systems, "--paired-ar-n", "50", trials=50)
    assert all("|ar:50|seed:12345|" in comparison.score.signature for comparison in comparisons)


@pytest.mark.slow
def test_the_default_number_of_randomization_trials_is_that_of_the_command(tmp_path, systems):
    check_randomization(tmp_path, *systems)


@pytest.mark.slow
def test_bleu_of_tokenized_text_does_not_replace_the_usual_bleu(systems):
    """SacreBLEU gives both the same name and would keep only one."""
    texts, references = systems
    comparisons = compare(texts, references, trials=20, tokenized=True)
    assert [comparison.score.name for comparison in comparisons if comparison.system == "far"] == [
        "BLEU",
        "chrF2",
        "TER",
        TOKENIZED_BLEU,
    ]
    for comparison in comparisons:
        scores = measure(texts[comparison.system], references, tokenized=True, resamples=20)
        (same,) = (score for score in scores if score.name == comparison.score.name)
        assert comparison.score.value == same.value
        assert comparison.score.signature == same.signature


def test_a_large_difference_is_significant_and_a_small_one_is_not(systems):
    p_values = {
        comparison.system: comparison.p_value
        for comparison in compare(*systems, trials=200)
        if comparison.score.name == "BLEU"
    }
    assert p_values["first"] is None
    assert p_values["far"] < 0.01
    assert p_values["near"] > 0.1


def test_systems_that_cannot_be_compared_are_refused():
    with pytest.raises(DataError, match=r"found 1 system\(s\), expected two or more"):
        compare({"a": ["x"]}, [["x"]])
    with pytest.raises(DataError, match="second and reference 1 have 1 and 2 lines"):
        compare({"first": ["x", "y"], "second": ["x"]}, [["x", "y"]])
    with pytest.raises(DataError, match="second is empty"):
        compare({"first": ["x"], "second": []}, [["x"]])
