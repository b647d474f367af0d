"""Does a run learn, end, go on and come out as its recipe says?"""

import itertools
import json
import os
import signal
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

import digits
from dragoman.artifact import read_artifact
from dragoman.errors import ArtifactError, DataError, RecipeError, Stopped
from dragoman.evaluation.development import Development
from dragoman.training import curve, run
from dragoman.training.journal import read_journal
from dragoman.training.trainer import Learned, Validated
from dragoman.workflow import training

pytestmark = pytest.mark.slow  # Whole runs; `make check` is for the time between two thoughts.

OWN = {"tokens_per_second", "seconds", "unplanned"}
"""What no two runs have in common: their time, and when they were stopped."""


@pytest.fixture(scope="module", autouse=True)
def _no_drawing():
    """The picture takes as long as all the rest; one test draws it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "draw_curve", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """One prepared folder for each kind of tokenizer."""
    folder = tmp_path_factory.mktemp("corpora")
    for kind in ("words", "sentencepiece"):
        (folder / kind).mkdir()
        digits.write(folder / kind, kind=kind)
    return folder


@pytest.fixture
def write(corpora, tmp_path):
    """Writes a recipe into a folder of its own, for a corpus that is shared."""
    numbers = itertools.count()

    def write_recipe(kind="words", **settings):
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        corpus = {"folder": str(corpora / kind / "prepared")}
        return digits.write_recipe(folder, corpus=corpus, tokenizer={"kind": kind}, **settings)

    return write_recipe


@pytest.fixture(scope="module")
def whole(corpora):
    """A run of twelve steps, finished; for looking at only."""
    recipe = digits.write_recipe(corpora / "words")
    return recipe.parent / "run", list(training.train(recipe))


@pytest.fixture
def scores(monkeypatch):
    """Lets validations come out as a test says, one after the other; the last stays."""

    def say(**values):
        for name, listed in values.items():
            coming = itertools.chain(listed, itertools.repeat(listed[-1]))
            monkeypatch.setattr(Development, name, lambda *_, coming=coming: next(coming))

    say(bleu=[0.0], loss=[1.0])
    return say


def train(recipe, *overrides):
    return list(training.train(recipe, overrides))


def stop_after(recipe, step):
    """Ask it to stop once a step has been told."""
    for event in training.train(recipe):
        if event.step == step:
            os.kill(os.getpid(), signal.SIGTERM)


def last_step(events):
    return events[-1].step


def folder_of(recipe, name="run"):
    return recipe.parent / name


def journal(folder):
    return [
        {key: value for key, value in line.items() if key not in OWN}
        for line in read_journal(folder / "journal.jsonl")
    ]


def checkpoint(folder, step, name="model"):
    return load_file(folder / "checkpoints" / f"step-{step:08}" / f"{name}.safetensors")


def saved_steps(folder):
    return sorted(
        int(each.name.removeprefix("step-")) for each in folder.glob("checkpoints/step-*")
    )


def card(folder):
    return json.loads((folder / "card.json").read_text())


def tensors_are_same(found, truth):
    assert found.keys() == truth.keys()
    return all(found[name].equal(each) for name, each in truth.items())


def bytes_of(folder):
    """Everything that a run has computed: weights, moments, averages, and its story."""
    files = [folder / "model.safetensors", *sorted(folder.glob("checkpoints/*/*.safetensors"))]
    found = {str(file.relative_to(folder)): file.read_bytes() for file in files}
    for file in folder.glob("checkpoints/*/state.json"):
        state = json.loads(file.read_text())
        found[str(file.relative_to(folder))] = {
            key: value for key, value in state.items() if key not in OWN
        }
    return found | {"journal": journal(folder)}


# It learns.


def test_losses_fall(whole):
    _, events = whole
    losses = [event.loss for event in events if isinstance(event, Learned)]
    assert len(losses) == 12
    # Even is log 16 ≈ 2.8 for this vocabulary; ends and digits are learned within a few steps.
    assert losses[-1] < 0.8 * losses[0]
    validated = [event.scores.loss for event in events if isinstance(event, Validated)]
    assert len(validated) == 3
    assert validated == sorted(validated, reverse=True)


@pytest.mark.slow
def test_it_learns_to_say_digits_backwards(tmp_path):
    settings = {"steps": 450, "warmup": 100, "micro_batch": "auto", "validation_pairs": 40}
    every = {"validate_every": 450, "save_every": 450, "log_every": 450}
    model = {"norm": "pre", "dropout": 0.0}
    recipe = digits.write(
        tmp_path, pairs=2000, longest=4, model=model, training={**settings, **every}
    )
    (validated,) = [event for event in train(recipe) if isinstance(event, Validated)]
    # Measured: 100 of BLEU, and 0.10 of loss, of which smoothing asks for some. Chance: 0 and 2.4.
    assert validated.scores.bleu > 80
    assert validated.scores.loss < 0.3


def test_another_seed_is_another_run(write, whole):
    """The same seed is the same run: all comparisons below would fail otherwise."""
    folder, _ = whole
    recipe = write(seed=2, training={"steps": 4})
    train(recipe)
    assert not tensors_are_same(checkpoint(folder_of(recipe), 4), checkpoint(folder, 4))
    assert journal(folder_of(recipe))[0]["loss"] != journal(folder)[0]["loss"]


# It goes on.


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"moving_average": 0.9, "weight_decay": 0.1, "clip": 0.0},
        {"moving_average": 0.5, "bpe_dropout": 0.2, "r_drop": 1.0, "temperature": 2.0},
        pytest.param({"r_drop": 1.0}, marks=pytest.mark.slow),
        pytest.param({"bpe_dropout": 0.2}, marks=pytest.mark.slow),
        pytest.param({"recompute": True, "r_drop": 1.0}, marks=pytest.mark.slow),
    ],
    ids=lambda settings: ", ".join(settings) or "plain",
)
def test_twelve_steps_are_seven_and_five_more_bit_for_bit(write, settings):
    kind = "sentencepiece" if "bpe_dropout" in settings else "words"
    # Lines of the journal at 5 and 10: a half-told one must survive the stop at 7.
    training = {"validate_every": 7, "save_every": 7, "log_every": 5, **settings}
    once, twice = (write(kind, training=training) for _ in range(2))
    train(once)
    assert last_step(train(twice, "training.steps=7")) == 7
    events = train(twice)
    assert [event.step for event in events if isinstance(event, Learned)] == [10]
    assert bytes_of(folder_of(twice)) == bytes_of(folder_of(once))


def test_a_run_that_was_cut_off_again_and_again_comes_out_the_same(write, whole):
    folder, _ = whole
    recipe = write()
    for step in (3, 7, 10):
        going = training.train(recipe)
        while next(going).step < step:
            pass
        going.close()
    train(recipe)
    assert bytes_of(folder_of(recipe)) == bytes_of(folder)


def test_running_a_finished_run_again_changes_nothing_that_was_learned(write):
    recipe = write(training={"steps": 4})
    train(recipe)
    before = bytes_of(folder_of(recipe))
    assert {event.step for event in train(recipe)} == {4}
    assert bytes_of(folder_of(recipe)) == before


def test_a_signal_stops_it_at_the_end_of_a_step_and_the_same_command_goes_on(write, whole):
    folder, _ = whole
    recipe = write()
    with pytest.raises(Stopped, match="at step 6; run it again to go on"):
        stop_after(recipe, 5)
    assert saved_steps(folder_of(recipe)) == [4, 6]
    train(recipe)
    assert bytes_of(folder_of(recipe)) == bytes_of(folder)


def test_a_run_that_was_moved_goes_on(write, whole):
    folder, _ = whole
    recipe = write()
    train(recipe, "training.steps=4")
    folder_of(recipe).rename(folder_of(recipe, "moved"))
    train(recipe, "training.folder=moved")
    assert bytes_of(folder_of(recipe, "moved")) == bytes_of(folder)


def test_two_cannot_train_one_run(write):
    recipe = write()
    first = training.train(recipe)
    next(first)
    with pytest.raises(ArtifactError, match=f"is being trained by process {os.getpid()}"):
        train(recipe)
    first.close()
    assert last_step(train(recipe, "training.steps=1")) == 1


# It ends.


@pytest.mark.parametrize(
    ("watch", "values", "threshold", "end"),
    [
        ("bleu", {"bleu": [5, 6, 6, 5]}, 0.0, 4),  # The second is best; two more without gain.
        ("bleu", {"bleu": [5, 6, 7, 8]}, 0.0, 6),  # Always better, until it stays.
        ("bleu", {"bleu": [5, 5.6, 6.2]}, 1.0, 5),  # Two small gains are one, at the third.
        ("bleu", {"bleu": [5, 5.4, 5.8, 5.9]}, 1.0, 3),
        ("loss", {"loss": [3, 2, 2.1, 2.2], "bleu": [1, 2, 3, 4]}, 0.0, 4),
        ("loss", {"loss": [3, 2.9, 2.85, 2.7], "bleu": [1, 2, 3, 4]}, 0.5, 3),
    ],
)
def test_it_ends_when_patience_does(write, scores, watch, values, threshold, end):
    scores(**values)
    settings = {"watch": watch, "patience": 2, "threshold": threshold, "validate_every": 1}
    recipe = write(training={"steps": 9, "micro_batch": 512, "save_every": 9, **settings})
    assert last_step(train(recipe)) == end


def test_what_was_ended_by_patience_stays_so_until_it_has_more(write, scores):
    scores(bleu=[5.0])
    recipe = write(training={"steps": 9, "patience": 1, "validate_every": 1, "micro_batch": 512})
    assert last_step(train(recipe)) == 2
    (told,) = train(recipe)
    assert told.step == 2
    assert last_step(train(recipe, "training.patience=3")) == 4


def test_it_ends_when_its_minutes_are_over(write):
    recipe = write(training={"minutes": 1e-6})
    events = train(recipe)
    assert last_step(events) == 1
    assert [event.step for event in events if isinstance(event, Validated)] == [1]
    assert saved_steps(folder_of(recipe)) == [1]
    (told,) = train(recipe)
    assert told.step == 1
    assert last_step(train(recipe, "training.minutes=0", "training.steps=2")) == 2


# It chooses.


@pytest.mark.parametrize(
    ("watch", "best"), [("bleu", {"bleu": 9.0, "step": 8}), ("loss", {"loss": 1.5, "step": 4})]
)
def test_the_best_checkpoint_becomes_the_model(write, scores, watch, best):
    scores(bleu=[5.0, 9.0, 7.0], loss=[1.5, 3.0, 2.0])
    recipe = write(training={"watch": watch, "average": 1, "keep": 1})
    train(recipe)
    folder, step = folder_of(recipe), best["step"]
    assert tensors_are_same(load_file(folder / "model.safetensors"), checkpoint(folder, step))
    assert card(folder)["weights_of_steps"] == [step]
    assert card(folder)["development"] == best
    assert saved_steps(folder) == [step, 12]


def test_another_watch_begins_to_compare_anew(write, scores):
    """Points of BLEU and nats cannot be compared; the best by one is not the best by the other."""
    scores(bleu=[30.0], loss=[2.0, 2.5, 1.9])
    recipe = write(training={"validate_every": 1, "average": 1, "steps": 1})
    train(recipe)
    events = train(recipe, "training.watch=loss", "training.steps=3")
    is_best = [event.is_best for event in events if isinstance(event, Validated)]
    assert is_best == [True, True]
    assert card(folder_of(recipe))["development"] == {"loss": 1.9, "step": 3}


def test_a_run_that_was_never_validated_has_its_last_weights(write):
    recipe = write(training={"average": 1})
    with pytest.raises(Stopped):
        stop_after(recipe, 1)
    train(recipe, "training.steps=2")
    folder = folder_of(recipe)
    assert card(folder)["weights_of_steps"] == [2]
    assert tensors_are_same(load_file(folder / "model.safetensors"), checkpoint(folder, 2))


@pytest.mark.parametrize(("average", "moving_average"), [(2, 0.9), (3, 0.0), (7, 0.0)])
def test_the_last_checkpoints_are_averaged(write, scores, average, moving_average):
    scores(bleu=[9.0, 1.0])
    settings = {"save_every": 1, "validate_every": 1, "steps": 5, "keep": 1}
    recipe = write(training={**settings, "average": average, "moving_average": moving_average})
    train(recipe)
    folder = folder_of(recipe)
    steps = [1, 2, 3, 4, 5][-average:]
    assert saved_steps(folder) == sorted({1, *steps})  # The best is kept besides.
    assert card(folder)["weights_of_steps"] == steps
    found = load_file(folder / "model.safetensors")
    for name, each in found.items():
        read = (
            [checkpoint(folder, step, "optimizer")[f"average.{name}"] for step in steps]
            if moving_average
            else [checkpoint(folder, step)[name] for step in steps]
        )
        exact = torch.stack([weight.double() for weight in read]).mean(dim=0)
        # Added up in float64 and rounded once.
        torch.testing.assert_close(each.double(), exact, rtol=2**-23, atol=1e-12)


def test_the_newest_checkpoints_and_the_best_are_kept(write, scores):
    scores(bleu=[1.0, 9.0, 1.0])
    recipe = write(
        training={"steps": 6, "validate_every": 1, "save_every": 1, "keep": 2, "average": 1}
    )
    train(recipe)
    assert saved_steps(folder_of(recipe)) == [2, 5, 6]
    left = [each.name for each in folder_of(recipe).glob("checkpoints/.*")]
    assert left == [], "nothing half removed stays"


def test_validation_looks_at_the_averaged_weights_and_gives_the_own_back(write, whole):
    """With averaging the losses of learning are the same; those of development are not."""
    folder, _ = whole
    recipe = write(training={"moving_average": 0.99, "steps": 8})
    train(recipe)

    def of(folder, kind):
        return [line["loss"] for line in journal(folder) if line["kind"] == kind]

    assert of(folder_of(recipe), "learned") == of(folder, "learned")[:8]
    assert of(folder_of(recipe), "validated")[0] != of(folder, "validated")[0]
    for step in (4, 8):
        assert tensors_are_same(checkpoint(folder_of(recipe), step), checkpoint(folder, step))


def test_the_average_follows_each_update(write):
    """a ← d · a + (1 − d) · w,  d = t / (t + 50) while the run is young."""
    recipe = write(training={"moving_average": 0.9, "steps": 3, "save_every": 1})
    train(recipe)
    folder = folder_of(recipe)
    before, after = (checkpoint(folder, step, "optimizer") for step in (2, 3))
    for name, weight in checkpoint(folder, 3).items():
        exact = 3 / 53 * before[f"average.{name}"].double() + 50 / 53 * weight.double()
        # One update in float32.
        torch.testing.assert_close(after[f"average.{name}"].double(), exact, rtol=1e-6, atol=1e-7)


# It begins.


def test_fine_tuning_begins_with_the_weights_of_another_run(write, whole):
    folder, _ = whole
    first = load_file(folder / "model.safetensors")
    # A rate of nothing: what comes out is what went in.
    settings = {"start_from": str(folder), "learning_rate": 0, "steps": 1}
    recipe = write(training=settings, model={"dropout": 0.3})
    train(recipe)
    assert tensors_are_same(load_file(folder_of(recipe) / "model.safetensors"), first)
    fresh = write(training={"learning_rate": 0, "steps": 1})
    train(fresh)
    assert not tensors_are_same(load_file(folder_of(fresh) / "model.safetensors"), first)


def test_another_model_or_tokenizer_is_refused_with_all_mistakes_at_once(write, whole):
    folder, _ = whole
    model = {"width": 16, "norm": "pre", "dropout": 0.3}
    recipe = write("sentencepiece", training={"start_from": str(folder)}, model=model)
    with pytest.raises(RecipeError) as caught:
        train(recipe)
    mistakes = {each.path: each.what for each in caught.value.mistakes}
    assert list(mistakes) == ["model.width", "model.norm", "training.start_from"]
    assert "found 16, but the run that training.start_from names has 32" in mistakes["model.width"]
    assert "its words are not this corpus's" in mistakes["training.start_from"]


def test_what_never_began_can_be_corrected_in_its_folder(write, whole):
    """A mistake found while beginning is mended in the recipe; no step was made with it."""
    folder, _ = whole
    recipe = write(training={"start_from": str(folder)}, model={"width": 16})
    with pytest.raises(RecipeError, match=r"model\.width"):
        train(recipe)
    assert last_step(train(recipe, "model.width=32", "training.steps=1")) == 1


def test_a_fine_tuned_run_goes_on_without_its_origin(write):
    origin = write(training={"steps": 1})
    train(origin)
    recipe = write(training={"start_from": str(folder_of(origin)), "steps": 2})
    train(recipe, "training.steps=1")
    folder_of(origin).rename(folder_of(origin, "moved"))
    assert last_step(train(recipe)) == 2


def test_an_origin_that_is_not_finished_is_told(write, tmp_path):
    with pytest.raises(ArtifactError, match="there is no folder"):
        train(write(training={"start_from": "nowhere"}))
    with pytest.raises(ArtifactError, match="is not a model, or its training was not finished"):
        train(write(training={"start_from": str(tmp_path)}))


def test_a_changed_setting_is_refused_by_name_and_all_at_once(write):
    recipe = write(training={"steps": 1})
    train(recipe)
    before = bytes_of(folder_of(recipe))
    changes = ["training.clip=2", "training.warmup=7", "model.dropout=0.2", "model.norm=pre"]
    with pytest.raises(RecipeError) as caught:
        train(recipe, *changes, "seed=3", "training.steps=2")
    mistakes = {each.path: each.what for each in caught.value.mistakes}
    assert set(mistakes) == {
        *(change.partition("=")[0] for change in changes),
        *("seed", "training.folder"),
    }
    assert mistakes["model.dropout"] == "the run began with 0.1"
    assert "choose another to begin a new run" in mistakes["training.folder"]
    assert bytes_of(folder_of(recipe)) == before
    # Refused, it has not written itself into the run.
    assert read_artifact(folder_of(recipe)).recipe.model.dropout == 0.1


def test_what_does_not_touch_a_step_may_change(write, whole):
    folder, _ = whole
    changes = {
        "minutes": 60,
        "patience": 50,
        "threshold": 0.5,
        "watch": "loss",
        "validate_every": 3,
        "validation_pairs": 5,
        "save_every": 2,
        "keep": 2,
        "average": 1,
        "log_every": 3,
        "tensorboard": True,
        "compile": "no",
        "parallel": "fsdp",
        "recompute": True,
        "steps": 12,
    }
    assert {*changes, "folder"} == run._FREE
    recipe = write(training={"steps": 4})
    train(recipe)
    train(recipe, *(f"training.{name}={value}" for name, value in changes.items()))
    assert tensors_are_same(checkpoint(folder_of(recipe), 12), checkpoint(folder, 12))
    assert (folder_of(recipe) / "tensorboard").is_dir()
    # The model's own recipe tells the end of the story.
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


def test_without_a_prepared_corpus_it_says_what_to_type(tmp_path):
    with pytest.raises(DataError, match="type: dragoman prepare RECIPE"):
        train(digits.write_recipe(tmp_path))


@pytest.mark.parametrize(
    ("tokens", "micro_batch", "setting", "least"),
    [
        # The longest pair: six digits and the end.
        (6, "auto", "tokens_per_update", 7),
        (20, 5, "micro_batch", 10),  # Two pieces of ten; three of six would be too small.
        (512, 6, "micro_batch", 8),  # 73 pieces of seven.
    ],
)
def test_what_is_too_small_for_the_longest_pair_is_told_before_a_step(
    write, tokens, micro_batch, setting, least
):
    recipe = write(training={"tokens_per_update": tokens, "micro_batch": micro_batch, "steps": 1})
    with pytest.raises(RecipeError) as caught:
        train(recipe)
    (mistake,) = caught.value.mistakes
    assert mistake.path == f"training.{setting}"
    assert f"expected at least {least}: " in mistake.what
    assert "the longest pair has 7 on a side" in mistake.what
    # What it advises is enough, and less is not.
    with pytest.raises(RecipeError):
        train(recipe, f"training.{setting}={least - 1}")
    assert last_step(train(recipe, f"training.{setting}={least}")) == 1


def test_without_a_development_text_it_still_learns(tmp_path):
    recipe = digits.write(tmp_path, training={"steps": 4})
    for side in ("source", "target"):
        (tmp_path / "prepared" / f"development.{side}").write_text("")
    assert last_step(train(recipe)) == 4


# What it leaves.


def test_what_decides_the_numbers_is_written_down(whole):
    folder, _ = whole
    facts = json.loads((folder / "run.json").read_text())
    assert (facts["micro_batches"], facts["precision"], facts["format"]) == (4, "float32", 1)
    assert len(facts["corpus_sha256"]) == 64


def test_how_an_update_is_cut_is_asked_once(write, monkeypatch):
    recipe = write(training={"micro_batch": "auto"})
    train(recipe, "training.steps=1")
    assert json.loads((folder_of(recipe) / "run.json").read_text())["micro_batches"] == 1

    def no_one_asks(*_):
        raise AssertionError("it is written down")

    monkeypatch.setattr(run, "count_micro_batches", no_one_asks)
    assert last_step(train(recipe, "training.steps=2")) == 2


@pytest.mark.parametrize("asked", ["float32", "bfloat16", "auto"])
def test_the_precision_is_written_down(write, asked, monkeypatch):
    before = torch.get_float32_matmul_precision()
    recipe = write(training={"precision": asked, "steps": 1})
    train(recipe)
    found = json.loads((folder_of(recipe) / "run.json").read_text())["precision"]
    assert found == asked or (asked == "auto" and found in ("float32", "bfloat16"))
    # Another machine would choose otherwise; the run keeps to its own.
    monkeypatch.setattr(run, "choose_precision", lambda *_: "another")
    train(recipe, "training.steps=2")
    assert json.loads((folder_of(recipe) / "run.json").read_text())["precision"] == found
    assert torch.get_float32_matmul_precision() == before, "given back to the process"


def test_a_model_with_few_places_is_validated_within_them(write):
    learned = {"position": {"name": "learned", "maximum": 70}}
    recipe = write(model=learned, training={"steps": 1, "validate_every": 1})
    assert last_step(train(recipe, "decoding.extra_length=500")) == 1


def test_the_card_says_what_it_cost(whole):
    folder, events = whole
    found = card(folder)
    lines = [line for line in journal(folder) if line["kind"] == "validated"]
    assert found["updates"] == 12
    assert found["ranks"] == 1
    assert found["device"] == "cpu"
    assert found["weights_of_steps"] == [4, 8, 12]
    assert found["development"]["bleu"] == max(line["bleu"] for line in lines)
    assert found["corpus_sha256"] == json.loads((folder / "run.json").read_text())["corpus_sha256"]
    assert found["recipe"]["model"]["width"] == 32
    assert found["cost"].startswith("12 updates, ")
    assert found["cost"] in events[-1].words
    # At most the budget of a step on each side, padding included, and more than half of it real.
    assert 0.5 * 12 * 512 < found["source_tokens"] < 12 * 512
    assert found["source_tokens"] == found["target_tokens"], "backwards is as long"
    # Of one to six digits and the end, evenly drawn, a side has 4.5 tokens.
    assert found["source_tokens"] / found["pairs"] == pytest.approx(4.5, abs=0.3)


def test_flops_are_those_of_the_model_that_was_trained(whole):
    """Six for each weight of a matrix and token: two forward, four backward."""
    folder, _ = whole
    found = card(folder)
    # Each matrix works once for each token of one side, and both sides have as many.
    matrices = [each for each in load_file(folder / "model.safetensors").values() if each.ndim > 1]
    expected = 6 * found["target_tokens"] * sum(each.numel() for each in matrices)
    # Attention itself is a little more, and the mean length is rounded, here by a tenth.
    assert found["flops"] == pytest.approx(expected, rel=0.15)


def test_a_finished_run_is_a_model_with_its_curve(write, monkeypatch):
    monkeypatch.setattr(training, "draw_curve", curve.draw_curve)
    recipe = write(training={"steps": 4})
    train(recipe)
    folder = folder_of(recipe)
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert (folder / "curve.png").stat().st_size > 10_000
    artifact = read_artifact(folder)
    assert artifact.recipe.training.steps == 4
    assert sorted(artifact.hashes) == [
        *("model.safetensors", "recipe.yaml"),
        *("tokenizer/source/words.json", "tokenizer/target/words.json"),
    ]


# Other ways.


@pytest.mark.parametrize("setting", [{"recompute": True}, {"parallel": "fsdp"}, {"compile": "no"}])
def test_what_only_saves_memory_or_time_gives_the_same_run(write, whole, setting):
    """Recomputed dropout draws what it drew before; and alone, shards are the whole."""
    folder, _ = whole
    recipe = write(training={"steps": 4, **setting})
    train(recipe)
    assert journal(folder_of(recipe)) == [line for line in journal(folder) if line["step"] <= 4]
    for name in ("model", "optimizer"):
        ours, theirs = (checkpoint(each, 4, name) for each in (folder_of(recipe), folder))
        assert tensors_are_same(ours, theirs)


def train_in_another_process(recipe, *options):
    words = "import sys, pathlib; from dragoman.workflow import training; "
    words += "print(*training.train(pathlib.Path(sys.argv[1])))"
    command = [sys.executable, *options, "-c", words, str(recipe)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_process_where_warnings_are_errors_ends_well(write):
    """SentencePiece, and what Python does with it at its end, must not take the process down."""
    train_in_another_process(write("sentencepiece", training={"steps": 1}), "-W", "error")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_compiled_layers_learn_the_same(write):
    """Fused operations round differently: some units of float32 a step, over a few steps."""
    plain, compiled = (
        write(model={"dropout": 0.0}, training={"compile": each, "steps": 4})
        for each in ("no", "yes")
    )
    train(plain)
    # A compiler cannot read what checks the shapes in these tests.
    train_in_another_process(compiled)
    ours, theirs = (
        [line["loss"] for line in journal(folder_of(each))] for each in (compiled, plain)
    )
    assert len(ours) == 5
    assert ours == pytest.approx(theirs, rel=1e-4)
