"""The recipe of an adaptation fits the size of the data and what the user chose."""

from pathlib import Path

import pytest

from dragoman.adaptation.data import CorpusGroup, DataFile, TestSets
from dragoman.adaptation.settings import AdaptationText, adaptation_recipe
from dragoman.recipe.files import load_recipe


def recipe(*settings, pairs=5000, preset="tiny"):
    data = CorpusGroup((), (DataFile(name="data.tsv", sha256="", pairs=pairs),))
    text = AdaptationText(data, TestSets(Path("tests"), has_general=True), (), 0)
    return adaptation_recipe(load_recipe(preset), Path("parent"), Path("work"), text, 30, settings)


def test_adapters_are_the_default_and_the_learning_rate_falls_to_zero():
    adapted = recipe()
    assert adapted.adaptation.method == "adapters"
    assert (adapted.training.learning_rate, adapted.training.schedule) == (1e-3, "linear")
    assert adapted.training.minutes == 30


@pytest.mark.parametrize("method", ["full", "adapters"])
def test_the_method_decides_the_learning_rate(method):
    rates = {"full": 1e-4, "adapters": 1e-3}
    assert recipe(f"adaptation.method={method}").training.learning_rate == rates[method]


@pytest.mark.parametrize("architecture", ["recurrent", "convolutional"])
def test_a_baseline_is_trained_in_full(architecture):
    settings = [f"model.architecture={architecture}", "model.position=sinusoidal"]
    parent = load_recipe("tiny", settings)
    assert recipe(preset=parent).adaptation.method == "full"


def test_small_sets_are_seen_more_often():
    updates = [recipe(pairs=pairs).training.steps for pairs in (100, 1000, 10_000)]
    assert updates == sorted(updates)
    passes = [steps / pairs for steps, pairs in zip(updates, (100, 1000, 10_000), strict=True)]
    assert passes == sorted(passes, reverse=True)


@pytest.mark.parametrize("steps", [2, 10, 100, 4000])
def test_warm_up_and_validations_follow_the_updates_that_the_user_chose(steps):
    training = recipe(f"training.steps={steps}").training
    assert training.steps == steps
    assert training.warmup_steps < steps
    assert training.validate_every == training.save_every


def test_a_setting_of_the_user_replaces_the_default():
    training = recipe("training.steps=100", "training.warmup_steps=3").training
    assert (training.steps, training.warmup_steps) == (100, 3)
