"""Does it learn? Every part, on a task that needs places; and the demo grammar, to the end."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import digits
from dragoman.artifact import read_artifact
from dragoman.evaluation.development import Development
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.workflow import training
from small_models import EVERY_PART, RIVALS

LONGEST = 6
ENOUGH = 0.9
"""Of unseen digits said backwards without a mistake."""
WITHOUT_PROJECTIONS = 0.5
"""Bare heads have nothing of their own to learn; they get there later."""
LITTLE = 0.4
"""A model that is told no places stays near the share that reads the same in any order."""
TASK = {
    "model": {
        "width": 64,
        "head_count": 4,
        "feed_forward_width": 128,
        "norm": "pre",
        "dropout": 0.0,
    },
    "training": {
        "steps": 600,
        "tokens_per_update": 1024,
        "micro_batch": 1024,
        "learning_rate": 0.005,
        "warmup": 100,
        "label_smoothing": 0.0,
        "moving_average": 0.98,
        "average": 1,
        "validate_every": 600,
        "save_every": 600,
        "log_every": 100,
    },
}

# A norm takes the mean of the features away, and with it a place that every feature tells alike: in
# front of each sublayer it leaves nothing of it, behind it the first attention has seen it.
NAIVE = {"norm": "post"}, {"steps": 1200, "validate_every": 1200, "save_every": 1200}


def share_right(run: Path, pairs: list[tuple[str, str]]) -> float:
    """Which share of the sources is translated as its reference, letter for letter."""
    artifact = read_artifact(run)
    tokenizers = tuple(load_tokenizer(artifact.tokenizer / side) for side in ("source", "target"))
    sources, references = zip(*pairs, strict=True)
    settings = artifact.recipe.decoding
    watched = Development(sources, references, tokenizers, settings, torch.device("cpu"))
    found = watched.translate(artifact.model())
    return sum(each == told for each, told in zip(found, references, strict=True)) / len(pairs)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), EVERY_PART)
def test_every_part_learns_to_say_digits_backwards(tmp_path, kind, name):
    model, learning = NAIVE if name == "naive" else ({}, {})
    recipe = digits.write(
        tmp_path,
        pairs=8000,
        longest=LONGEST,
        model={**TASK["model"], kind: name, **model},
        training={**TASK["training"], **learning},
    )
    for _ in training.train(recipe):
        pass
    unseen = digits.digit_pairs(300, LONGEST, random.Random(99))
    right = share_right(tmp_path / "run", unseen)
    print(f"{kind} {name}: {right:.3f}")
    if (kind, name) == ("position", "none"):
        assert right < LITTLE, "digits were put in order by a model that is told no places"
    else:
        assert right >= (WITHOUT_PROJECTIONS if name == "bare" else ENOUGH)


@pytest.mark.slow
@pytest.mark.parametrize("name", RIVALS)
def test_every_rival_learns_to_say_digits_backwards(tmp_path, name):
    """Also the one that must carry all of them in one state: they are few."""
    steps = {"steps": 400, "validate_every": 400, "save_every": 400}
    depth = {"encoder_layers": 2, "decoder_layers": 2}
    recipe = digits.write(
        tmp_path,
        pairs=8000,
        longest=LONGEST,
        model={**TASK["model"], **depth, **RIVALS[name]},
        training={**TASK["training"], **steps},
    )
    for _ in training.train(recipe):
        pass
    right = share_right(tmp_path / "run", digits.digit_pairs(300, LONGEST, random.Random(99)))
    print(f"{name}: {right:.3f}")
    assert right >= ENOUGH


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_demo_grammar_is_learned_from_the_command_line(tmp_path):
    for command in (
        ["init", str(tmp_path), "--demo"],
        ["prepare", str(tmp_path / "recipe.yaml")],
        ["train", str(tmp_path / "recipe.yaml")],
    ):
        typed = [sys.executable, "-m", "dragoman", *command]
        subprocess.run(typed, check=True, cwd=tmp_path)
    sides = [(tmp_path / f"test.{side}").read_text().split("\n")[:-1] for side in ("en", "de")]
    right = share_right(tmp_path / "run", list(zip(*sides, strict=True)))
    print(f"of {len(sides[0])} unseen items right: {right:.4f}")
    assert right >= 0.99
    assert (tmp_path / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")
