"""Does `dragoman show` work as typed: output, errors, exit codes, eighty columns?"""

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


def test_show_prints_a_recipe_that_can_be_used_again(tmp_path):
    shown = dragoman("show", "base", "model.norm=pre", "model.similarity={name: cosine, scale: 9}")
    assert shown.returncode == 0
    assert "  norm: pre " in shown.stdout
    (tmp_path / "recipe.yaml").write_text(shown.stdout, encoding="utf-8")
    again = dragoman("show", "recipe.yaml", cwd=tmp_path)
    assert again.stdout == shown.stdout


def test_show_model_is_a_tree_with_costs_that_fits():
    shown = dragoman("show", "base", "--model")
    assert shown.returncode == 0
    lines = shown.stdout.split("\n")
    assert max(map(len, lines)) <= 80
    model = next(line for line in lines if line.lstrip().startswith("model"))
    assert model.split() == ["model", "63.1", "M", "127.1", "M", "Transformer"]
    assert any(line.split()[-1:] == ["ScaledDot"] for line in lines)
    assert sum("layers 1–6, each" in line for line in lines) == 2


def test_mistakes_are_told_without_a_trace_and_end_with_their_code():
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


def test_parts_that_do_not_fit_are_told_before_a_weight_exists():
    shown = dragoman("show", "base", "model.head_count=7", "model.similarity.loudness=3", "--model")
    assert shown.returncode == 2
    assert "model.similarity.loudness" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_debug_shows_the_trace():
    shown = dragoman("--debug", "show", "bse")
    assert shown.returncode == 1
    assert "Traceback" in shown.stderr
    assert "did you mean 'base'" in shown.stderr


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["show", "--help"]])
def test_it_introduces_itself(arguments):
    shown = dragoman(*arguments)
    assert shown.returncode == 0
    assert "dragoman" in shown.stdout
    assert max(map(len, shown.stdout.split("\n"))) <= 80
