"""Every part learns a task that needs positions; the demo grammar is learned completely."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.artifact import read_artifact
from dragoman.evaluation.validation import ValidationSet
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.workflow import training
from support import digits
from support.small_models import BASELINES, EVERY_PART

LONGEST = 6
ENOUGH = 0.9
"""Share of unseen digit sequences that are reversed without a mistake."""
WITHOUT_PROJECTIONS = 0.5
"""Bare heads have no weights; they learn more slowly."""
LITTLE = 0.4
"""Without positions only sequences that are the same in any order are right."""
TASK = {
    "model": {
        "width": 64,
        "heads": 4,
        "feed_forward_width": 128,
        "norm": "pre",
        "dropout": 0.0,
    },
    "training": {
        "steps": 600,
        "tokens_per_update": 1024,
        "micro_batch": 1024,
        "learning_rate": 0.005,
        "warmup_steps": 100,
        "label_smoothing": 0.0,
        "ema_decay": 0.98,
        "average_checkpoints": 1,
        "validate_every": 600,
        "save_every": 600,
        "log_every": 100,
    },
}

# A norm removes the mean of the features, and naive positions add the same number to every feature.
# A norm before each sublayer removes the position completely; after it, the first attention has
# already used the position.
NAIVE = {"norm": "post"}, {"steps": 1200, "validate_every": 1200, "save_every": 1200}


TOGETHER = {
    "similarity": "cosine",
    "attention_kind": "local",
    "position": "rotary",
    "head_kind": "narrow",
}
"""One part of each kind, not the default. They learn in CI, all parts with `make proof`."""
NO_POSITION = ("position", "none")


def share_right(run: Path, pairs: list[tuple[str, str]]) -> float:
    """Return the share of sources whose translation equals the reference exactly."""
    artifact = read_artifact(run)
    tokenizers = tuple(load_tokenizer(artifact.tokenizer / side) for side in ("source", "target"))
    sources, references = zip(*pairs, strict=True)
    model = artifact.model()
    validation_set = ValidationSet(
        sources, references, tokenizers, artifact.recipe, torch.device("cpu"), model.max_positions
    )
    translations = validation_set.translate(model)
    is_right = [ours == theirs for ours, theirs in zip(translations, references, strict=True)]
    return sum(is_right) / len(pairs)


def learned_digits(
    folder: Path, model: Mapping[str, Any], learning: Mapping[str, Any] | None = None
) -> float:
    """Train a model; return the share of unseen digit sequences that it reverses."""
    recipe = digits.write(
        folder,
        pairs=8000,
        longest=LONGEST,
        model={**TASK["model"], **model},
        training={**TASK["training"], **(learning or {})},
    )
    training.train(recipe)
    return share_right(folder / "run", digits.digit_pairs(300, LONGEST, random.Random(99)))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(*part, marks=pytest.mark.slow if part == NO_POSITION else pytest.mark.long)
        for part in EVERY_PART
    ],
)
def test_every_part_learns_to_reverse_digits(tmp_path, kind, name):
    model, learning = NAIVE if name == "naive" else ({}, {})
    right = learned_digits(tmp_path, {kind: name, **model}, learning)
    print(f"{kind} {name}: {right:.3f}")
    if (kind, name) == NO_POSITION:
        assert right < LITTLE, "a model without positions cannot reverse digits"
    else:
        assert right >= (WITHOUT_PROJECTIONS if name == "bare" else ENOUGH)


@pytest.mark.slow
def test_parts_of_every_kind_learn_to_reverse_digits_together(tmp_path):
    right = learned_digits(tmp_path, TOGETHER)
    print(f"together: {right:.3f}")
    assert right >= ENOUGH


@pytest.mark.slow
@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_learns_to_reverse_digits(tmp_path, name):
    """Also the one that keeps all digits in one state: they are few."""
    steps = {"steps": 400, "validate_every": 400, "save_every": 400}
    depth = {"encoder_layers": 2, "decoder_layers": 2}
    right = learned_digits(tmp_path, {**depth, **BASELINES[name]}, steps)
    print(f"{name}: {right:.3f}")
    assert right >= ENOUGH
