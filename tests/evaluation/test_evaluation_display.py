"""Is everything that was found out printed, within eighty columns, and nothing cut off?"""

import pytest

from dragoman.evaluation.compare import compare
from dragoman.evaluation.metrics import PAPERS, measure
from dragoman.evaluation.robustness import stress
from dragoman.evaluation_display import show_evaluation
from dragoman.workflow.evaluation import Cost, Evaluation, System
from evaluation.sacrebleu_command import texts

FILES = {"first/prepared/test.source": "12", "first/prepared/test.target": "34"}
COST = Cost("12,000 updates, 1.2e+15 FLOPs, 0.10 h, 3.0 M tokens", 1.2e15, 0.1, 3_000_000)
LONG = "runs/a-name-that-says-everything-about-an-experiment-and-its-settings"


@pytest.fixture
def printed(monkeypatch, capsys):
    """What is printed of an evaluation, in lines."""
    monkeypatch.setenv("COLUMNS", "80")

    def show(evaluation):
        show_evaluation(evaluation)
        lines = [line.rstrip() for line in capsys.readouterr().out.split("\n")]
        assert max(map(len, lines)) <= 80
        return lines

    return show


def system(name, hypotheses, references, cost=COST, flags=None):
    scores = measure(hypotheses, [references], papers=True, resamples=1000)
    return System(name, tuple(scores), flags or {}, cost)


def squeezed(lines):
    """All text without its white space, for what was cut at the end of a line."""
    return "".join("".join(lines).split())


def test_scores_intervals_cost_and_signatures_of_one_run(printed):
    references, hypotheses = texts(1)
    one = system("first/run", hypotheses, references, flags={"retried": 3, "length": 1})
    lines = printed(Evaluation(30, FILES, (one,)))
    assert lines[0] == "30 sentences of first/prepared/test.source"
    for score in one.scores:
        low, high = score.interval
        line = next(line for line in lines if line.startswith(f" {score.name}") and "–" in line)
        assert line.split()[-4:] == [f"{score.value:.2f}", f"{low:.2f}", "–", f"{high:.2f}"]
        assert score.signature in squeezed(lines)
    assert sum(PAPERS in line for line in lines) == 2
    assert f"  cost: {COST.summary}" in lines
    assert "  flags: 3 retried, 1 length" in lines
    assert any("TER, lower is better" in line for line in lines)


def test_signatures_are_cut_at_their_bars_only(printed):
    references, hypotheses = texts(1)
    one = system("first/run", hypotheses, references)
    lines = printed(Evaluation(30, FILES, (one,)))
    (start,) = (place for place, line in enumerate(lines) if "nrefs:1" in line and "lc" in line)
    assert lines[start].endswith("|")
    assert lines[start].strip() + lines[start + 1].strip() == one.scores[2].signature


@pytest.mark.parametrize("test", ["bootstrap", "randomisation"])
def test_systems_are_compared_score_by_score(printed, test):
    references, first, near, far = texts(1, 60, wrong=[0.3, 0.3, 0.6])
    near = [*near[:6], *first[6:]]
    said = {"run": first, "near": near, LONG: far}
    systems = tuple(system(name, text, references, None) for name, text in said.items())
    compared = compare(said, [references], test=test, trials=200, papers=True)
    lines = printed(Evaluation(60, FILES, systems, tuple(compared), notes=("look out",)))
    for each in compared:
        assert each.score.signature in squeezed(lines)
        if each.p_value is not None:
            assert any(f"{each.p_value:.4f}" in line for line in lines)
    rows = [line for line in lines if "–" in line]
    assert len(rows) == 12
    verdicts = [
        [word for word in ("better", "worse", "may be luck") if line.endswith(word)]
        for line in rows
    ]
    # A higher TER is no praise.
    assert verdicts == 4 * [[], ["may be luck"], ["worse"]]
    assert LONG in squeezed(lines)
    assert "! look out" in lines
    assert "  cost: unknown, it has no card" in lines


def test_troubles_have_a_row_each(printed):
    references, hypotheses = texts(1)
    rows = stress(list, ["漢", *references], ["漢", *references])
    silent = stress(list, ["漢"], ["漢"])
    one = system("first/run", hypotheses, references)
    lines = printed(Evaluation(30, FILES, (one,), robustness=(*rows, silent[0])))
    for row in rows:
        (line,) = (line for line in lines if row.name in line and row.measured in line
                   and f" {row.score:.1f} " in f"{line} " and f" {row.count} " in line)  # fmt: skip
        if row.plain is not None:
            assert line.split()[-2:] == [f"{row.plain:.1f}", f"{row.loss:.1f}"]
    assert any(line.split() == ["ALL", "CAPS", "0", "–", "chrF"] for line in lines)
