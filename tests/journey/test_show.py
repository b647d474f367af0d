"""`dragoman show`: output, errors, exit codes, 80 columns."""

import json
import os
import subprocess
import sys

import pytest


def dragoman(*arguments, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env=os.environ | {"COLUMNS": "80"} | environment,
    )


def test_show_prints_a_recipe_that_can_be_read_back(tmp_path):
    shown = dragoman("show", "base", "model.norm=pre", "model.similarity={name: cosine, scale: 9}")
    assert shown.returncode == 0
    assert "  norm: pre " in shown.stdout
    (tmp_path / "recipe.yaml").write_text(shown.stdout, encoding="utf-8")
    again = dragoman("show", "recipe.yaml", cwd=tmp_path)
    assert again.stdout == shown.stdout


@pytest.mark.slow
def test_show_model_prints_a_tree_of_costs_in_80_columns():
    shown = dragoman("show", "base", "--model")
    assert shown.returncode == 0
    lines = shown.stdout.split("\n")
    assert max(map(len, lines)) <= 80
    model = next(line for line in lines if line.lstrip().startswith("model"))
    assert model.split() == ["model", "63.1", "M", "127.1", "M", "Transformer"]
    assert any(line.split()[-1:] == ["ScaledDot"] for line in lines)
    layers = [line.split() for line in lines if "layers 1–6" in line]
    assert [row[-3:] for row in layers] == [
        ["6", "×", f"{kind}Layer"] for kind in ("Encoder", "Decoder")
    ]
    assert [row[4:6] for row in layers] == [["18.9", "M"], ["25.2", "M"]], "all six together"


def test_a_setting_that_learns_badly_is_warned_of_on_stderr(tmp_path):
    """The recipe on stdout stays a recipe, and the exit code stays 0."""
    shown = dragoman("show", "tiny", "model.similarity=cosine")
    assert shown.returncode == 0
    assert shown.stderr.startswith("dragoman: warning: model.similarity: cosine")
    assert shown.stderr.count("\n") == 1
    assert "warning" not in shown.stdout
    (tmp_path / "recipe.yaml").write_text(shown.stdout, encoding="utf-8")
    prepared = dragoman("prepare", "recipe.yaml", cwd=tmp_path)
    assert prepared.stderr.count("warning: model.similarity: cosine") == 1
    assert dragoman("show", "tiny").stderr == ""


def test_mistakes_are_printed_without_a_traceback_and_set_the_exit_code():
    shown = dragoman("show", "base", "model.widht=4", "seed=x")
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert shown.stderr == (
        "dragoman: the recipe has 2 mistakes:\n"
        "  model.widht  (command line)\n"
        "      unknown setting; did you mean 'width'?\n"
        "  seed  (command line)\n"
        "      found 'x', expected a whole number\n"
    )


@pytest.mark.slow
def test_parts_with_unknown_options_are_reported_before_the_model_is_built():
    shown = dragoman("show", "base", "model.similarity.loudness=3", "--model")
    assert shown.returncode == 2
    assert "model.similarity.loudness" in shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.mark.slow
def test_sizes_that_do_not_fit_are_reported_without_building_the_model():
    shown = dragoman("show", "base", "model.heads=7")
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert shown.stderr == (
        "dragoman: the recipe has 1 mistake:\n"
        "  model.heads  (command line)\n"
        "      found 7, expected a divisor of model.width (512)\n"
    )


@pytest.mark.slow
def test_debug_shows_the_traceback():
    shown = dragoman("--debug", "show", "bse")
    assert shown.returncode == 1
    assert "Traceback" in shown.stderr
    assert "did you mean 'base'" in shown.stderr


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["show", "--help"]])
def test_version_and_help_fit_in_80_columns(arguments):
    shown = dragoman(*arguments)
    assert shown.returncode == 0
    assert "dragoman" in shown.stdout
    assert max(map(len, shown.stdout.split("\n"))) <= 80


@pytest.mark.slow
def test_a_misspelled_dotted_part_is_reported(tmp_path):
    (tmp_path / "my_parts").mkdir()
    for name in ("my_parts.gausian", "nowhere.gaussian"):
        shown = dragoman("show", "base", f"model.similarity={name}", cwd=tmp_path)
        assert shown.returncode == 2
        assert shown.stdout == ""
        assert f"model.similarity\n      there is no module '{name}'" in shown.stderr


@pytest.mark.slow
def test_a_missing_recipe_file_is_reported_with_the_next_command(tmp_path):
    shown = dragoman("train", "recipe.yaml", cwd=tmp_path)
    assert shown.returncode == 2
    assert shown.stderr.startswith("dragoman: there is no recipe file 'recipe.yaml'\n")
    assert "dragoman init" in shown.stderr


@pytest.mark.slow
def test_the_schema_describes_every_setting():
    shown = dragoman("show", "--schema")
    schema = json.loads(shown.stdout)
    assert schema["properties"]["preset"]["enum"] == ["base", "big", "demo", "small", "tiny"]
    model = schema["$defs"]["ModelRecipe"]["properties"]
    assert all("description" in setting for setting in model.values())
    assert model["position"]["default"] == "sinusoidal"
    assert "rotary" in json.dumps(model["position"])


def test_a_mistyped_command_is_suggested():
    shown = dragoman("trian")
    assert shown.returncode == 2
    assert "Did you mean 'train'?" in shown.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("dragoman show sm", ["small"]),
        ("dragoman show my", ["my.yaml"]),
        ("dragoman lab run C2", ["C2", *(f"C{number}" for number in range(20, 30))]),
    ],
)
def test_the_shell_completes_presets_files_and_claims(tmp_path, line, completed):
    (tmp_path / "my.yaml").touch()
    (tmp_path / "my.txt").touch()
    shown = dragoman(
        cwd=tmp_path,
        _DRAGOMAN_COMPLETE="complete_bash",
        COMP_WORDS=line,
        COMP_CWORD=str(len(line.split()) - 1),
    )
    assert shown.stdout.split() == completed
