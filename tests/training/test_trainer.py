"""Whole training runs: learning, resuming, ending, choosing weights, and what is written."""

import errno
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from safetensors.torch import load_file

from dragoman.artifact import read_artifact
from dragoman.errors import ArtifactError, DataError, RecipeError, Stopped
from dragoman.evaluation.validation import ValidationSet
from dragoman.interop.folder import read_export
from dragoman.recipe.schema import TrainingRecipe
from dragoman.storage.files import sha256
from dragoman.training import builders, curve, finish, run_folder
from dragoman.training.card import BestValidation, read_card
from dragoman.training.device import choose_precision
from dragoman.training.events import (
    Message,
    TrainingProgress,
    TrainingSummary,
    UpdateCompleted,
    ValidationResult,
)
from dragoman.training.journal import Journal, read_journal
from dragoman.workflow import training
from support import digits

pytestmark = pytest.mark.slow  # Whole runs.

VARYING = {"tokens_per_second", "seconds", "cpu_seconds", "unscheduled_saves"}
"""What differs between equal runs: their time, and when they were stopped."""


@pytest.fixture(scope="module", autouse=True)
def _without_curve_and_export():
    """Curve and export take as long as everything else; one test checks them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finish, "draw_curve", lambda *_: None)
        patch.setattr(training, "export_to_ctranslate2", lambda _: "")
        yield


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """One prepared folder per kind of tokenizer."""
    folder = tmp_path_factory.mktemp("corpora")
    for kind in ("words", "sentencepiece"):
        (folder / kind).mkdir()
        digits.write(folder / kind, kind=kind)
    return folder


@pytest.fixture
def write(corpora, tmp_path):
    """A function that writes a recipe into a new folder, for a shared corpus."""
    numbers = itertools.count()

    def write_recipe(kind="words", **settings):
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        corpus = {"folder": str(corpora / kind / "prepared")}
        return digits.write_recipe(folder, corpus=corpus, tokenizer={"kind": kind}, **settings)

    return write_recipe


@pytest.fixture(scope="module")
def whole(corpora):
    """The folder and the events of a finished run of twelve updates; tests do not change it."""
    recipe = digits.write_recipe(corpora / "words")
    return recipe.parent / "run", train(recipe)


@pytest.fixture
def scores(monkeypatch):
    """A function that sets the results of the next validations; the last result repeats."""

    def set_scores(**values):
        for name, results in values.items():
            endless = itertools.chain(results, itertools.repeat(results[-1]))
            monkeypatch.setattr(ValidationSet, name, lambda *_, endless=endless: next(endless))

    set_scores(bleu=[0.0], loss=[1.0])
    return set_scores


def train(recipe, *settings):
    """Train to the end and return all events."""
    events = []
    training.train(recipe, settings, on_progress=events.append)
    return events


def stop_after(recipe, step):
    """Ask the run to stop after the progress report of a step."""

    def on_progress(event):
        if isinstance(event, TrainingProgress) and event.step == step:
            os.kill(os.getpid(), signal.SIGTERM)

    training.train(recipe, on_progress=on_progress)


def test_a_setting_that_learns_badly_is_warned_of_once(write, scores):
    recipe = write()
    settings = ["model.similarity=cosine", "training.steps=2"]
    messages = [event.text for event in train(recipe, *settings) if isinstance(event, Message)]
    assert "\n".join(messages).count("warning: model.similarity: cosine") == 1
    again = [event.text for event in train(recipe, *settings) if isinstance(event, Message)]
    assert "warning" not in "\n".join(again)


class CutOff(Exception):  # noqa: N818
    """Ends a run from inside, as if the process had died."""


def cut_off_at(recipe, step):
    def on_progress(event):
        if event.step >= step:
            raise CutOff

    with pytest.raises(CutOff):
        training.train(recipe, on_progress=on_progress)


def last_step(events):
    return events[-1].step


def folder_of(recipe, name="run"):
    return recipe.parent / name


def journal(folder):
    return [
        {key: value for key, value in entry.items() if key not in VARYING}
        for entry in read_journal(folder / "journal.jsonl")
    ]


def checkpoint(folder, step, name="model"):
    return load_file(folder / "checkpoints" / f"step-{step:08}" / f"{name}.safetensors")


def saved_steps(folder):
    return sorted(
        int(path.name.removeprefix("step-")) for path in folder.glob("checkpoints/step-*")
    )


def tensors_are_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    return all(ours[name].equal(tensor) for name, tensor in theirs.items())


def bytes_of(folder):
    """Everything that a run has computed: weights, moments, averages, and the journal."""
    files = [folder / "model.safetensors", *sorted(folder.glob("checkpoints/*/*.safetensors"))]
    content = {str(file.relative_to(folder)): file.read_bytes() for file in files}
    for file in folder.glob("checkpoints/*/state.json"):
        state = json.loads(file.read_text())
        content[str(file.relative_to(folder))] = {
            key: value for key, value in state.items() if key not in VARYING
        }
    return content | {"journal": journal(folder)}


# Learning.


def test_losses_fall(whole):
    _, events = whole
    losses = [event.loss for event in events if isinstance(event, TrainingProgress)]
    assert len(losses) == 12
    # A uniform guess has loss log 16 ≈ 2.8; end tokens and digits are learned in a few updates.
    assert losses[-1] < 0.8 * losses[0]
    validation = [event.scores.loss for event in events if isinstance(event, ValidationResult)]
    assert len(validation) == 3
    assert validation == sorted(validation, reverse=True)


@pytest.mark.slow
def test_a_model_learns_to_reverse_digits(tmp_path):
    settings = {"steps": 450, "warmup_steps": 100, "micro_batch": "auto", "validation_pairs": 40}
    intervals = {"validate_every": 450, "save_every": 450, "log_every": 450}
    model = {"norm": "pre", "dropout": 0.0}
    recipe = digits.write(
        tmp_path, pairs=2000, longest=4, model=model, training={**settings, **intervals}
    )
    (validation,) = [event for event in train(recipe) if isinstance(event, ValidationResult)]
    # Measured: BLEU 100 and loss 0.10, partly due to label smoothing. A random guess: 0 and 2.4.
    assert validation.scores.bleu > 80
    assert validation.scores.loss < 0.3


def test_another_seed_is_another_run(write, whole):
    """That the same seed gives the same run is shown by all comparisons below."""
    folder, _ = whole
    recipe = write(seed=2, training={"steps": 4})
    train(recipe)
    assert not tensors_are_same(checkpoint(folder_of(recipe), 4), checkpoint(folder, 4))
    assert journal(folder_of(recipe))[0]["loss"] != journal(folder)[0]["loss"]


# Resuming.


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ema_decay": 0.9, "weight_decay": 0.1, "max_grad_norm": 0.0},
        {"ema_decay": 0.5, "bpe_dropout": 0.2, "r_drop": 1.0, "temperature": 2.0},
        pytest.param({"r_drop": 1.0}, marks=pytest.mark.slow),
        pytest.param({"bpe_dropout": 0.2}, marks=pytest.mark.slow),
        pytest.param({"activation_checkpointing": True, "r_drop": 1.0}, marks=pytest.mark.slow),
    ],
    ids=lambda settings: ", ".join(settings) or "plain",
)
def test_twelve_updates_equal_seven_and_five_more_bit_for_bit(write, settings):
    kind = "sentencepiece" if "bpe_dropout" in settings else "words"
    # Journal entries at 5 and 10: sums of unfinished entries must survive the stop at 7.
    training = {"validate_every": 7, "save_every": 7, "log_every": 5, **settings}
    once, twice = (write(kind, training=training) for _ in range(2))
    train(once)
    assert last_step(train(twice, "training.steps=7")) == 7
    events = train(twice)
    assert [event.step for event in events if isinstance(event, TrainingProgress)] == [10]
    assert bytes_of(folder_of(twice)) == bytes_of(folder_of(once))


def test_a_run_that_was_interrupted_several_times_gives_the_same_result(write, whole):
    folder, _ = whole
    recipe = write()
    for step in (3, 7, 10):
        cut_off_at(recipe, step)
    train(recipe)
    assert bytes_of(folder_of(recipe)) == bytes_of(folder)


def test_training_a_finished_run_again_changes_nothing(write):
    recipe = write(training={"steps": 4})
    train(recipe)
    before = bytes_of(folder_of(recipe))
    events = train(recipe)
    assert {event.step for event in events} == {4}
    assert "already finished: training.steps=4 is reached" in events[-1].text
    assert training.train(recipe).was_finished
    assert bytes_of(folder_of(recipe)) == before


def test_a_signal_stops_training_after_the_update_and_the_same_command_resumes(write, whole):
    folder, _ = whole
    recipe = write()
    with pytest.raises(Stopped, match="at update 6; run the same command to continue"):
        stop_after(recipe, 5)
    assert saved_steps(folder_of(recipe)) == [4, 6]
    train(recipe)
    assert bytes_of(folder_of(recipe)) == bytes_of(folder)


def test_a_moved_run_is_resumed(write, whole):
    folder, _ = whole
    recipe = write()
    train(recipe, "training.steps=4")
    folder_of(recipe).rename(folder_of(recipe, "moved"))
    train(recipe, "training.folder=moved")
    assert bytes_of(folder_of(recipe, "moved")) == bytes_of(folder)


def test_a_run_cannot_be_trained_twice_at_the_same_time(write):
    recipe = write()

    def on_progress(event):
        with pytest.raises(ArtifactError, match=f"is being trained by process {os.getpid()}"):
            train(recipe)
        raise CutOff

    with pytest.raises(CutOff):
        training.train(recipe, on_progress=on_progress)
    assert last_step(train(recipe, "training.steps=1")) == 1


def test_another_error_of_the_lock_is_not_taken_for_a_second_process(write, monkeypatch):
    def refuse(folder):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(run_folder, "lock_folder", refuse)
    with pytest.raises(OSError, match="Read-only file system"):
        train(write())


# Ending.


@pytest.mark.parametrize(
    ("best_metric", "values", "min_delta", "end"),
    [
        (
            "bleu",
            {"bleu": [5, 6, 6, 5]},
            0.0,
            4,
        ),  # The second is best; two more without improvement.
        ("bleu", {"bleu": [5, 6, 7, 8]}, 0.0, 6),  # Better each time, then equal.
        (
            "bleu",
            {"bleu": [5, 5.6, 6.2]},
            1.0,
            5,
        ),  # Two small improvements together count, at the third.
        ("bleu", {"bleu": [5, 5.4, 5.8, 5.9]}, 1.0, 3),
        ("loss", {"loss": [3, 2, 2.1, 2.2], "bleu": [1, 2, 3, 4]}, 0.0, 4),
        ("loss", {"loss": [3, 2.9, 2.85, 2.7], "bleu": [1, 2, 3, 4]}, 0.5, 3),
    ],
)
def test_training_ends_when_patience_is_exhausted(
    write, scores, best_metric, values, min_delta, end
):
    scores(**values)
    settings = {
        "best_metric": best_metric,
        "patience": 2,
        "min_delta": min_delta,
        "validate_every": 1,
    }
    recipe = write(training={"steps": 9, "micro_batch": 512, "save_every": 9, **settings})
    events = train(recipe)
    assert last_step(events) == end
    assert events[-1].text == "training ended: no improvement in 2 validations (training.patience)"


def test_a_run_that_ended_by_patience_continues_only_with_more_patience(write, scores):
    scores(bleu=[5.0])
    recipe = write(training={"steps": 9, "patience": 1, "validate_every": 1, "micro_batch": 512})
    assert last_step(train(recipe)) == 2
    assert last_step(train(recipe)) == 2
    assert last_step(train(recipe, "training.patience=3")) == 4


def test_training_ends_at_its_time_limit(write):
    recipe = write(training={"minutes": 1e-6})
    events = train(recipe)
    assert last_step(events) == 1
    assert [event.step for event in events if isinstance(event, ValidationResult)] == [1]
    assert events[-1].text == "training ended: the time limit training.minutes=1e-06 is reached"
    assert read_card(folder_of(recipe)).ended_by == "minutes"
    assert saved_steps(folder_of(recipe)) == [1]
    assert last_step(train(recipe)) == 1
    assert last_step(train(recipe, "training.minutes=0", "training.steps=2")) == 2


# Choosing the weights.


@pytest.mark.parametrize(
    ("best_metric", "best"),
    [("bleu", (9.0, 8)), ("loss", (1.5, 4))],
)
def test_the_best_checkpoint_becomes_the_model(write, scores, best_metric, best):
    scores(bleu=[5.0, 9.0, 7.0], loss=[1.5, 3.0, 2.0])
    recipe = write(
        training={"best_metric": best_metric, "average_checkpoints": 1, "keep_checkpoints": 1}
    )
    train(recipe)
    folder, (value, step) = folder_of(recipe), best
    card = read_card(folder)
    assert tensors_are_same(load_file(folder / "model.safetensors"), checkpoint(folder, step))
    assert card.checkpoint_steps == (step,)
    assert 0 < card.cpu_hours < 24
    assert card.validation == BestValidation(metric=best_metric, value=value, step=step)
    assert saved_steps(folder) == [step, 12]


def test_a_loss_that_is_not_finite_is_never_the_best(write, scores):
    scores(loss=[float("nan"), 2.0, float("inf")])
    recipe = write(
        training={"best_metric": "loss", "validate_every": 1, "steps": 3, "micro_batch": 512}
    )
    events = train(recipe)
    is_best = [event.is_best for event in events if isinstance(event, ValidationResult)]
    assert is_best == [False, True, False]
    best = read_card(folder_of(recipe)).validation
    assert best == BestValidation(metric="loss", value=2.0, step=2)


def test_another_metric_starts_a_new_comparison(write, scores):
    """BLEU and loss cannot be compared."""
    scores(bleu=[30.0], loss=[2.0, 2.5, 1.9])
    recipe = write(training={"validate_every": 1, "average_checkpoints": 1, "steps": 1})
    train(recipe)
    events = train(recipe, "training.best_metric=loss", "training.steps=3")
    is_best = [event.is_best for event in events if isinstance(event, ValidationResult)]
    assert is_best == [True, True]
    best = read_card(folder_of(recipe)).validation
    assert best == BestValidation(metric="loss", value=1.9, step=3)


def test_a_run_without_validation_uses_its_last_weights(write):
    recipe = write(training={"average_checkpoints": 1})
    with pytest.raises(Stopped):
        stop_after(recipe, 1)
    train(recipe, "training.steps=2")
    folder = folder_of(recipe)
    assert read_card(folder).checkpoint_steps == (2,)
    assert tensors_are_same(load_file(folder / "model.safetensors"), checkpoint(folder, 2))


@pytest.mark.parametrize(("average_checkpoints", "ema_decay"), [(2, 0.9), (3, 0.0), (7, 0.0)])
def test_the_last_checkpoints_are_averaged(write, scores, average_checkpoints, ema_decay):
    scores(bleu=[9.0, 1.0])
    settings = {"save_every": 1, "validate_every": 1, "steps": 5, "keep_checkpoints": 1}
    averaging = {"average_checkpoints": average_checkpoints, "ema_decay": ema_decay}
    recipe = write(training={**settings, **averaging})
    train(recipe)
    folder = folder_of(recipe)
    steps = [1, 2, 3, 4, 5][-average_checkpoints:]
    assert saved_steps(folder) == sorted({1, *steps})  # The best is kept too.
    assert list(read_card(folder).checkpoint_steps) == steps
    for name, mean in load_file(folder / "model.safetensors").items():
        saved = (
            [checkpoint(folder, step, "optimizer")[f"average.{name}"] for step in steps]
            if ema_decay
            else [checkpoint(folder, step)[name] for step in steps]
        )
        exact = torch.stack([weight.double() for weight in saved]).mean(dim=0)
        # Summed in float64 and rounded once.
        torch.testing.assert_close(mean.double(), exact, rtol=2**-23, atol=1e-12)


def test_the_newest_checkpoints_and_the_best_are_kept(write, scores):
    scores(bleu=[1.0, 9.0, 1.0])
    recipe = write(
        training={
            "steps": 6,
            "validate_every": 1,
            "save_every": 1,
            "keep_checkpoints": 2,
            "average_checkpoints": 1,
        }
    )
    train(recipe)
    assert saved_steps(folder_of(recipe)) == [2, 5, 6]
    partly_removed = [path.name for path in folder_of(recipe).glob("checkpoints/.*")]
    assert partly_removed == []


def test_validation_uses_the_averaged_weights_and_restores_the_others(write, whole):
    """With averaging, training losses are the same and validation losses are not."""
    folder, _ = whole
    recipe = write(training={"ema_decay": 0.99, "steps": 8})
    train(recipe)

    def losses(folder, kind):
        return [entry["loss"] for entry in journal(folder) if entry["kind"] == kind]

    assert losses(folder_of(recipe), "progress") == losses(folder, "progress")[:8]
    assert losses(folder_of(recipe), "validation")[0] != losses(folder, "validation")[0]
    for step in (4, 8):
        assert tensors_are_same(checkpoint(folder_of(recipe), step), checkpoint(folder, step))


def test_the_moving_average_is_updated_each_time(write):
    """a ← d · a + (1 − d) · w,  d = t / (t + 50) at the start of a run."""
    recipe = write(training={"ema_decay": 0.9, "steps": 3, "save_every": 1})
    train(recipe)
    folder = folder_of(recipe)
    before, after = (checkpoint(folder, step, "optimizer") for step in (2, 3))
    for name, weight in checkpoint(folder, 3).items():
        exact = 3 / 53 * before[f"average.{name}"].double() + 50 / 53 * weight.double()
        # One update in float32.
        torch.testing.assert_close(after[f"average.{name}"].double(), exact, rtol=1e-6, atol=1e-7)


# Starting.


def test_fine_tuning_starts_with_the_weights_of_another_run(write, whole):
    folder, _ = whole
    first = load_file(folder / "model.safetensors")
    # With learning rate 0 the weights do not change.
    settings = {"init_from": str(folder), "learning_rate": 0, "steps": 1}
    recipe = write(training=settings, model={"dropout": 0.3})
    train(recipe)
    assert tensors_are_same(load_file(folder_of(recipe) / "model.safetensors"), first)
    fresh = write(training={"learning_rate": 0, "steps": 1})
    train(fresh)
    assert not tensors_are_same(load_file(folder_of(fresh) / "model.safetensors"), first)


def test_initial_weights_of_another_model_are_refused_with_all_mistakes_at_once(write, whole):
    folder, _ = whole
    model = {"width": 16, "norm": "pre", "dropout": 0.3}
    recipe = write("sentencepiece", training={"init_from": str(folder)}, model=model)
    with pytest.raises(RecipeError) as caught:
        train(recipe)
    mistakes = {mistake.path: mistake.what for mistake in caught.value.mistakes}
    assert list(mistakes) == ["model.width", "model.norm", "training.init_from"]
    assert "found 16, but the run that training.init_from names has 32" in mistakes["model.width"]
    assert "its vocabulary is not that of this corpus" in mistakes["training.init_from"]


def test_a_recipe_can_be_corrected_before_the_first_update(write, whole):
    """A mistake at the start is corrected in the recipe, in the same folder."""
    folder, _ = whole
    recipe = write(training={"init_from": str(folder)}, model={"width": 16})
    with pytest.raises(RecipeError, match=r"model\.width"):
        train(recipe)
    assert last_step(train(recipe, "model.width=32", "training.steps=1")) == 1


def test_a_fine_tuned_run_is_resumed_without_its_initial_run(write):
    origin = write(training={"steps": 1})
    train(origin)
    recipe = write(training={"init_from": str(folder_of(origin)), "steps": 2})
    train(recipe, "training.steps=1")
    folder_of(origin).rename(folder_of(origin, "moved"))
    assert last_step(train(recipe)) == 2


def test_an_unfinished_initial_run_is_reported(write, tmp_path):
    with pytest.raises(ArtifactError, match="there is no folder"):
        train(write(training={"init_from": "nowhere"}))
    with pytest.raises(
        ArtifactError, match="is not a run; expected a folder that `dragoman train` wrote"
    ):
        train(write(training={"init_from": str(tmp_path)}))


def test_changed_settings_are_refused_all_at_once(write):
    recipe = write(training={"steps": 1})
    train(recipe)
    before = bytes_of(folder_of(recipe))
    changes = [
        "training.max_grad_norm=2",
        "training.warmup_steps=7",
        "model.dropout=0.2",
        "model.norm=pre",
    ]
    with pytest.raises(RecipeError) as caught:
        train(recipe, *changes, "seed=3", "training.steps=2")
    mistakes = {mistake.path: mistake.what for mistake in caught.value.mistakes}
    assert set(mistakes) == {*(change.partition("=")[0] for change in changes), "seed"}
    assert mistakes["model.dropout"] == "found 0.2, but the run began with 0.1"
    assert str(caught.value).startswith("the recipe has 5 mistakes:\n")
    assert str(caught.value).endswith("for example: training.folder=run-2")
    assert bytes_of(folder_of(recipe)) == before
    # The refused recipe was not written into the run.
    assert read_artifact(folder_of(recipe)).recipe.model.dropout == 0.1


def test_settings_that_do_not_affect_updates_may_change(write, whole):
    folder, _ = whole
    changes = {
        "minutes": 60,
        "patience": 50,
        "min_delta": 0.5,
        "best_metric": "loss",
        "validate_every": 3,
        "validation_pairs": 5,
        "save_every": 2,
        "keep_checkpoints": 2,
        "average_checkpoints": 1,
        "log_every": 3,
        "tensorboard": True,
        "threads": torch.get_num_threads(),
        "compile": False,
        "parallel": "fsdp",
        "activation_checkpointing": True,
        "steps": 12,
    }
    assert {*changes, "folder"} == run_folder.CHANGEABLE["training"]
    recipe = write(training={"steps": 4})
    train(recipe)
    train(recipe, *(f"training.{name}={value}" for name, value in changes.items()))
    assert tensors_are_same(checkpoint(folder_of(recipe), 12), checkpoint(folder, 12))
    assert (folder_of(recipe) / "tensorboard").is_dir()
    # The recipe in the run has the last settings.
    assert read_artifact(folder_of(recipe)).recipe.training.log_every == 3


def test_a_changed_corpus_is_refused(tmp_path):
    recipe = digits.write(tmp_path, training={"steps": 1})
    train(recipe)
    path = tmp_path / "prepared" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | {"weights": {"0": 1.0, "1": 2.0}}))
    with pytest.raises(
        ArtifactError, match=r"the prepared corpus is not the one that .* began with"
    ):
        train(recipe, "training.steps=2")


def change_manifest(folder, **changes):
    """Change fields of the manifest of a prepared folder."""
    path = folder / "prepared" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_corpus_that_is_prepared_again_with_other_training_settings_is_the_same(tmp_path):
    recipe = digits.write(tmp_path, training={"steps": 1})
    train(recipe)
    change_manifest(tmp_path, recipe_sha256="1" * 64, corpora=["renamed", "second"])
    assert last_step(train(recipe, "training.steps=2")) == 2


def test_a_run_of_an_older_version_knows_its_corpus(tmp_path):
    recipe = digits.write(tmp_path, training={"steps": 1})
    train(recipe)
    path = folder_of(recipe) / "run.json"
    older = {"corpus_sha256": sha256(tmp_path / "prepared" / "manifest.json")}
    path.write_text(json.dumps(json.loads(path.read_text()) | older))
    assert last_step(train(recipe, "training.steps=2")) == 2


TOKENIZER = {"kind": "words", "vocabulary_size": 300, "shared": False}


def test_a_corpus_with_other_languages_or_another_tokenizer_is_refused(tmp_path):
    recipe = digits.write(tmp_path)
    change_manifest(tmp_path, tokenizer=TOKENIZER)
    with pytest.raises(RecipeError, match="dragoman prepare") as caught:
        train(recipe, "languages.target=qac", "tokenizer.kind=bytes")
    assert {mistake.path: mistake.what for mistake in caught.value.mistakes} == {
        "languages.target": "found 'qac', but the corpus was prepared with 'qab'",
        "tokenizer.kind": "found 'bytes', but the corpus was prepared with 'words'",
        "tokenizer.vocabulary_size": "found 400, but the corpus was prepared with 300",
        "tokenizer.shared": "found True, but the corpus was prepared with False",
    }
    assert not (folder_of(recipe) / "recipe.yaml").exists()


def test_a_reused_tokenizer_may_have_another_size(tmp_path):
    recipe = digits.write(tmp_path, training={"steps": 1})
    change_manifest(tmp_path, tokenizer=TOKENIZER | {"init_from": "another/run"})
    assert last_step(train(recipe)) == 1


def test_a_missing_corpus_is_reported_with_the_command_to_type(tmp_path):
    recipe = digits.write_recipe(tmp_path)
    with pytest.raises(DataError, match=f"type: dragoman prepare {re.escape(str(recipe))}"):
        train(recipe)


@pytest.mark.parametrize(
    ("tokens", "micro_batch", "setting", "least"),
    [
        # The longest pair: six digits and the end token.
        (6, "auto", "tokens_per_update", 7),
        (20, 5, "micro_batch", 10),  # Two micro-batches of ten; three of six would be too small.
        (512, 6, "micro_batch", 8),  # 73 micro-batches of seven.
    ],
)
def test_a_budget_too_small_for_the_longest_pair_is_reported_before_training(
    write, tokens, micro_batch, setting, least
):
    recipe = write(training={"tokens_per_update": tokens, "micro_batch": micro_batch, "steps": 1})
    with pytest.raises(RecipeError) as caught:
        train(recipe)
    (mistake,) = caught.value.mistakes
    assert mistake.path == f"training.{setting}"
    assert f"expected at least {least}: " in mistake.what
    assert "the longest pair has 7 tokens on a side" in mistake.what
    # The suggested value is enough, and less is not.
    with pytest.raises(RecipeError):
        train(recipe, f"training.{setting}={least - 1}")
    assert last_step(train(recipe, f"training.{setting}={least}")) == 1


def test_training_works_without_a_validation_set(tmp_path):
    recipe = digits.write(tmp_path, training={"steps": 4})
    for side in ("source", "target"):
        (tmp_path / "prepared" / f"validation.{side}").write_text("")
    assert last_step(train(recipe)) == 4


def test_a_carriage_return_does_not_end_a_validation_sentence(tmp_path):
    recipe = digits.write(tmp_path, training={"steps": 1})
    path = tmp_path / "prepared" / "validation.source"
    path.write_bytes(path.read_bytes().replace(b" ", b"\r", 1))
    assert last_step(train(recipe)) == 1


# What a run writes.


def test_facts_that_decide_the_numbers_are_stored(whole):
    folder, _ = whole
    facts = json.loads((folder / "run.json").read_text())
    assert (facts["micro_batches"], facts["precision"], facts["version"]) == (4, "float32", 1)
    assert len(facts["corpus_sha256"]) == 64


def test_micro_batches_are_counted_once(write, monkeypatch):
    recipe = write(training={"micro_batch": "auto"})
    train(recipe, "training.steps=1")
    assert json.loads((folder_of(recipe) / "run.json").read_text())["micro_batches"] == 1

    def refuse(*_):
        raise AssertionError("the number is stored")

    monkeypatch.setattr(builders, "count_micro_batches", refuse)
    assert last_step(train(recipe, "training.steps=2")) == 2


@pytest.mark.parametrize("setting", ["float32", "bfloat16", "auto"])
def test_the_precision_is_stored(write, setting, monkeypatch):
    before = torch.get_float32_matmul_precision()
    recipe = write(training={"precision": setting, "steps": 1})
    train(recipe)
    stored = json.loads((folder_of(recipe) / "run.json").read_text())["precision"]
    assert stored == setting or (setting == "auto" and stored in ("float32", "bfloat16"))
    # Another machine would choose another precision; the run keeps its own.
    monkeypatch.setattr(builders, "choose_precision", lambda *_: "another")
    train(recipe, "training.steps=2")
    assert json.loads((folder_of(recipe) / "run.json").read_text())["precision"] == stored
    assert torch.get_float32_matmul_precision() == before, "restored for the process"


@pytest.mark.parametrize(
    ("width", "has_units", "chosen"),
    [(128, True, "float32"), (256, True, "bfloat16"), (256, False, "float32")],
)
def test_auto_is_bfloat16_for_wide_models_on_a_cpu_with_its_units(
    width, has_units, chosen, monkeypatch
):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: has_units)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    settings, device = TrainingRecipe(), torch.device("cpu")
    assert choose_precision(settings, device, width) == chosen
    named = TrainingRecipe(precision="bfloat16")
    assert choose_precision(named, device, width) == "bfloat16"


def test_a_model_with_few_positions_is_validated_within_them(write):
    learned = {"position": {"name": "learned", "maximum": 70}}
    recipe = write(model=learned, training={"steps": 1, "validate_every": 1})
    assert last_step(train(recipe, "decoding.max_extra_tokens=500")) == 1


def test_the_card_has_the_cost_of_the_run(whole):
    folder, _ = whole
    card = read_card(folder)
    validations = [entry for entry in journal(folder) if entry["kind"] == "validation"]
    assert card.updates == 12
    assert card.world_size == 1
    assert card.device == "cpu"
    assert card.ended_by == "steps"
    assert card.checkpoint_steps == (4, 8, 12)
    assert card.validation.value == max(entry["bleu"] for entry in validations)
    assert card.corpus_sha256 == json.loads((folder / "run.json").read_text())["corpus_sha256"]
    assert card.recipe.model.width == 32
    assert card.cost.startswith("12 updates, ")
    # At most the budget of an update per side, padding included, and more than half of it real.
    assert 0.5 * 12 * 512 < card.source_tokens < 12 * 512
    assert card.source_tokens == card.target_tokens, "reversed text has the same length"
    # One to six digits, uniformly drawn, and the end token: 4.5 tokens on average.
    assert card.source_tokens / card.pairs == pytest.approx(4.5, abs=0.3)


def test_flops_are_those_of_the_trained_model(whole):
    """Six per weight of a matrix and token: two forward, four backward."""
    folder, _ = whole
    card = read_card(folder)
    # Each matrix is used once per token of one side, and both sides have the same length.
    weights = load_file(folder / "model.safetensors").values()
    matrix_weights = sum(weight.numel() for weight in weights if weight.ndim > 1)
    expected = 6 * card.target_tokens * matrix_weights
    # Attention itself costs a little more, and the mean length is rounded, here by a tenth.
    assert card.flops == pytest.approx(expected, rel=0.15)


def test_a_finished_run_is_a_model_with_a_curve_and_an_export(write, monkeypatch):
    monkeypatch.setattr(finish, "draw_curve", curve.draw_curve)
    monkeypatch.setattr(training, "export_to_ctranslate2", finish.export_to_ctranslate2)
    recipe = write(training={"steps": 4})
    result = training.train(recipe)
    folder = folder_of(recipe)
    assert result.folder == folder
    assert result.card == read_card(folder)
    assert not result.was_finished
    export = read_export(folder / "ctranslate2")
    assert export.facts.model == read_artifact(folder).model_hash
    # A run that continues replaces the export of its earlier model.
    train(recipe, "training.steps=5")
    assert read_export(folder / "ctranslate2").facts.model == read_artifact(folder).model_hash
    assert export.facts.model != read_artifact(folder).model_hash
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert (folder / "curve.png").stat().st_size > 10_000
    artifact = read_artifact(folder)
    assert artifact.recipe.training.steps == 5
    assert sorted(artifact.hashes) == [
        *("model.safetensors", "recipe.yaml"),
        *("tokenizer/source/words.json", "tokenizer/target/words.json"),
    ]


# Variants of the same computation.


@pytest.mark.parametrize(
    "setting", [{"activation_checkpointing": True}, {"parallel": "fsdp"}, {"compile": False}]
)
def test_settings_that_save_memory_or_time_give_the_same_run(write, whole, setting):
    """Recomputed dropout has the same mask; a single rank has the only shard."""
    folder, _ = whole
    recipe = write(training={"steps": 4, **setting})
    train(recipe)
    assert journal(folder_of(recipe)) == [entry for entry in journal(folder) if entry["step"] <= 4]
    for name in ("model", "optimizer"):
        ours, theirs = (checkpoint(path, 4, name) for path in (folder_of(recipe), folder))
        assert tensors_are_same(ours, theirs)


def train_in_another_process(recipe, *options):
    code = "import sys; from dragoman.workflow import training; "
    code += "training.export_to_ctranslate2 = lambda run: ''; "
    code += "training.train(sys.argv[1])"
    command = [sys.executable, *options, "-c", code, str(recipe)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
def test_training_works_when_warnings_are_errors(write):
    """SentencePiece, and its cleanup at exit, must not raise a warning."""
    train_in_another_process(write("sentencepiece", training={"steps": 1}), "-W", "error")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_compiled_layers_give_the_same_losses(write):
    """Fused operations round differently: a few float32 units per update."""
    plain, compiled = (
        write(
            model={"dropout": 0.0, "encoder_layers": 1, "decoder_layers": 1},
            training={"compile": setting, "steps": 4},
        )
        for setting in (False, True)
    )
    train(plain)
    # Another process, because the compiler cannot read the shape checks of these tests.
    train_in_another_process(compiled)
    ours, theirs = (
        [entry["loss"] for entry in journal(folder_of(path))] for path in (compiled, plain)
    )
    assert len(ours) == 5
    assert ours == pytest.approx(theirs, rel=1e-4)


# Reports.


def test_every_update_is_reported_with_elapsed_and_remaining_time(write):
    recipe = write(training={"steps": 6, "log_every": 4})
    events = train(recipe, "training.steps=3")
    updates = [event for event in events if isinstance(event, UpdateCompleted)]
    assert [event.step for event in updates] == [1, 2, 3]
    assert updates[-1].seconds_left == 0
    earlier = updates[-1].elapsed_seconds
    resumed = [event for event in train(recipe) if isinstance(event, UpdateCompleted)]
    assert [event.step for event in resumed] == [4, 5, 6]
    # Elapsed time includes earlier sessions; the time left does not.
    assert resumed[0].elapsed_seconds > earlier
    session = resumed[0].elapsed_seconds - earlier
    assert resumed[0].seconds_left == pytest.approx(2 * session, rel=0.5)


def test_training_reports_what_it_trains_and_resumes(write):
    recipe = write(training={"steps": 2})
    (summary,) = [event for event in train(recipe) if isinstance(event, TrainingSummary)]
    assert summary.model == "transformer, 1+1 layers, width 32"
    assert (summary.step, summary.steps, summary.pairs) == (0, 2, 400)
    assert (summary.device, summary.precision, summary.world_size) == ("cpu", "float32", 1)
    resumed = train(recipe, "training.steps=3")
    (summary,) = [event for event in resumed if isinstance(event, TrainingSummary)]
    assert summary.step == 2


def test_a_journal_that_cannot_be_written_is_reported_once(write, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Journal, "write", refuse)
    events = train(write(training={"steps": 3}))
    problems = [event for event in events if isinstance(event, Message) and "journal" in event.text]
    assert [event.step for event in problems] == [1]
    assert "No space left on device" in problems[0].text


def test_training_leaves_no_trace_in_the_process(write):
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
    handlers = [signal.getsignal(number) for number in numbers]
    threads, random_state = torch.get_num_threads(), torch.get_rng_state()
    warning_filters = list(warnings.filters)
    train(write(training={"steps": 1, "threads": threads + 1}))
    assert [signal.getsignal(number) for number in numbers] == handlers
    assert torch.get_num_threads() == threads
    assert torch.get_rng_state().equal(random_state)
    assert warnings.filters == warning_filters


def test_training_works_in_a_thread(write):
    """Signal handlers can be set in the main thread only."""
    recipe = write(training={"steps": 1})
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(training.train, recipe).result().card.updates == 1


@pytest.mark.parametrize("link", ["checkpoints", "checkpoints/step-00000002"])
def test_a_link_out_of_the_run_is_refused_before_checkpoints_are_removed(write, tmp_path, link):
    recipe = write(training={"steps": 8, "keep_checkpoints": 1, "average_checkpoints": 1})
    train(recipe, "training.steps=4")
    outside = tmp_path / "outside"
    (outside / "step-00000001").mkdir(parents=True)
    (outside / "step-00000001" / "precious.txt").write_text("keep me")
    (outside / ".hidden").mkdir()
    path = folder_of(recipe) / link
    if path.exists():
        path.rename(tmp_path / "moved")
    path.symlink_to(outside)
    with pytest.raises(ArtifactError, match="is a symbolic link"):
        train(recipe)
    assert (outside / ".hidden").is_dir()
    assert (outside / "step-00000001" / "precious.txt").read_text() == "keep me"
