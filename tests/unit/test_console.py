"""The helpers of the command line."""

import tomllib
from pathlib import Path

import pytest

from dragoman.cli.console import (
    EXTRA_PACKAGES,
    complete_recipe,
    needs,
    printable,
    split_settings,
)
from dragoman.cli.demo import demo
from dragoman.cli.prepare import prepare
from dragoman.errors import MissingExtraError

ROOT = Path(__file__).parents[2]


def test_a_missing_package_of_an_extra_names_the_extra():
    message = r"needs the package daft.*\n.*dragoman\[prepare\]"
    with pytest.raises(MissingExtraError, match=message), needs("preparing a corpus", "prepare"):
        raise ModuleNotFoundError(name="daft.io")


def test_a_package_that_is_missing_when_prepare_runs_names_the_extra(monkeypatch, tmp_path):
    """Daft is imported when the first task runs, not when the command starts."""

    def fail(*_arguments, **_options):
        raise ModuleNotFoundError(name="daft")

    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("preset: demo\n", encoding="utf-8")
    monkeypatch.setattr("dragoman.workflow.preparation.prepare", fail)
    with pytest.raises(MissingExtraError, match=r"dragoman\[prepare\]"):
        prepare(recipe)


def test_a_package_that_is_missing_when_the_demo_prepares_names_the_extra(monkeypatch, tmp_path):
    def fail(*_arguments, **_options):
        raise ModuleNotFoundError(name="daft")

    monkeypatch.setattr("dragoman.workflow.preparation.prepare", fail)
    with pytest.raises(MissingExtraError, match=r"dragoman\[all\]"):
        demo(tmp_path / "demo", no_input=True)


def test_a_missing_package_of_another_extra_names_that_extra():
    with pytest.raises(MissingExtraError, match=r"dragoman\[track\]"), needs("training", "train"):
        raise ModuleNotFoundError(name="tensorboard")


@pytest.mark.parametrize("name", ["scipy", "my_parts", "dragoman.modle", None])
def test_another_missing_package_stays_a_module_error(name):
    """A part of the user may need a package that no extra of ours contains."""
    with pytest.raises(ModuleNotFoundError), needs("explaining", "explain"):
        raise ModuleNotFoundError(name=name)


def test_the_packages_are_those_of_the_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def packages(extra):
        for requirement in extras[extra]:
            name = requirement.split(">=")[0]
            if name.startswith("dragoman["):
                for inner in name[len("dragoman[") : -1].split(","):
                    yield from packages(inner)
            elif name == "daft[ray]":
                yield from ("daft", "ray")
            elif name == "google-re2":
                yield "re2"
            else:
                yield name.replace("-", "_")

    assert {extra: set(packages(extra)) for extra in extras} == EXTRA_PACKAGES


def test_settings_are_separated_from_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run=1").mkdir()
    long = f"corpus.filters=[{', '.join(['length'] * 50)}]"  # Too long for the name of a file.
    arguments = ["run=1", "other", "decoding.beam_size=2", long]
    assert split_settings(arguments) == (["run=1", "other"], ["decoding.beam_size=2", long])


def test_control_characters_are_not_printed():
    assert printable("a\x1b[2Jb") == "a\ufffd[2Jb"


def test_recipes_are_completed_as_they_are_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my [1]").mkdir()
    for name in ("my.yaml", "my.txt", "my [1]/recipe.yaml"):
        (tmp_path / name).touch()
    assert complete_recipe("my") == ["my [1]/", "my.yaml"]
    assert complete_recipe("./my.") == ["./my.yaml"]
    assert complete_recipe("my [1]/") == ["my [1]/recipe.yaml"]
    assert complete_recipe(f"{tmp_path}/my.") == [f"{tmp_path}/my.yaml"]
    assert complete_recipe("bas") == ["base"]
