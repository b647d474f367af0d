"""Two validation sets: the best checkpoint has not lost too much on the general one."""

import json
import random

import pytest

from dragoman.artifact import read_artifact
from dragoman.workflow.training import GENERAL_TOLERANCE, train
from support import digits
from support.trainees import journal, saved_steps

LIMIT = 5.0


def add_general_set(prepared, pairs):
    """Add what `corpus.general` adds to a prepared folder."""
    manifest = json.loads((prepared / "manifest.json").read_text())
    for index, side in enumerate(digits.LANGUAGES):
        name = f"general.{side}"
        (prepared / name).write_text("".join(f"{pair[index]}\n" for pair in pairs))
        manifest.setdefault("files", {})[name] = ""
    (prepared / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A parent that reverses digits, and a corpus that teaches it to copy them instead."""
    folder = tmp_path_factory.mktemp("general")
    parent = folder / "parent"
    parent.mkdir()
    recipe = digits.write(parent, longest=4, training={"steps": 150, "validate_every": 150})
    train(recipe)
    rng = random.Random(3)
    reversed_pairs = digits.digit_pairs(40, 4, rng)
    sources = [source for source, _ in digits.digit_pairs(300, 4, rng)]
    copies = [(source, source) for source in sources]
    digits.write_prepared(folder / "prepared", copies[:260], copies[260:])
    # The same words in the same order, so the vocabulary is the parent's.
    for side in digits.LANGUAGES:
        for file in (parent / "prepared" / "tokenizer" / side).iterdir():
            (folder / "prepared" / "tokenizer" / side / file.name).write_bytes(file.read_bytes())
    add_general_set(folder / "prepared", reversed_pairs)
    return folder


def adapt(project, name, limit, steps=24):
    recipe = digits.write_recipe(
        project,
        f"{name}.yaml",
        adaptation={"max_general_loss": limit / GENERAL_TOLERANCE},
        training={
            "steps": steps,
            "init_from": "parent/run",
            "folder": name,
            "average_checkpoints": 1,
            "keep_checkpoints": 1,
        },
    )
    return train(recipe)


def validations(folder):
    return [entry for entry in journal(folder) if entry["kind"] == "validation"]


@pytest.mark.slow
def test_the_best_checkpoint_has_kept_general_quality(project):
    result = adapt(project, "limited", LIMIT)
    first, *others = validations(result.folder)
    assert first["step"] == 0
    assert first["is_best"]
    assert first["general_bleu"] > 20, "the parent must know its task, or there is nothing to lose"
    lost = [first["general_bleu"] - entry["general_bleu"] for entry in others]
    assert max(lost) > LIMIT, "learning to copy must cost quality, or the limit is not tested"
    assert max(entry["bleu"] for entry in others) > first["bleu"]
    best = result.card.validation.step
    allowed = {0} | {e["step"] for e, loss in zip(others, lost, strict=True) if loss <= LIMIT}
    assert best in allowed
    scores = {entry["step"]: entry["bleu"] for entry in (first, *others)}
    assert scores[best] == max(scores[step] for step in allowed)
    assert result.card.checkpoint_steps == (best,)
    # Checkpoints that cost too much are not the best, whatever they score.
    free = adapt(project, "free", 100.0)
    assert scores[free.card.validation.step] == max(scores.values())
    assert free.card.validation.step not in allowed


@pytest.mark.slow
def test_if_no_update_helps_the_first_weights_remain(project):
    result = adapt(project, "nothing", 0.0, steps=4)
    if result.card.validation.step == 0:
        hashes = [
            read_artifact(path).model_hash for path in (result.folder, project / "parent/run")
        ]
        assert hashes[0] == hashes[1]


@pytest.mark.slow
def test_a_resumed_run_validates_the_first_weights_once(project):
    adapt(project, "resumed", LIMIT, steps=4)
    folder = adapt(project, "resumed", LIMIT, steps=24).folder
    whole = adapt(project, "whole", LIMIT, steps=24).folder
    assert validations(folder) == validations(whole)
    assert read_artifact(folder).model_hash == read_artifact(whole).model_hash
    assert saved_steps(folder) == saved_steps(whole)
