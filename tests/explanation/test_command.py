"""Does `dragoman explain` write what it says, and refuse kindly?"""

import os
import subprocess
import sys

import pytest

from dragoman import Translator, explain
from dragoman.exporting.ctranslate2 import export
from explanation.explained import SENTENCE
from translator_models import write_run


def dragoman(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env=os.environ | {"COLUMNS": "80"},
    )


@pytest.mark.slow
def test_from_a_sentence_to_a_page_and_pictures(tmp_path):
    write_run(tmp_path / "run")
    words = ("explain", "run", SENTENCE, "decoding.beam=2")
    ended = dragoman(*words, "-o", "new/page.html", "--figures", "figures", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    explanation = explain(tmp_path / "run", SENTENCE, ["decoding.beam=2"])
    assert (tmp_path / "new" / "page.html").read_text(encoding="utf-8") == explanation.to_html()
    assert len(list((tmp_path / "figures").iterdir())) == 8
    assert ended.stdout.startswith(f"{SENTENCE}\n→ {explanation.translation}")
    assert ended.stdout.endswith("Wrote new/page.html\nDrew 8 pictures in figures\n")
    assert max(map(len, ended.stdout.split("\n"))) <= 80


@pytest.mark.slow
def test_refusals_say_what_to_do(tmp_path):
    run = write_run(tmp_path / "run")
    export(run, tmp_path / "served")
    for words, code, told in (
        (("run", "One", "two."), 3, "put the sentence in quotation marks"),
        (("served", "One."), 4, "name its run"),
        (("run", "One.", "model.width=2"), 2, "only decoding"),
    ):
        ended = dragoman("explain", *words, cwd=tmp_path)
        assert ended.returncode == code, ended.stderr
        assert told in " ".join(ended.stderr.split())
    assert not (tmp_path / "explanation.html").exists()


def test_the_alignment_is_the_one_that_translating_gives(tmp_path):
    run = write_run(tmp_path / "run", seed=2)
    translator = Translator.load(run, engine="pytorch")
    (usual,) = translator.translate([SENTENCE], with_alignment=True)
    explanation = explain(translator, SENTENCE)
    # The source's end is no word.
    places = explanation.alignment[: len(usual.tokens), :-1].argmax(axis=1).tolist()
    assert tuple((there, here) for here, there in enumerate(places)) == usual.alignment
