"""Does an evaluation find its text, ask its systems, and say all that it found?

The translator here is a stub: what is translated is not the question. `tests/journey` has the
command with a real one.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from dragoman.durable import sha256
from dragoman.errors import ArtifactError, DataError
from dragoman.evaluation.compare import compare
from dragoman.evaluation.metrics import PAPERS, measure
from dragoman.evaluation.robustness import stress
from dragoman.recipe_file import dump_recipe, load_recipe
from dragoman.workflow import evaluation
from dragoman.workflow.evaluation import Cost, evaluate

SOURCES = ["Eins zwei drei vier.", "Das Haus ist alt.", "Wo ist die alte Katze?", "Ja!"]
TARGETS = ["One two three four.", "The house is old.", "Where is the old cat?", "Yes!"]
OTHERS = ["One, two, three, four.", "That house is old.", "Where's the old cat?", "Yes."]
CARD = {
    "cost": "10 updates, 1e+09 FLOPs, 0.01 h, 0.0 M tokens",
    "flops": 1e9,
    "hours": 0.01,
    "source_tokens": 1000,
    "target_tokens": 1100,
}


@dataclass
class Answer:
    text: str
    flags: tuple[str, ...] = ()


class Stub:
    """Knows the answers, but for one in each run; says which run it is and how it was loaded."""

    loaded: list[tuple[str, tuple[str, ...], str]]

    def __init__(self, folder):
        self.wrong = SOURCES[len(Path(folder).name) % len(SOURCES)]

    @classmethod
    def load(cls, folder, settings=(), *, engine="auto"):
        cls.loaded.append((str(folder), tuple(settings), engine))
        return cls(folder)

    def translate(self, texts):
        known = dict(zip(SOURCES, TARGETS, strict=True))
        return [
            Answer("What?", ("length", "retried")) if text == self.wrong
            else Answer(known.get(text, text))
            for text in texts
        ]  # fmt: skip


@pytest.fixture(autouse=True)
def _stub(monkeypatch):
    Stub.loaded = []
    monkeypatch.setattr(evaluation, "Translator", Stub)


def prepare(folder, sources=SOURCES, targets=TARGETS):
    folder.mkdir(parents=True)
    for side, lines in (("source", sources), ("target", targets)):
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"test.{side}").write_text(text, encoding="utf-8")
    files = {name: sha256(folder / name) for name in ("test.source", "test.target")}
    content = {"format": 1, "train": [], "files": files}
    (folder / "manifest.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def write_run(folder, prepared, corpus="prepared", **card):
    folder.mkdir(parents=True)
    recipe = dump_recipe(load_recipe("tiny", [f"corpus.folder={corpus}"]))
    (folder / "recipe.yaml").write_text(recipe, encoding="utf-8")
    content = {**CARD, "corpus_sha256": sha256(prepared / "manifest.json"), **card}
    (folder / "card.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.fixture
def run(tmp_path):
    """A run beside its corpus."""
    return write_run(tmp_path / "run", prepare(tmp_path / "prepared"))


def lines(path, *text):
    path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    return path


def answers(folder, sources=SOURCES):
    return [each.text for each in Stub(folder).translate(sources)]


def test_a_run_is_measured_on_the_test_set_of_its_corpus(run):
    found = evaluate(run, ["decoding.beam=1"], engine="ctranslate2")
    assert Stub.loaded == [(str(run), ("decoding.beam=1",), "ctranslate2")]
    assert found.sentences == len(SOURCES)
    names = [Path(name) for name in found.files]
    assert [each.resolve() for each in names] == [
        run.parent / "prepared" / f"test.{side}" for side in ("source", "target")
    ]
    assert list(found.files.values()) == [sha256(each) for each in names]
    (system,) = found.systems
    assert system.name == str(run)
    assert list(system.scores) == measure(answers(run), [TARGETS])
    assert system.flags == {"length": 1, "retried": 1}
    assert system.cost == Cost(CARD["cost"], 1e9, 0.01, 2100)
    assert found.comparisons == found.robustness == found.notes == ()


def test_everything_goes_into_json_and_comes_back(run, tmp_path):
    other = write_run(tmp_path / "other", tmp_path / "prepared")
    found = evaluate(run, against=[other], papers=True, robustness=True).as_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == json.loads(json.dumps(found))
    assert set(found) == {
        *("sentences", "files", "systems", "comparisons", "robustness", "notes"),
    }
    assert found["systems"][0]["cost"]["flops"] == 1e9
    assert found["comparisons"][1]["p_value"] > 0


@pytest.mark.parametrize("place", ["run", "runs/a", "runs/deep/down"])
def test_the_corpus_is_found_after_the_whole_has_moved(tmp_path, place):
    home = tmp_path / "before"
    write_run(home / place, prepare(home / "prepared"))
    home.rename(tmp_path / "after")
    assert evaluate(tmp_path / "after" / place).sentences == len(SOURCES)


def test_a_corpus_may_be_named_from_the_root(tmp_path):
    corpus = prepare(tmp_path / "elsewhere" / "corpus")
    run = write_run(tmp_path / "home" / "run", corpus, corpus=str(corpus))
    assert evaluate(run).sentences == len(SOURCES)


def test_a_corpus_that_has_gone_or_changed_is_not_taken_for_it(run):
    manifest = run.parent / "prepared" / "manifest.json"
    manifest.write_text(manifest.read_text() + " ")
    with pytest.raises(ArtifactError, match=r"or has changed since; .* --source and --reference"):
        evaluate(run)
    manifest.unlink()
    with pytest.raises(ArtifactError, match=r"prepared.* --source and --reference"):
        evaluate(run)
    assert Stub.loaded == []


def test_a_test_set_that_was_edited_is_refused(run):
    lines(run.parent / "prepared" / "test.target", *TARGETS[:-1], "No!")
    with pytest.raises(DataError, match=r"test\.target is not what was written"):
        evaluate(run)


def test_a_corpus_that_held_nothing_out_says_what_to_do(tmp_path):
    run = write_run(tmp_path / "run", prepare(tmp_path / "prepared", [], []))
    with pytest.raises(DataError, match=r"test\.source is empty.* --source and --reference"):
        evaluate(run)


def test_a_folder_without_a_card_needs_a_text_and_has_no_cost(run, tmp_path):
    (run / "card.json").unlink()
    with pytest.raises(ArtifactError, match="does not say which corpus it is from"):
        evaluate(run)
    source, target = lines(tmp_path / "s", *SOURCES), lines(tmp_path / "t", *TARGETS)
    (system,) = evaluate(run, source=source, references=[target]).systems
    assert system.cost is None


def test_a_damaged_card_is_told(run):
    (run / "card.json").write_text("{")
    with pytest.raises(ArtifactError, match=r"card\.json of .* is damaged"):
        evaluate(run)


def test_what_is_no_run_is_told(tmp_path):
    with pytest.raises(ArtifactError, match=r"there is no folder .*nowhere"):
        evaluate(tmp_path / "nowhere")


def test_files_may_be_named_and_references_be_several(run, tmp_path):
    source = lines(tmp_path / "s", *SOURCES)
    references = [lines(tmp_path / "a", *TARGETS), lines(tmp_path / "b", *OTHERS)]
    found = evaluate(run, source=source, references=references)
    assert list(found.files) == [str(each) for each in (source, *references)]
    assert list(found.systems[0].scores) == measure(answers(run), [TARGETS, OTHERS])
    assert found.systems[0].scores[0].signature.startswith("nrefs:2|")


def test_files_that_cannot_be_used_are_told(run, tmp_path):
    source, target = lines(tmp_path / "s", *SOURCES), lines(tmp_path / "t", *TARGETS)
    with pytest.raises(DataError, match="--reference is missing"):
        evaluate(run, source=source)
    with pytest.raises(DataError, match="--source is missing"):
        evaluate(run, references=[target])
    with pytest.raises(DataError, match=r"there is no file .*nothing"):
        evaluate(run, source=tmp_path / "nothing", references=[target])
    with pytest.raises(DataError, match="empty is empty: there is nothing to score"):
        evaluate(run, source=lines(tmp_path / "empty"), references=[lines(tmp_path / "no")])
    short = lines(tmp_path / "short", *TARGETS[1:])
    with pytest.raises(DataError, match=r"s has 4 lines and .*short has 3"):
        evaluate(run, source=source, references=[target, short])
    (tmp_path / "latin").write_bytes(b"One\nTwo\nTh\xe9\nFour\n")
    with pytest.raises(DataError, match="latin, line 3: not UTF-8"):
        evaluate(run, source=source, references=[tmp_path / "latin"])
    assert Stub.loaded == []


def test_lines_end_at_line_feeds_only(run, tmp_path):
    """A form feed or U+2028 inside a line must not shift the lines after it."""
    source = lines(tmp_path / "s", "Eins\x0czwei", *SOURCES[1:])
    target = lines(tmp_path / "t", "One\u2028two", *TARGETS[1:])
    assert evaluate(run, source=source, references=[target]).sentences == len(SOURCES)


def test_other_runs_are_asked_about_the_same_text(run, tmp_path, monkeypatch):
    few = partial(compare, trials=20)
    monkeypatch.setattr(evaluation, "compare", few)
    others = [write_run(tmp_path / name, tmp_path / "prepared") for name in ("other", "third-run")]
    found = evaluate(run, against=others, test="randomisation")
    names = [str(each) for each in (run, *others)]
    assert [each.name for each in found.systems] == names
    said = {name: answers(name) for name in names}
    assert list(found.comparisons) == few(said, [TARGETS], test="randomisation")
    for system in found.systems:
        assert list(system.scores) == measure(said[system.name], [TARGETS])
    assert found.notes == ()


def test_a_run_from_another_corpus_may_have_seen_the_test_set(run, tmp_path):
    corpus = prepare(tmp_path / "else" / "prepared", SOURCES[::-1], TARGETS[::-1])
    stranger = write_run(tmp_path / "else" / "stranger", corpus)
    found = evaluate(run, against=[stranger])
    assert [note for note in found.notes if note.startswith(str(stranger))] == list(found.notes)
    assert "another corpus" in found.notes[0]


def test_a_run_is_not_compared_with_itself(run):
    with pytest.raises(DataError, match="named twice"):
        evaluate(run, against=[run])


def test_the_papers_bleu_is_there_when_asked_for(run):
    usual, asked = (evaluate(run, papers=papers).systems[0].scores for papers in (False, True))
    assert [score.name for score in usual] == ["BLEU", "chrF2", "TER"]
    assert asked[:3] == usual
    assert asked[3].name == PAPERS


def test_robustness_is_that_of_the_run(run, tmp_path):
    other = write_run(tmp_path / "other", tmp_path / "prepared")
    found = evaluate(run, against=[other], robustness=True)
    assert list(found.robustness) == stress(lambda texts: answers(run, texts), SOURCES, TARGETS)


def test_no_torch_is_needed():
    modules = ("evaluation.metrics", "evaluation.compare", "evaluation.robustness",
               "workflow.evaluation", "evaluation_display")  # fmt: skip
    code = "; ".join([*(f"import dragoman.{name}" for name in modules), "import sys",
                      "assert 'torch' not in sys.modules"])  # fmt: skip
    subprocess.run([sys.executable, "-c", code], check=True)
