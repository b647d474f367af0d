"""Commands that an error suggests are quoted for the shell."""

import os
import re
import subprocess
import sys

import pytest

HOSTILE = "x$(touch y)"
"""A folder name that runs a command if it is pasted into a shell without quotation marks."""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / HOSTILE).mkdir()
    (tmp_path / HOSTILE / "recipe.yaml").write_text("preset: tiny\n", encoding="utf-8")
    (tmp_path / HOSTILE / "pytorch_model.bin").touch()
    (tmp_path / HOSTILE / "text.en").write_text("one\n", encoding="utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("show", HOSTILE),
        ("prepare", HOSTILE),
        ("prepare", f"{HOSTILE}/recipe.yaml"),
        ("train", f"{HOSTILE}/recipe.yaml"),
        ("translate", HOSTILE),
        ("translate", HOSTILE, "a sentence"),
        ("translate", "missing", HOSTILE),
        ("evaluate", HOSTILE),
        ("explain", HOSTILE, "a", "sentence"),
        ("export", HOSTILE),
        ("import", HOSTILE, "run"),
        ("init", "new", "--source", f"{HOSTILE}/text.en"),
        ("corpus", "show", f"{HOSTILE}/missing.en"),
    ],
)
def test_a_suggested_command_is_quoted(folder, arguments):
    shown = subprocess.run(
        [sys.executable, "-m", "dragoman", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert shown.returncode not in (0, 1), shown.stderr
    assert "Traceback" not in shown.stderr
    commands = re.findall(r"(?:[Tt]ype|mean):? (.*)", shown.stderr)
    for command in commands:
        unquoted = re.sub(r"""'[^']*'|"[^"$`]*\"""", "", command)
        assert "$(" not in unquoted, command
