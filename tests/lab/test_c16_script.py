"""`bench/c16.py` stores each training at once, and trains only what is not stored."""

import importlib.util
import json
from pathlib import Path

import pytest

from dragoman.errors import DivergedError
from dragoman.lab import baselines
from dragoman.lab.finding import read_findings
from dragoman.lab.translation_runs import TranslatorResult

SCRIPT = Path(__file__).parents[2] / "bench" / "c16.py"


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("bench_c16", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def trained(script, monkeypatch):
    """Names of what was trained; a training takes no time and has made-up numbers."""
    names = []

    def train(text, settings, seed):
        names.append(script.training_name(text, settings, seed))
        return TranslatorResult(
            bleu=20.0,
            low=19.0,
            high=21.0,
            chrf=40.0,
            parameters=400_000,
            flops=1e12,
            minutes=1.0,
            updates=40,
            length_penalty=1.0,
            penalty_scores=[(1.0, 20.0)],
            curve=[(20, 10.0), (40, 20.0)],
            translations=["not to be stored"],
        )

    monkeypatch.setattr(script, "train_translator", train)
    return names


def run(script, monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["c16.py", "--quick", *map(str, arguments)])
    before = baselines.train_translator
    script.main()
    assert baselines.train_translator is before


def test_trainings_are_stored_and_joined_to_a_finding(
    script, trained, monkeypatch, tmp_path, capsys
):
    first, *others = script.NAMES
    run(script, monkeypatch, first, "-o", tmp_path)
    assert capsys.readouterr().out.endswith(f"To be measured: {', '.join(others)}\n")
    stored = list((tmp_path / "c16").glob("*.json"))
    assert [path.stem for path in stored] == trained
    assert "not to be stored" not in stored[0].read_text()
    run(script, monkeypatch, *script.NAMES, "-o", tmp_path)
    assert len(trained) == len(set(trained)) == len(script.NAMES), "nothing is trained twice"
    [finding] = read_findings(tmp_path)
    assert finding.number == "C16"
    assert set(finding.numbers) == set(script.NAMES)
    assert finding.code == script.CODE


def test_other_code_of_the_claim_trains_again(script, trained, monkeypatch, tmp_path):
    run(script, monkeypatch, script.NAMES[0], "-o", tmp_path)
    monkeypatch.setattr(script, "CODE", "other")
    run(script, monkeypatch, script.NAMES[0], "-o", tmp_path)
    assert len(set(trained)) == 2


def test_a_training_that_diverges_is_stored_and_not_repeated(script, monkeypatch, tmp_path, capsys):
    started = []

    def diverge(text, settings, seed):
        started.append(seed)
        raise DivergedError("21 updates were skipped")

    monkeypatch.setattr(script, "train_translator", diverge)
    for _ in range(2):
        with pytest.raises(DivergedError, match="21 updates"):
            run(script, monkeypatch, script.NAMES[0], "-o", tmp_path)
    assert len(started) == 1
    [stored] = (tmp_path / "c16").glob("*.json")
    assert "numbers" not in json.loads(stored.read_text())


def test_a_wrong_network_is_refused(script, trained, monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(script, monkeypatch, "RNN", "-o", tmp_path)
    assert "'RNN' is none of: transformer, recurrent" in capsys.readouterr().err
    assert not trained
