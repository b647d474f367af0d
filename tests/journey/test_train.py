"""One short training from the command line: train, resume, translate. Part of `make check`."""

from __future__ import annotations

import os
import subprocess
import sys

from support import digits


def command(*words, **options):
    ended = subprocess.run(
        [sys.executable, "-m", "dragoman", *map(str, words)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"COLUMNS": "80"},
        **options,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout + ended.stderr


def test_a_short_training_gives_a_model_that_translates(tmp_path):
    recipe = digits.write(tmp_path, training={"average_checkpoints": 1})
    shown = command("train", recipe)
    assert "loss" in shown
    assert (tmp_path / "run" / "model.safetensors").is_file()
    assert "already finished" in command("train", recipe)
    assert command("translate", tmp_path / "run", input="1 2 3\n\n4 5\n").count("\n") >= 3
