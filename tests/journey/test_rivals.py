"""Can a rival be trained, translated with, and evaluated from the command line like any model?"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import digits
from dragoman.translator import Translator
from small_models import RIVALS

SIDES = {"source": "source", "reference": "target"}
LEARNING = {"steps": 30, "validate_every": 30, "save_every": 30, "average": 1}


def command(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *map(str, words)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"COLUMNS": "100"},
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", RIVALS)
def test_from_a_recipe_to_a_score(tmp_path, name):
    recipe = digits.write(tmp_path, model=RIVALS[name], training=LEARNING)

    trained = command("train", recipe)
    assert trained.returncode == 0, trained.stderr
    told = " ".join((trained.stdout + trained.stderr).split())
    refusal = "served by CTranslate2: no, because model.architecture: CTranslate2 runs Transformers"
    assert refusal in told
    # Before the first step, for afterwards it is too late to choose another.
    assert told.index(refusal) < told.index("loss")

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

    for server in ("ctranslate2", "huggingface"):
        refused = command("export", tmp_path / "run", "--to", server)
        assert refused.returncode in (2, 4)
        assert "model.architecture" in refused.stderr
        assert "Traceback" not in refused.stderr

    (answer,) = Translator.load(tmp_path / "run").translate(["1 2 3"], with_alignment=True)
    attends = name != "recurrent"
    assert len(answer.alignment) == (len(answer.tokens) if attends else 0)


@pytest.mark.parametrize("name", RIVALS)
def test_show_draws_it_and_writes_a_recipe_that_is_read_again(tmp_path, name):
    settings = [f"model.architecture={RIVALS[name]['architecture']}", "model.position=sinusoidal"]
    if name == "recurrent":
        settings.append("model.recurrent.attends=false")
    shown = command("show", "tiny", *settings)
    assert shown.returncode == 0, shown.stderr
    path = tmp_path / "recipe.yaml"
    path.write_text(shown.stdout, encoding="utf-8")
    again = command("show", path)
    assert again.stdout == shown.stdout
    drawn = command("show", path, "--model")
    assert drawn.returncode == 0, drawn.stderr
    room = {"recurrent": "RecurrentLayer", "convolutional": "GatedConvolution"}
    assert room[RIVALS[name]["architecture"]] in drawn.stdout
    assert ("Attention" in drawn.stdout) == (name != "recurrent")
