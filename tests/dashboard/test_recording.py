"""Recording samples for the dashboard: what is recorded, and that the training stays the same."""

import json

import pytest

from dragoman import train
from dragoman.dashboard.samples import WEIGHT_SCALE, read_samples
from dragoman.training.events import Message
from support import digits, trainees
from support.trainees import journal, outcome, start
from support.trainees import train as train_elsewhere

TRAINING = {"steps": 14, "validate_every": 4, "save_every": 5, "ema_decay": 0.9}
DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1, "decoder_layers": 2}


@pytest.fixture(autouse=True)
def _kill_processes():
    yield
    trainees.kill_all()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return digits.write(tmp_path_factory.mktemp("watched"), model=DROPOUT, training=TRAINING)


@pytest.fixture(scope="module")
def watched(recipe):
    """A run with a dashboard, and its messages."""
    messages = []
    result = train(
        recipe, ["training.folder=watched"], on_progress=messages.append, dashboard_port=0
    )
    return result.folder, [event.text for event in messages if isinstance(event, Message)]


@pytest.mark.slow
def test_recording_does_not_change_the_training(recipe, watched):
    plain = train(recipe, ["training.folder=plain"]).folder
    assert outcome(watched[0]) == outcome(plain)
    assert not (plain / "samples.jsonl").exists()
    assert (plain / "dashboard.html").is_file(), "every run gets the page with its curves"


@pytest.mark.slow
def test_the_same_sentences_are_recorded_at_each_validation(watched):
    folder, messages = watched
    samples = [entry for entry, _ in read_samples(folder)]
    validations = [entry["step"] for entry in journal(folder) if entry["kind"] == "validation"]
    assert [entry.step for entry in samples] == validations
    sources = [[sentence.source for sentence in entry.sentences] for entry in samples]
    assert len(set(sources[0])) == 4
    assert all(other == sources[0] for other in sources)
    for entry in samples:
        for sentence in entry.sentences:
            assert sentence.reference == " ".join(reversed(sentence.source.split()))
            assert sentence.source_tokens[-1] == "⟨end⟩"
            assert len(sentence.layers) == 2
            for layer in sentence.layers:
                assert len(layer) == len(sentence.target_tokens)
                for row in layer:
                    assert len(row) == len(sentence.source_tokens)
                    assert sum(row) == pytest.approx(WEIGHT_SCALE, abs=len(row))
    assert any(text.startswith("dashboard: http://127.0.0.1:") for text in messages)


@pytest.mark.slow
def test_a_resumed_run_has_the_samples_of_an_undisturbed_one(recipe, watched):
    fault = {"kind": "at_step", "step": 9, "signals": ["SIGKILL"]}
    arguments = ("training.folder=resumed", "--dashboard")
    assert start(recipe, *arguments, faults=[fault]).wait() != 0
    resumed = train_elsewhere(recipe, *arguments)
    assert outcome(resumed) == outcome(watched[0])
    assert (resumed / "samples.jsonl").read_bytes() == (watched[0] / "samples.jsonl").read_bytes()


@pytest.mark.slow
def test_the_main_of_several_ranks_serves_and_records(recipe, watched):
    trainee = start(recipe, "training.folder=ranks", "--dashboard", ranks=2)
    assert trainee.wait() == 0, trainee.text
    assert trainee.text.count("dashboard: http://") == 1
    folder = recipe.parent / "ranks"
    assert (folder / "samples.jsonl").read_bytes() == (watched[0] / "samples.jsonl").read_bytes()


@pytest.mark.slow
def test_sharded_weights_give_curves_without_samples(recipe):
    trainee = start(
        recipe, "training.folder=sharded", "training.parallel=fsdp", "--dashboard", ranks=2
    )
    assert trainee.wait() == 0, trainee.text
    assert "no sample translations with training.parallel=fsdp" in trainee.text
    assert not (recipe.parent / "sharded" / "samples.jsonl").exists()
    assert (recipe.parent / "sharded" / "dashboard.html").is_file()


@pytest.mark.slow
def test_a_run_in_a_store_has_the_samples_and_the_page(recipe, watched, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    train(recipe, [f"training.folder=file://{tmp_path}/stored"], dashboard_port=0)
    stored = tmp_path / "stored" / "samples.jsonl"
    assert stored.read_bytes() == (watched[0] / "samples.jsonl").read_bytes()
    page = (tmp_path / "stored" / "dashboard.html").read_text(encoding="utf-8")
    assert "<title>stored: training</title>" in page


@pytest.mark.slow
def test_a_model_without_attention_has_translations_without_maps(tmp_path):
    model = {"architecture": "recurrent", "recurrent": {"attention": False}}
    recipe = digits.write(tmp_path, model=model, training={"steps": 4})
    folder = train(recipe, dashboard_port=0).folder
    (line,) = (folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert all(sentence["layers"] == [] for sentence in json.loads(line)["sentences"])
