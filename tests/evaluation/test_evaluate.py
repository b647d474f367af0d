"""`evaluate` finds its text, translates it with all runs, and returns the complete result.

The translator is a stub: the translations do not matter here. `tests/journey` runs the command with
a real model.
"""

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from dragoman.data.store import Prepared
from dragoman.errors import ArtifactError, DataError
from dragoman.evaluation.compare import compare
from dragoman.evaluation.metrics import TOKENIZED_BLEU, measure, worst_sentences
from dragoman.evaluation.result import VERSION, Cost
from dragoman.evaluation.robustness import measure_robustness
from dragoman.recipe.files import dump_recipe, load_recipe
from dragoman.storage.files import sha256
from dragoman.training.card import BestValidation, Card
from dragoman.workflow import evaluation
from dragoman.workflow.evaluation import evaluate

SOURCES = ["Eins zwei drei vier.", "Das Haus ist alt.", "Wo ist die alte Katze?", "Ja!"]
TARGETS = ["One two three four.", "The house is old.", "Where is the old cat?", "Yes!"]
OTHERS = ["One, two, three, four.", "That house is old.", "Where's the old cat?", "Yes."]
COST = "10 updates, 1e+09 FLOPs, 0.01 h, 0.0 M tokens"


@dataclass
class Answer:
    text: str
    flags: tuple[str, ...] = ()


class Stub:
    """Translates all sentences but one correctly, and records how it was loaded."""

    loaded: list[tuple[str, tuple[str, ...], dict[str, object]]]
    closed: list[str]

    def __init__(self, folder):
        self.folder = str(folder)
        self.wrong = SOURCES[len(Path(folder).name) % len(SOURCES)]

    @classmethod
    def load(cls, folder, settings=(), **options):
        cls.loaded.append((str(folder), tuple(settings), options))
        return cls(folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed.append(self.folder)

    def translate(self, texts):
        known = dict(zip(SOURCES, TARGETS, strict=True))
        return [
            Answer("What?", ("length", "retried")) if text == self.wrong
            else Answer(known.get(text, text))
            for text in texts
        ]  # fmt: skip

    def stream(self, texts):
        return iter(self.translate(texts))


@pytest.fixture(autouse=True)
def _stub(monkeypatch):
    Stub.loaded = []
    Stub.closed = []
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


def write_run(folder, prepared, corpus="prepared"):
    folder.mkdir(parents=True)
    recipe = load_recipe("tiny", [f"corpus.folder={corpus}"])
    (folder / "recipe.yaml").write_text(dump_recipe(recipe), encoding="utf-8")
    card = Card(
        dragoman="0.1.0",
        cost=COST,
        flops=1e9,
        hours=0.01,
        world_size=1,
        device="cpu",
        threads=1,
        parameters=1000,
        updates=10,
        pairs=100,
        source_tokens=1000,
        target_tokens=1100,
        validation=BestValidation(metric="bleu", value=1.0, step=10),
        ended_by="steps",
        checkpoint_steps=(10,),
        corpus_sha256=Prepared.open(prepared).manifest.content_sha256,
        recipe=recipe,
    )
    card.write(folder)
    return folder


@pytest.fixture
def run(tmp_path):
    """A run in the same folder as its corpus."""
    return write_run(tmp_path / "run", prepare(tmp_path / "prepared"))


def lines(path, *text):
    path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    return path


def outputs(folder, sources=SOURCES):
    return [answer.text for answer in Stub(folder).translate(sources)]


def test_a_run_is_scored_on_the_test_set_of_its_corpus(run):
    result = evaluate(run, ["decoding.beam_size=1"], engine="ctranslate2", device="cuda")
    options = {"engine": "ctranslate2", "device": "cuda", "trust_parts": False}
    assert Stub.loaded == [(str(run), ("decoding.beam_size=1",), options)]
    assert result.sentences == len(SOURCES)
    paths = [Path(name) for name in result.files]
    assert [path.resolve() for path in paths] == [
        run.parent / "prepared" / f"test.{side}" for side in ("source", "target")
    ]
    assert list(result.files.values()) == [sha256(path) for path in paths]
    (system,) = result.systems
    assert system.name == str(run)
    assert list(system.scores) == measure(outputs(run), [TARGETS])
    assert system.flags == {"length": 1, "retried": 1}
    assert system.cost == Cost(COST, 1e9, 0.01, 2100)
    assert result.comparisons == result.robustness == ()
    assert list(result.worst_sentences) == worst_sentences(SOURCES, outputs(run), [TARGETS])
    (worst,) = result.worst_sentences
    assert (worst.source, worst.output) == (Stub(run).wrong, "What?")


def test_the_result_is_written_as_json(run, tmp_path):
    other = write_run(tmp_path / "other", tmp_path / "prepared")
    result = evaluate(run, against=[other], tokenized=True, robustness=True)
    content = json.loads(result.to_json())
    assert set(content) == {
        *("version", "sentences", "files", "systems", "comparisons", "robustness"),
        *("worst_sentences", "notes"),
    }
    assert content["version"] == VERSION
    assert content["systems"][0]["cost"]["flops"] == 1e9
    assert content["comparisons"][1]["p_value"] > 0
    (worst,) = content["worst_sentences"]
    assert worst["output"] == "What?"
    for system, written in zip(result.systems, content["systems"], strict=True):
        for score, row in zip(system.scores, written["scores"], strict=True):
            assert row["interval"] == (None if score.interval is None else [*score.interval])


@pytest.mark.parametrize("folder", ["run", "runs/a", "runs/deep/down"])
def test_the_corpus_is_found_after_both_have_moved(tmp_path, folder):
    parent = tmp_path / "before"
    write_run(parent / folder, prepare(parent / "prepared"))
    parent.rename(tmp_path / "after")
    assert evaluate(tmp_path / "after" / folder).sentences == len(SOURCES)


def test_the_corpus_may_have_an_absolute_path(tmp_path):
    corpus = prepare(tmp_path / "elsewhere" / "corpus")
    run = write_run(tmp_path / "other" / "run", corpus, corpus=str(corpus))
    assert evaluate(run).sentences == len(SOURCES)


def test_the_corpus_of_a_run_of_an_older_version_is_found(run):
    """Its card has the hash of the manifest file."""
    card = json.loads((run / "card.json").read_text())
    older = {"corpus_sha256": sha256(run.parent / "prepared" / "manifest.json")}
    (run / "card.json").write_text(json.dumps(card | older))
    assert evaluate(run).sentences == len(SOURCES)


def test_a_missing_or_changed_corpus_is_refused(run):
    manifest = run.parent / "prepared" / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"weights": {"0": 2.0}}))
    with pytest.raises(
        ArtifactError, match=r"or has changed since; .* --source FILE --reference FILE"
    ):
        evaluate(run)
    manifest.unlink()
    with pytest.raises(ArtifactError, match=r"prepared.* --source FILE --reference FILE"):
        evaluate(run)
    assert Stub.loaded == []


