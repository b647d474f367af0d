"""Synthetic training data from the command line: translated once, resumed after kill -9."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.corpus.report.model import Report
from dragoman.data.manifest import read_manifest
from dragoman.data.store import Prepared
from dragoman.inference.translator import Translator
from dragoman.storage.files import sha256
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import BACK_TRANSLATION_TOKEN
from support.translator_models import lines, write_run

pytestmark = pytest.mark.slow

SCRIPT = """\
import sys
from dragoman.corpus.stages import translate
from dragoman.workflow import preparation

translate.BATCH_ROWS = 20
preparation.prepare(sys.argv[1], workers=int(sys.argv[2]))
"""
RECIPE = """\
preset: tiny
languages: {source: en, target: de}
corpus:
  train:
    - {synthetic: backward, model: de-en, files: [more.de], tag: true}
    - {files: [train.en, train.de]}
    - {synthetic: forward, model: en-de, files: [more.en], decoding: {beam_size: 8}}
  held_out: 40
  filters: [unicode]
  synthetic_spans: 0
tokenizer: {init_from: en-de}
"""


def write_project(folder, count):
    """Write a recipe, two models that CTranslate2 can load, and text."""
    write_run(folder / "en-de", pair=("en", "de"))
    write_run(folder / "de-en", pair=("de", "en"), seed=2)
    for name in ("en-de", "de-en"):
        Translator.load(folder / name).close()  # It keeps an export.
    english = [f"{number} {line}" for number, line in enumerate(lines(400, seed=3))]
    german = [f"{line} ja" for line in english]
    for name, texts in (("train.en", english), ("train.de", german)):
        (folder / name).write_text("\n".join(texts) + "\n")
    (folder / "more.en").write_text("\n".join(lines(count, seed=4)) + "\n")
    (folder / "more.de").write_text("\n".join(lines(count, seed=5)) + "\n\n")
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


def dragoman(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"COLUMNS": "100"},
    )


def translations_of(folder):
    """Return every file of translations, with what changes if it is written again."""
    files = (folder / "synthetic").rglob("*.arrow")
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def sources_of(prepared):
    tokenizer = load_tokenizer(prepared / "tokenizer" / "source")
    opened = Prepared.open(prepared)
    shards = opened.read_shards(range(len(opened.rows)))
    ids = [shard.source(row).tolist() for shard in shards for row in range(len(shard))]
    return tokenizer.decode(ids)


def test_synthetic_text_is_translated_once_and_tagged(tmp_path):
    folder = write_project(tmp_path, 600)
    first = dragoman("prepare", "recipe.yaml", "--workers", "1", cwd=folder)
    assert first.returncode == 0, first.stderr
    report = Report.model_validate_json((folder / "prepared" / "report.json").read_bytes())
    human, backward, forward = report.corpora
    assert human.synthetic is None
    assert backward.name == "more.de (backward, de-en)"
    assert (backward.synthetic.direction, backward.synthetic.is_tagged) == ("backward", True)
    assert (forward.synthetic.direction, forward.synthetic.models) == ("forward", ["en-de"])
    assert (human.rows, backward.rows, forward.rows) == (400, 601, 600)
    for corpus in report.corpora:
        assert corpus.rows == corpus.kept + sum(corpus.dropped.values())
    assert backward.dropped["empty"] >= 1
    assert any(reason.startswith("degenerate translation") for reason in forward.dropped)
    origins = read_manifest(folder / "prepared").origins
    assert min(origins.values()) > 20
    assert f"({origins[1] + origins[2]:,} of them synthetic)" in first.stdout
    page = (folder / "prepared" / "report.html").read_text()
    assert "(train, synthetic source, tagged, 601 rows)" in page
    assert "(train, synthetic target, 600 rows)" in page
    tagged = [text for text in sources_of(folder / "prepared") if BACK_TRANSLATION_TOKEN in text]
    assert len(tagged) == origins[1]
    assert all(text.startswith(f"{BACK_TRANSLATION_TOKEN} ") for text in tagged)
    held_out = (folder / "prepared" / "validation.source").read_text().splitlines()
    assert len(held_out) > 10
    assert set(held_out) <= set((folder / "train.en").read_text().splitlines())

    # A second preparation translates nothing, also after all intermediate files are gone.
    before = translations_of(folder)
    assert len(before) == 4
    shutil.rmtree(folder / "prepared")
    second = dragoman("prepare", "recipe.yaml", "--workers", "1", cwd=folder)
    summaries = [done.stdout.splitlines()[-5:] for done in (first, second)]
    assert summaries[0] == summaries[1]
    assert "pairs to train on" in "".join(summaries[1])
    assert "sentences/s" in first.stdout
    assert "sentences/s" not in second.stdout
    assert translations_of(folder) == before

    # A changed model translates again; the other one does not.
    write_run(folder / "de-en", pair=("de", "en"), seed=7)
    shutil.rmtree(folder / "de-en" / "ctranslate2")
    Translator.load(folder / "de-en").close()
    third = dragoman("prepare", "recipe.yaml", "--workers", "1", cwd=folder)
    assert third.returncode == 0, third.stderr
    after = translations_of(folder)
    assert before.items() <= after.items()
    assert len(after) == len(before) + 2
    assert len(list((folder / "synthetic").glob("*/model.json"))) == 3


def test_mistakes_are_reported_before_anything_is_done(tmp_path):
    (tmp_path / "one.txt").write_text("one\teins\n")
    (tmp_path / "recipe.yaml").write_text(
        "languages: {source: en, target: de}\n"
        "corpus: {train: [{synthetic: forward, model: no-run, files: [one.txt, no.txt]}]}\n"
    )
    done = dragoman("prepare", "recipe.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "the recipe has 4 mistakes" in done.stderr
    assert "there is no folder" in done.stderr
    assert "2 columns" in done.stderr
    assert "no file 'no.txt'" in done.stderr
    assert "corpus.validation" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "prepared").exists()


def published(folder):
    return {
        str(path.relative_to(folder)): sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "work" not in path.relative_to(folder).parts
    }


def test_a_killed_translation_continues_with_the_same_bytes(tmp_path):
    killed = write_project(tmp_path / "killed", 600)
    whole = tmp_path / "whole"
    shutil.copytree(killed, whole)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, killed / "recipe.yaml", "2"],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 200
    while len(translations_of(killed)) < 5 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.5)  # A worker that was not in the group ends with the driver.
    translated = translations_of(killed)
    assert 5 <= len(translated) < 61, "the kill must come in the middle"

    for folder, workers in ((killed, "2"), (whole, "1")):
        subprocess.run(
            [sys.executable, "-c", SCRIPT, folder / "recipe.yaml", workers],
            check=True,
            capture_output=True,
        )
    after = translations_of(killed)
    assert translated.items() <= after.items(), "nothing is translated twice"
    assert len(after) == 61
    assert published(killed / "prepared") == published(whole / "prepared")
    for path in after:
        relative = Path(path).relative_to(killed)
        assert Path(path).read_bytes() == (whole / relative).read_bytes()
