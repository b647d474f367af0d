"""The terminal output of an evaluation is complete and fits into 80 columns."""

import pytest

from dragoman.cli.display.evaluation import EvaluationProgressBar, show_evaluation
from dragoman.evaluation.compare import compare
from dragoman.evaluation.metrics import TOKENIZED_BLEU, Score, SentenceScore, measure
from dragoman.evaluation.result import Cost, Evaluation, EvaluationProgress, System
from dragoman.evaluation.robustness import measure_robustness
from support.sacrebleu_command import random_texts

FILES = {"first/prepared/test.source": "12", "first/prepared/test.target": "34"}
COST = Cost("12,000 updates, 1.2e+15 FLOPs, 0.10 h, 3.0 M tokens", 1.2e15, 0.1, 3_000_000)
LONG = "runs/a-name-that-says-everything-about-an-experiment-and-its-settings"


@pytest.fixture
def printed(monkeypatch, capsys):
    """A function that prints an evaluation and returns the lines."""
    monkeypatch.setenv("COLUMNS", "80")

    def show(evaluation):
        show_evaluation(evaluation)
        lines = [line.rstrip() for line in capsys.readouterr().out.split("\n")]
        assert max(map(len, lines)) <= 80
        return lines

    return show


def system(name, hypotheses, references, cost=COST, flags=None):
    scores = measure(hypotheses, [references], tokenized=True, resamples=1000)
    return System(name, tuple(scores), flags or {}, cost)


def without_spaces(lines):
    """The whole text without white space: undoes line breaks."""
    return "".join("".join(lines).split())


def test_scores_intervals_cost_and_signatures_of_one_run(printed):
    references, hypotheses = random_texts(1)
    first = system("first/run", hypotheses, references, flags={"retried": 3, "length": 1})
    lines = printed(Evaluation(30, FILES, (first,)))
    assert lines[0] == "30 sentences of first/prepared/test.source"
    for score in first.scores:
        low, high = score.interval
        line = next(line for line in lines if line.startswith(f" {score.name}") and "–" in line)
        assert line.split()[-4:] == [f"{score.value:.2f}", f"{low:.2f}", "–", f"{high:.2f}"]
        assert score.signature in without_spaces(lines)
    assert sum(TOKENIZED_BLEU in line for line in lines) == 2
    assert f"  training cost: {COST.summary}" in lines
    assert "  flags: 3 retried, 1 length" in lines
    assert any("TER, lower is better" in line for line in lines)


def test_signatures_are_broken_after_a_bar_only(printed):
    references, hypotheses = random_texts(1)
    first = system("first/run", hypotheses, references)
    lines = printed(Evaluation(30, FILES, (first,)))
    (start,) = (number for number, line in enumerate(lines) if "nrefs:1" in line and "lc" in line)
    assert lines[start].endswith("|")
    assert lines[start].strip() + lines[start + 1].strip() == first.scores[2].signature


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_systems_are_compared_for_each_metric(printed, test):
    references, baseline, near, far = random_texts(1, 60, error_rates=[0.3, 0.3, 0.6])
    near = [*near[:6], *baseline[6:]]
    outputs = {"run": baseline, "near": near, LONG: far}
    systems = tuple(system(name, text, references, None) for name, text in outputs.items())
    comparisons = compare(outputs, [references], test=test, trials=200, tokenized=True)
    lines = printed(Evaluation(60, FILES, systems, tuple(comparisons), notes=("a warning",)))
    for comparison in comparisons:
        assert comparison.score.signature in without_spaces(lines)
        if comparison.p_value is not None:
            assert any(f"{comparison.p_value:.4f}" in line for line in lines)
    rows = [line for line in lines if "–" in line]
    assert len(rows) == 12
    verdicts = [
        [verdict for verdict in ("better", "worse", "may be chance") if line.endswith(verdict)]
        for line in rows
    ]
    # A higher TER is worse.
    assert verdicts == 4 * [[], ["may be chance"], ["worse"]]
    assert LONG in without_spaces(lines)
    assert "! a warning" in lines
    assert "  training cost: unknown (no card)" in lines


def test_each_robustness_check_has_a_row(printed):
    references, hypotheses = random_texts(1)
    rows = measure_robustness(list, ["漢", *references], ["漢", *references])
    unused = measure_robustness(list, ["漢"], ["漢"])
    first = system("first/run", hypotheses, references)
    lines = printed(Evaluation(30, FILES, (first,), robustness=(*rows, unused[0])))
    for row in rows:
        (line,) = (line for line in lines if row.name in line and row.metric in line
                   and f" {row.score:.1f} " in f"{line} " and f" {row.count} " in line)  # fmt: skip
        if row.unperturbed is not None:
            assert line.split()[-2:] == [f"{row.unperturbed:.1f}", f"{row.loss:.1f}"]
    assert any(line.split() == ["ALL", "CAPS", "0", "–", "chrF"] for line in lines)


def test_the_worst_sentences_are_printed_in_full(printed):
    references, hypotheses = random_texts(1)
    first = system("first/run", hypotheses, references)
    worst = (
        SentenceScore(
            7, "Wo ist [b]sie[/b]?", ("Where is she?", "Where's she?"), "\x1b[31mNo.", 3.2
        ),
        SentenceScore(1234, "lang " * 40, ("long " * 40,), "", 0.0),
    )
    lines = printed(Evaluation(2000, FILES, (first,), worst_sentences=worst))
    start = lines.index("the 2 worst sentences by chrF")
    assert [" ".join(line.split()) for line in lines[start + 1 : start + 6]] == [
        "line 7, chrF 3.2",
        "source Wo ist [b]sie[/b]?",
        "reference Where is she?",
        "reference Where's she?",
        "output \ufffd[31mNo.",
    ]
    assert 40 * "lang" in without_spaces(lines)
    assert 40 * "long" in without_spaces(lines)


def test_a_score_without_an_interval_says_so(printed):
    score = Score("BLEU", 100.0, "nrefs:1", 99.8, 0.0)
    lines = printed(Evaluation(9, FILES, (System("run", (score,), {}, None),)))
    (line,) = (line for line in lines if line.startswith(" BLEU"))
    assert line.split() == ["BLEU", "100.00", "none"]


def test_the_progress_bar_fits_into_the_line_and_disappears(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with EvaluationProgressBar() as bar:
        bar.update(EvaluationProgress("load", "run", 0, 1))
        bar.update(EvaluationProgress("translate", "run", 40, 120))
        bar._progress.refresh()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "translating with run" in captured.err
    assert "40/120" in captured.err


def test_without_a_terminal_there_is_no_progress_bar(capsys):
    with EvaluationProgressBar() as bar:
        bar.update(EvaluationProgress("translate", "run", 40, 120))
    assert capsys.readouterr() == ("", "")