def test_an_edited_test_set_is_refused(run):
    lines(run.parent / "prepared" / "test.target", *TARGETS[:-1], "No!")
    with pytest.raises(DataError, match=r"test\.target is not what was written"):
        evaluate(run)


def test_an_empty_test_set_is_refused_with_a_command(tmp_path):
    run = write_run(tmp_path / "run", prepare(tmp_path / "prepared", [], []))
    with pytest.raises(DataError, match=r"test\.source' is empty\. .* --source FILE --reference"):
        evaluate(run)


def test_a_folder_that_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(
        ArtifactError, match="is not a run; expected a folder that `dragoman train`"
    ):
        evaluate(tmp_path)


def test_a_folder_without_a_card_needs_a_text_and_has_no_cost(run, tmp_path):
    (run / "card.json").unlink()
    with pytest.raises(ArtifactError, match="so its training corpus is unknown"):
        evaluate(run)
    source, target = lines(tmp_path / "s", *SOURCES), lines(tmp_path / "t", *TARGETS)
    (system,) = evaluate(run, source=source, references=[target]).systems
    assert system.cost is None


def test_a_damaged_card_is_reported(run):
    (run / "card.json").write_text("{")
    with pytest.raises(ArtifactError, match=r"card\.json of .* cannot be read"):
        evaluate(run)


def test_a_missing_run_is_reported(tmp_path):
    with pytest.raises(ArtifactError, match=r"there is no folder .*nowhere"):
        evaluate(tmp_path / "nowhere")


def test_source_and_several_references_may_be_named(run, tmp_path):
    source = lines(tmp_path / "s", *SOURCES)
    references = [lines(tmp_path / "a", *TARGETS), lines(tmp_path / "b", *OTHERS)]
    result = evaluate(run, source=source, references=references)
    assert list(result.files) == [str(path) for path in (source, *references)]
    assert list(result.systems[0].scores) == measure(outputs(run), [TARGETS, OTHERS])
    assert result.systems[0].scores[0].signature.startswith("nrefs:2|")


def test_unusable_files_are_reported(run, tmp_path):
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
    with pytest.raises(DataError, match=r"s and .*short have 4 and 3 lines"):
        evaluate(run, source=source, references=[target, short])
    (tmp_path / "latin").write_bytes(b"One\nTwo\nTh\xe9\nFour\n")
    with pytest.raises(DataError, match="latin, line 3: not UTF-8"):
        evaluate(run, source=source, references=[tmp_path / "latin"])
    assert Stub.loaded == []


def test_only_a_line_feed_ends_a_line(run, tmp_path):
    """A form feed or U+2028 inside a line must not shift the lines after it."""
    source = lines(tmp_path / "s", "Eins\x0czwei", *SOURCES[1:])
    target = lines(tmp_path / "t", "One\u2028two", *TARGETS[1:])
    assert evaluate(run, source=source, references=[target]).sentences == len(SOURCES)


