"""`dragoman explain` writes the page and the figures, and explains its errors."""

import os
import subprocess
import sys

import pytest

from dragoman import Translator, explain
from dragoman.cli.console import printable
from dragoman.interop.ctranslate2 import export
from support.explained import SENTENCE
from support.translator_models import write_run


def dragoman(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env=os.environ | {"COLUMNS": "80"},
    )


@pytest.mark.slow
def test_the_command_writes_a_page_and_figures(tmp_path):
    write_run(tmp_path / "run")
    arguments = ("explain", "run", SENTENCE, "decoding.beam_size=2")
    result = dragoman(*arguments, "-o", "new/page.html", "--figures", "figures", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    explanation = explain(tmp_path / "run", SENTENCE, ["decoding.beam_size=2"])
    assert (tmp_path / "new" / "page.html").read_text(encoding="utf-8") == explanation.to_html()
    assert len(list((tmp_path / "figures").iterdir())) == 8
    assert result.stdout.startswith(f"{SENTENCE}\n→ {printable(explanation.translation)}")
    assert result.stdout.endswith("Wrote new/page.html\nWrote 8 figures to figures\n")
    assert max(map(len, result.stdout.split("\n"))) <= 80


@pytest.mark.slow
def test_errors_say_what_to_do(tmp_path):
    run = write_run(tmp_path / "run")
    export(run, tmp_path / "exported")
    for arguments, code, message in (
        (("run", "One", "two."), 3, "dragoman explain run 'One two.'"),
        (("exported", "One."), 4, "give the run"),
        (("run", "One.", "model.width=2"), 2, "only settings of decoding"),
    ):
        result = dragoman("explain", *arguments, cwd=tmp_path)
        assert result.returncode == code, result.stderr
        assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "explanation.html").exists()


def test_the_alignment_is_that_of_translate(tmp_path):
    run = write_run(tmp_path / "run", seed=2)
    translator = Translator.load(run, engine="pytorch")
    (usual,) = translator.translate([SENTENCE], with_alignment=True)
    explanation = explain(translator, SENTENCE)
    # The end token of the source is not aligned.
    positions = explanation.alignment[: len(usual.tokens), :-1].argmax(axis=1).tolist()
    assert tuple((source, target) for target, source in enumerate(positions)) == usual.alignment
