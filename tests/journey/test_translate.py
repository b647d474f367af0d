"""Can a run be used from the command line: translate, evaluate, export, import?"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import digits
from dragoman.translator import Translator
from dragoman.workflow import exporting, translation
from dragoman.workflow.translation import Job, Shard


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model that has hardly learned; what it says does not matter here."""
    folder = tmp_path_factory.mktemp("digits")
    learning = {"steps": 20, "validate_every": 20, "save_every": 20, "average": 1}
    recipe = digits.write(folder, training=learning)
    ended = command("train", recipe)
    assert ended.returncode == 0, ended.stderr
    exporting.export(folder / "run", "ctranslate2", None, "float32")  # Nobody below loads torch.
    return folder / "run"


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    lines = [" ".join(str(number)) for number in range(1000, 1400)]
    lines[7:7] = ["", "  ", "\t1 2 3 \r"]
    path = tmp_path_factory.mktemp("text") / "in.txt"
    path.write_bytes("\n".join(lines).encode())  # The last line has no end.
    return path


def command(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *map(str, words)],
        capture_output=True,
        env=os.environ | {"COLUMNS": "80"},
        **options,
    )


def test_lines_in_are_lines_out(run, text):
    ended = command("translate", run, input=text.read_bytes())
    assert ended.returncode == 0, ended.stderr
    source, target = text.read_bytes().split(b"\n"), ended.stdout.split(b"\n")
    assert len(target) == len(source) + 1, "each line with its end"
    assert target[7:9] == [b"", b"  "]
    assert target[9].startswith(b"\t")
    assert target[9].endswith(b" \r")


@pytest.mark.slow
def test_a_file_in_shards_is_the_file(run, text, tmp_path):
    whole = tmp_path / "whole.txt"
    assert command("translate", run, "-i", text, "-o", whole).returncode == 0
    assert whole.read_bytes().count(b"\n") == text.read_bytes().count(b"\n")
    for number in range(1, 8):
        typed = ("-i", text, "-o", tmp_path / "part.txt", "--shard", f"{number}/7")
        assert command("translate", run, *typed).returncode == 0
    parts = sorted(tmp_path.glob("part.txt.*-of-00007"))
    assert b"".join(part.read_bytes() for part in parts) == whole.read_bytes()
    card = json.loads((tmp_path / "whole.txt.card.json").read_text())
    assert card["lines"] == len(text.read_bytes().split(b"\n"))
    assert not list(tmp_path.glob(".*")), "nothing is left over"


def test_what_is_there_is_not_done_again(run, text, tmp_path, monkeypatch):
    monkeypatch.setattr(translation, "PART", 200)
    translator = Translator.load(run)
    asked = []
    stream = translator.stream

    def counting(lines, **options):
        asked.extend(lines)
        return stream(lines, **options)

    translator.stream = counting
    job = Job(translator, text, tmp_path / "out.txt")
    steps = job.run()
    for _ in range(5):
        next(steps)
    steps.close()  # As if it were killed: some parts are there, the file is not.
    assert not job.place.exists()
    done = len(asked)
    assert 0 < done < 403
    list(job.run())
    assert len(asked) == 403, "every line once"
    whole = job.place.read_bytes()
    list(job.run())
    assert len(asked) == 403, "all was there"
    job.place.write_bytes(whole[:-1])
    list(job.run())
    assert job.place.read_bytes() == whole, "what was damaged is done again"
    changed = Translator.load(run, ["decoding.beam=2"])
    list(Job(changed, text, tmp_path / "out.txt").run())
    card = json.loads(job.card.read_text())
    assert card["decoding"]["beam"] == 2, "other settings, another translation"


def test_shards_of_any_number_hold_every_line_once(text, tmp_path):
    size = text.stat().st_size
    for of in (1, 2, 3, 10, 64, 1000):
        with text.open("rb") as file:
            ranges = [translation._range(file, Shard(number, of)) for number in range(1, of + 1)]
        assert ranges[0][0] == 0
        assert ranges[-1][1] == size
        assert all(one[1] == two[0] for one, two in itertools.pairwise(ranges))
        for start, _ in ranges:
            assert start in (0, size) or text.read_bytes()[start - 1 : start] == b"\n"


@pytest.mark.slow
def test_a_kill_at_any_moment_costs_nothing_that_was_done(run, tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("".join(" ".join(str(number)) + "\n" for number in range(60000)))
    typed = [sys.executable, "-m", "dragoman", "translate", str(run), "decoding.beam=1"]
    typed += ["-i", str(source), "-o", str(tmp_path / "out.txt")]
    kills = 0
    for wait in (2.5, 3.0, 3.5, 4.0):
        child = subprocess.Popen(typed, stderr=subprocess.DEVNULL)
        time.sleep(wait)
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            kills += 1
        child.wait()
    subprocess.run(typed, check=True, stderr=subprocess.DEVNULL)
    assert (tmp_path / "out.txt").read_bytes().count(b"\n") == 60000
    assert kills, "the machine was too fast to be killed"
    undisturbed = [*typed[:-1], str(tmp_path / "again.txt")]
    subprocess.run(undisturbed, check=True, stderr=subprocess.DEVNULL)
    assert (tmp_path / "again.txt").read_bytes() == (tmp_path / "out.txt").read_bytes()


@pytest.mark.slow
def test_mistakes_are_told_in_plain_words(run, text, tmp_path):
    for words, code, told in (
        ((run, "-i", text), 3, b"both --input and --output"),
        ((run, "-i", text, "-o", tmp_path / "o", "--shard", "9/3"), 3, b"as 3/64"),
        ((run, "model.width=3"), 2, b"only decoding"),
        ((run, "decoding.beem=3"), 2, b"beam"),
        ((tmp_path / "nothing",), 4, b"no folder"),
        ((run, "--language", "fi"), 3, b"no token for the language"),
    ):
        ended = command("translate", *words, input=b"1 2\n")
        assert ended.returncode == code, ended.stderr
        assert told in ended.stderr, ended.stderr
    ended = command("translate", run, input=b"1 2\n\xff\n")
    assert ended.returncode == 3
    assert b"line 2 is not UTF-8" in ended.stderr


def test_json_says_more(run):
    ended = command("translate", run, "--json", "decoding.hypotheses=2", input=b"1 2 3\n\n")
    first, second = map(json.loads, ended.stdout.splitlines())
    assert set(first) >= {"text", "score", "tokens", "alignment", "flags", "alternatives"}
    assert len(first["alternatives"]) == 1
    assert second["text"] == ""


@pytest.mark.slow
def test_evaluate_export_and_translate_again(run, text, tmp_path):
    sources, references = tmp_path / "s", tmp_path / "r"
    sources.write_text("1 2 3\n4 5 6\n7 8\n")
    references.write_text("3 2 1\n6 5 4\n8 7\n")
    ended = command(
        "evaluate", run, "--source", sources, "--reference", references, "--json", tmp_path / "j"
    )
    assert ended.returncode == 0, ended.stderr
    assert b"BLEU" in ended.stdout
    assert b"nrefs:1" in ended.stdout.replace(b"\n", b"")
    assert json.loads((tmp_path / "j").read_text())["sentences"] == 3
    exported = tmp_path / "exported"
    ended = command("export", run, "--to", "ctranslate2", "-o", exported)
    assert ended.returncode == 0, ended.stderr
    asked = text.read_bytes()
    again = command("translate", exported, input=asked)
    assert again.stdout == command("translate", run, input=asked).stdout