def test_other_runs_translate_the_same_text(run, tmp_path, monkeypatch):
    quick_compare = partial(compare, trials=20)
    monkeypatch.setattr(evaluation, "compare", quick_compare)
    others = [write_run(tmp_path / name, tmp_path / "prepared") for name in ("other", "third-run")]
    result = evaluate(run, against=others, test="randomization")
    names = [str(folder) for folder in (run, *others)]
    assert [system.name for system in result.systems] == names
    texts = {name: outputs(name) for name in names}
    assert list(result.comparisons) == quick_compare(texts, [TARGETS], test="randomization")
    for system in result.systems:
        assert list(system.scores) == measure(texts[system.name], [TARGETS])
    assert not [note for note in result.notes if "corpus" in note]


def test_a_run_trained_on_another_corpus_gets_a_warning(run, tmp_path):
    corpus = prepare(tmp_path / "else" / "prepared", SOURCES[::-1], TARGETS[::-1])
    other = write_run(tmp_path / "else" / "other", corpus)
    notes = [note for note in evaluate(run, against=[other]).notes if "corpus" in note]
    (note,) = notes
    assert note.startswith(f"{other} and {run} were trained on different corpora")


def test_a_run_is_not_compared_with_itself(run):
    with pytest.raises(DataError, match="named twice"):
        evaluate(run, against=[run])


def test_bleu_of_tokenized_text_is_computed_on_request(run):
    usual, with_tokenized = (
        evaluate(run, tokenized=tokenized).systems[0].scores for tokenized in (False, True)
    )
    assert [score.name for score in usual] == ["BLEU", "chrF2", "TER"]
    assert with_tokenized[:3] == usual
    assert with_tokenized[3].name == TOKENIZED_BLEU


def test_robustness_is_measured_for_the_first_run(run, tmp_path):
    other = write_run(tmp_path / "other", tmp_path / "prepared")
    result = evaluate(run, against=[other], robustness=True)
    assert list(result.robustness) == measure_robustness(
        lambda texts: outputs(run, texts), SOURCES, TARGETS
    )


@pytest.mark.slow
def test_torch_is_not_imported():
    modules = ("evaluation.metrics", "evaluation.compare", "evaluation.robustness",
               "workflow.evaluation", "cli.display.evaluation")  # fmt: skip
    code = "; ".join([*(f"import dragoman.{name}" for name in modules), "import sys",
                      "assert 'torch' not in sys.modules"])  # fmt: skip
    subprocess.run([sys.executable, "-c", code], check=True)


def test_options_of_the_translator_are_passed_on(run):
    evaluate(run, trust_parts=True)
    evaluate(run)
    assert [options for *_, options in Stub.loaded] == [
        {"engine": "auto", "device": "auto", "trust_parts": True},
        {"engine": "auto", "device": "auto", "trust_parts": False},
    ]


def test_progress_is_reported_for_every_stage(run, tmp_path):
    other = write_run(tmp_path / "other", tmp_path / "prepared")
    events = []
    evaluate(str(run), against=[other], robustness=True, on_progress=events.append)
    stages = list(dict.fromkeys((event.stage, event.system) for event in events))
    assert stages == [
        *(("load", str(run)), ("load", str(other))),
        *(("translate", str(run)), ("translate", str(other))),
        ("robustness", str(run)),
        *(("score", str(run)), ("score", str(other))),
        ("compare", ""),
    ]
    for stage in stages:
        last = [event for event in events if (event.stage, event.system) == stage][-1]
        assert last.done == last.total
    assert sorted(Stub.closed) == sorted((str(run), str(other)))
    translated = [event for event in events if event.stage == "translate"][: len(SOURCES) + 1]
    assert [event.done for event in translated] == list(range(len(SOURCES) + 1))


def test_too_few_sentences_for_an_interval_are_reported(run, tmp_path):
    """BLEU is 100, but the mean of the resamples is lower and the margin is 0."""
    text = ["a b c d e f g h"] * 4 + ["yes", "no", "hello", "good day", "thank you"]
    source = lines(tmp_path / "s", *text)
    result = evaluate(run, source=source, references=[source])
    bleu, *_ = result.systems[0].scores
    assert bleu.value == pytest.approx(100)
    assert bleu.interval is None
    assert result.notes == ("9 sentences are too few for a 95 % interval of BLEU",)
    assert result.worst_sentences == ()


def test_folder_names_are_quoted_in_suggested_commands(tmp_path):
    run = write_run(tmp_path / "x$(touch y) z", prepare(tmp_path / "prepared", [], []))
    with pytest.raises(DataError) as error:
        evaluate(run)
    command = str(error.value).rpartition("type: ")[2]
    assert shlex.split(command) == [
        *("dragoman", "evaluate", str(run), "--source", "FILE", "--reference", "FILE"),
    ]
