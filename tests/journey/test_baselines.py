"""The baselines: trained, used and evaluated from the command line like a Transformer."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from dragoman.inference.translator import Translator
from support import digits
from support.small_models import BASELINES

SIDES = {"source": "source", "reference": "target"}
TRAINING = {"steps": 30, "validate_every": 30, "save_every": 30, "average_checkpoints": 1}


def command(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *map(str, words)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"COLUMNS": "100"},
        **options,
    )


IN_CI = [
    pytest.param(name, marks=pytest.mark.slow if "with" in name else pytest.mark.long)
    for name in BASELINES
]
"""One baseline is used on the command line in CI; tests/contract tests all."""


@pytest.mark.parametrize("name", IN_CI)
def test_from_a_recipe_to_a_score(tmp_path, name):
    recipe = digits.write(tmp_path, model=BASELINES[name], training=TRAINING)

    trained = command("train", recipe)
    assert trained.returncode == 0, trained.stderr
    output = " ".join((trained.stdout + trained.stderr).split())
    refusal = "CTranslate2: no, because model.architecture: CTranslate2 runs only Transformers"
    assert refusal in output
    # Before the first update, while another architecture can still be chosen.
    assert output.index(refusal) < output.index("loss")

    translated = command("translate", tmp_path / "run", input="1 2 3\n\n4 5\n")
    assert translated.returncode == 0, translated.stderr
    assert translated.stdout.count("\n") == 3

    scores = tmp_path / "scores.json"
    text = [
        f"--{side}={tmp_path / 'prepared' / f'test.{ending}'}" for side, ending in SIDES.items()
    ]
    evaluated = command("evaluate", tmp_path / "run", *text, "--json", scores)
    assert evaluated.returncode == 0, evaluated.stderr
    assert "BLEU" in evaluated.stdout
    assert json.loads(scores.read_text(encoding="utf-8"))

    for target in ("ctranslate2", "huggingface"):
        refused = command("export", tmp_path / "run", "--to", target)
        assert refused.returncode in (2, 4)
        assert "model.architecture" in refused.stderr
        assert "Traceback" not in refused.stderr

    (answer,) = Translator.load(tmp_path / "run").translate(["1 2 3"], with_alignment=True)
    attends = name != "recurrent"
    assert len(answer.alignment) == (len(answer.tokens) if attends else 0)


@pytest.mark.parametrize("name", IN_CI)
def test_show_draws_it_and_writes_a_recipe_that_is_read_again(tmp_path, name):
    settings = [
        f"model.architecture={BASELINES[name]['architecture']}",
        "model.position=sinusoidal",
    ]
    if name == "recurrent":
        settings.append("model.recurrent.attention=false")
    shown = command("show", "tiny", *settings)
    assert shown.returncode == 0, shown.stderr
    path = tmp_path / "recipe.yaml"
    path.write_text(shown.stdout, encoding="utf-8")
    again = command("show", path)
    assert again.stdout == shown.stdout
    drawn = command("show", path, "--model")
    assert drawn.returncode == 0, drawn.stderr
    room = {"recurrent": "RecurrentLayer", "convolutional": "GatedConvolution"}
    assert room[BASELINES[name]["architecture"]] in drawn.stdout
    assert ("Attention" in drawn.stdout) == (name != "recurrent")
