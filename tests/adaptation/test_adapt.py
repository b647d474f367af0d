"""Adapting a small model from the first version to a rollback, as a user does it."""

import json

import pytest
from typer.testing import CliRunner

import dragoman
from dragoman.adaptation.versions import VersionedModel
from dragoman.artifact import read_artifact
from dragoman.cli.app import app
from dragoman.errors import ArtifactError, DataError
from dragoman.inference.translator import Translator
from dragoman.workflow.adaptation import adapt
from support import word_language
from support.word_language import SETTINGS, domain_pairs, general_pairs, write_pairs

# Daft leaves pipes of its workers open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
SENTENCE = "aka term bet torm cin turm"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A trained parent, and files of a user."""
    folder = tmp_path_factory.mktemp("adapt")
    word_language.parent(folder / "parent")
    write_pairs(folder / "memory.tsv", domain_pairs(400, 2))
    write_pairs(folder / "trusted.tsv", domain_pairs(120, 3))
    write_pairs(folder / "general.tsv", general_pairs(400, 4))
    (folder / "terms.tsv").write_text("term\tsterm\nturm\tsturm\nnever\tNEVER\n")
    return folder


@pytest.fixture(scope="module")
def adapted(project):
    """The first adaptation, accepted."""
    events = []
    result = adapt(
        project / "parent" / "run",
        [project / "memory.tsv"],
        output=project / "adapted",
        test=[project / "trusted.tsv"],
        general=[project / "general.tsv"],
        glossary=project / "terms.tsv",
        minutes=0,
        settings=SETTINGS,
        on_progress=events.append,
    )
    return result, events


def translate(folder, text=SENTENCE):
    with Translator.load(folder) as translator:
        return translator.translate(text).text


@pytest.mark.slow
def test_a_good_set_is_accepted_and_the_model_uses_the_words_of_the_domain(project, adapted):
    result, events = adapted
    assert result.record.state == "accepted", result.report.gate
    assert translate(project / "parent" / "run") == "AKA gterm BET gtorm CIN gturm"
    assert translate(project / "adapted") == "AKA sterm BET storm CIN sturm"
    model = VersionedModel.open(project / "adapted")
    assert [record.number for record in model.versions] == [1, 2]
    assert model.current == result.record
    assert result.record.data[0].pairs == 400
    # Held-out general pairs are in the file that is replayed, and must not be trained on.
    held_out = sum(result.report.test_pairs[name] for name in ("general", "general_validation"))
    assert result.report.dropped["in a test set"] >= held_out > 0
    bleu = result.report.gate.rule("in_domain_bleu")
    assert bleu.after > bleu.before + 10
    assert bleu.p_value < 0.05
    stages = [event.stage for event in events if hasattr(event, "stage")]
    assert {"read", "prepare", "train", "translate", "gate"} <= set(stages)


@pytest.mark.slow
def test_the_version_is_a_complete_model_without_the_work(project, adapted):
    version = project / "adapted" / "versions" / "2"
    read_artifact(version)
    for name in ("report.html", "report.json", "card.json", "curve.png", "ctranslate2"):
        assert (version / name).exists(), name
    assert not (version / "checkpoints").exists()
    assert not (project / "adapted" / "work" / "2").exists()
    report = json.loads((version / "report.json").read_text())
    assert [point["step"] for point in report["curve"]] == [0, 20, 40, 60]
    assert all(point["general_bleu"] is not None for point in report["curve"])


@pytest.mark.slow
def test_the_report_names_terms_and_examples(project, adapted):
    report = adapted[0].report
    assert {term.term for term in report.terms} == {"term", "turm"}
    assert all(term.after > term.before for term in report.terms)
    assert "sterm" in {word.term for word in report.learned}
    best = report.improved[0]
    assert best.change > 0
    assert best.before != best.after
    page = (project / "adapted" / "versions" / "2" / "report.html").read_text()
    assert "Accepted" in page
    assert best.source in page


@pytest.mark.slow
def test_the_same_command_again_does_nothing(project, adapted):
    again = adapt(
        project / "parent" / "run",
        [project / "memory.tsv"],
        output=project / "adapted",
        general=[project / "general.tsv"],
        glossary=project / "terms.tsv",
        minutes=0,
        settings=SETTINGS,
    )
    assert again.was_finished
    assert again.report == adapted[0].report


@pytest.mark.slow
def test_a_poisoned_set_is_refused_and_the_parent_stays(project, adapted, monkeypatch):
    """Sentences with the translations of others, over the command line."""
    pairs = domain_pairs(300, 6)
    targets = [target for _, target in pairs]
    shuffled = [
        (source, target)
        for (source, _), target in zip(pairs, targets[1:] + targets[:1], strict=True)
    ]
    write_pairs(project / "poison.tsv", shuffled)
    before = translate(project / "adapted")
    monkeypatch.chdir(project)
    arguments = ["adapt", "adapted", "--data", "poison.tsv", "--general", "general.tsv"]
    result = CliRunner().invoke(app, [*arguments, "--minutes", "0", *SETTINGS])
    assert result.exception.exit_code == 8, result.output
    assert "in_domain_bleu" in str(result.exception)
    assert "refused" in result.output
    model = VersionedModel.open(project / "adapted")
    assert model.current.number == 2
    assert model.record(3).state == "refused"
    assert (project / "adapted" / "refused" / "3" / "report.html").exists()
    assert translate(project / "adapted") == before


@pytest.mark.slow
def test_adapters_and_no_general_text(project):
    """`--general none`: the parent translates the new sources, and the report says what is lost."""
    result = dragoman.adapt(
        project / "parent" / "run",
        [project / "memory.tsv"],
        output=project / "with-adapters",
        test=[project / "trusted.tsv"],
        general="none",
        minutes=0,
        settings=[
            *SETTINGS,
            "adaptation.method=adapters",
            "adaptation.replay=0.2",
            "training.learning_rate=0.02",
        ],
        keep_work=True,
    )
    assert result.record.method == "adapters"
    assert result.report.gate.rule("general_bleu").verdict == "not tested"
    assert any("General quality was not tested" in note for note in result.report.notes)
    bleu = result.report.gate.rule("in_domain_bleu")
    assert bleu.after > bleu.before
    (work,) = (project / "with-adapters" / "work" / "2").glob("*/replay.target")
    assert "gterm" in work.read_text()


def test_mistakes_are_found_before_anything_is_written(tmp_path, project_files):
    run, data, test = project_files
    for arguments, error, text in [
        ({}, DataError, "-o adapted"),
        ({"output": tmp_path / "new", "general": "none"}, DataError, "--test"),
        ({"output": tmp_path / "new", "test": [test]}, DataError, "--general none"),
        ({"output": tmp_path / "new", "test": [tmp_path / "x.tsv"]}, DataError, "x.tsv"),
    ]:
        with pytest.raises(error, match=text):
            adapt(run, [data], **arguments)
    with pytest.raises(ArtifactError, match="no folder"):
        adapt(tmp_path / "missing", [data], output=tmp_path / "new")
    assert not (tmp_path / "new" / "versions").exists()


@pytest.fixture
def project_files(tmp_path):
    from support.translator_models import write_run

    run = write_run(tmp_path / "run")
    data = write_pairs(tmp_path / "data.tsv", domain_pairs(30, 1))
    return run, data, write_pairs(tmp_path / "test.tsv", domain_pairs(30, 2))
