"""Loading: each model gets the right engine, and impossible requests are refused."""

import itertools
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.torch import save_file

from dragoman.artifact import read_artifact
from dragoman.decoding.engine import clamp_lengths, length_limit
from dragoman.decoding.engines.ctranslate2 import CTranslate2
from dragoman.decoding.engines.pytorch import PyTorch
from dragoman.errors import ArtifactError, DragomanError, MissingExtraError, RecipeError
from dragoman.inference import loading
from dragoman.inference.loading import LoadOptions, load_model
from dragoman.inference.translator import Translator
from dragoman.interop import ctranslate2 as interop
from dragoman.interop.ctranslate2 import export
from dragoman.interop.folder import read_export
from dragoman.storage.files import sha256
from dragoman.workflow import exporting
from support.translator_models import ENGINES, lines, recipe, write_run

pytestmark = pytest.mark.slow  # In CI; `make check` has little time.

LINES = lines(20, seed=3)
MAXIMUM = 80
LEARNED = {"position": {"name": "learned", "maximum": MAXIMUM}}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("models") / "run")


@pytest.fixture
def own_run(tmp_path):
    """A run that a test may change."""
    return write_run(tmp_path / "run")


def texts(translator):
    return [translation.text for translation in translator.translate(LINES)]


def load(folders, settings=(), **options):
    return load_model(folders, settings, LoadOptions(**options))


def refusal(folders, settings=(), **options):
    with pytest.raises(DragomanError) as caught:
        load(folders, settings, **options)
    return caught.value


def test_ctranslate2_is_used_whenever_possible(run):
    assert load([run]).engine.name == "ctranslate2"
    assert load([run], engine="ctranslate2").engine.name == "ctranslate2"
    assert load([run], engine="pytorch").engine.name == "pytorch"
    assert load([run]).model_hash == read_artifact(run).model_hash


@pytest.mark.parametrize("model", [{"similarity": "additive"}, {"attention_kind": "hard"}])
def test_pytorch_runs_parts_that_ctranslate2_does_not_have(tmp_path, model):
    run = write_run(tmp_path / "run", model=model)
    assert load([run]).engine.name == "pytorch"
    assert len(texts(Translator.load(run))) == len(LINES)
    error = refusal([run], engine="ctranslate2")
    assert isinstance(error, ArtifactError)
    (setting,) = model
    assert f"model.{setting}" in str(error)
    assert "Use the engine auto or pytorch" in str(error)


@pytest.mark.parametrize(
    "setting", ["decoding.search=sample", "decoding.length_normalization=gnmt"]
)
def test_pytorch_runs_searches_that_ctranslate2_does_not_have(run, setting):
    assert load([run], [setting]).engine.name == "pytorch"
    assert setting.partition("=")[0] in str(refusal([run], [setting], engine="ctranslate2"))


def test_the_requested_search_decides_the_engine(tmp_path):
    run = write_run(tmp_path / "run", search="sample")
    assert load([run]).engine.name == "pytorch"
    assert load([run], ["decoding.search=greedy"]).engine.name == "ctranslate2"


def by_engine(run, settings=()):
    """The translations of both engines."""
    return [Translator.load(run, settings, engine=engine).translate(LINES) for engine in ENGINES]


def test_both_engines_translate_alike(run):
    one, other = by_engine(run)
    assert [translation.text for translation in one] == [translation.text for translation in other]
    assert [translation.flags for translation in one] == [
        translation.flags for translation in other
    ]
    scores = [[translation.score for translation in side] for side in (one, other)]
    torch.testing.assert_close(*map(torch.tensor, scores), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        ["num_hypotheses=3", "length_penalty=0"],
        ["num_hypotheses=3", "beam_size=3", "patience=1.5"],
        ["num_hypotheses=5", "patience=2", "length_penalty=0.6"],
    ],
)
def test_both_engines_give_the_same_alternatives(run, settings):
    changed = ["decoding.retry=false", *(f"decoding.{setting}" for setting in settings)]
    one, other = by_engine(run, changed)
    pairs = list(zip(one, other, strict=True))
    same = [first.alternatives == second.alternatives for first, second in pairs]
    # A random model has many ties, which the order of float32 sums decides.
    assert [first.text for first, _ in pairs] == [second.text for _, second in pairs]
    assert sum(same) >= 0.9 * len(same)


@pytest.mark.parametrize("setting", ["min_length=9", "min_length=900"])
def test_both_engines_respect_the_minimum_and_the_limit(run, setting):
    one, other = by_engine(run, [f"decoding.{setting}"])
    assert [translation.text for translation in one] == [translation.text for translation in other]
    assert all(len(translation.tokens) >= 9 for translation in one)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_source_without_tokens_is_translated(run, engine):
    """An imported tokenizer may give no tokens for a text."""
    loaded = load([run], engine=engine)
    (source,) = loaded.tokenizers[0].encode(["one"])
    for with_alignment in (False, True):
        answers = loaded.engine.translate(
            [[], source], loaded.recipe.decoding, with_alignment=with_alignment
        )
        assert [len(hypotheses) for hypotheses in answers] == [1, 1]


def test_only_the_decoding_can_be_changed(run):
    decoding = load([run], ["decoding.beam_size=1", "decoding.search=greedy"]).recipe.decoding
    assert (decoding.beam_size, decoding.search) == (1, "greedy")
    error = refusal([run], ["model.width=64", "seed=2", "decoding.beam_size=2"])
    assert [mistake.path for mistake in error.mistakes] == ["model.width", "seed"]
    error = refusal([run], ["decoding.beem_size=2"])
    assert isinstance(error, RecipeError)
    assert "did you mean" in str(error)


@pytest.mark.parametrize("engine", ENGINES)
def test_more_hypotheses_than_the_search_finds_are_refused(run, engine):
    for settings in (
        ["decoding.num_hypotheses=4"],
        ["decoding.search=greedy", "decoding.num_hypotheses=2"],
    ):
        (mistake,) = refusal([run], settings, engine=engine).mistakes
        assert mistake.path == "decoding.num_hypotheses"
    load([run], ["decoding.beam_size=4", "decoding.num_hypotheses=4"], engine=engine)


def test_an_unknown_engine_is_refused(run):
    assert "did you mean 'pytorch'" in str(refusal([run], engine="torch"))


def test_a_folder_without_a_model_is_refused(tmp_path):
    assert "no model is given" in str(refusal([]))
    assert "there is no folder" in str(refusal([tmp_path / "nowhere"]))
    assert "is not a run" in str(refusal([tmp_path]))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("device", ["cuda", "toaster"])
def test_a_missing_device_is_reported(run, engine, device):
    error = refusal([run], engine=engine, device=device)
    assert isinstance(error, ArtifactError)
    assert device.lower() in str(error).lower()


# Exports


@pytest.fixture
def folders(monkeypatch):
    """The folders that CTranslate2 has loaded."""
    loaded, original = [], CTranslate2.__init__

    def recording(self, folder, *arguments, **named):
        loaded.append(folder)
        original(self, folder, *arguments, **named)

    monkeypatch.setattr(CTranslate2, "__init__", recording)
    return loaded


def test_the_export_of_a_run_is_used(own_run, folders):
    export(own_run, own_run / "ctranslate2")
    before = os.stat(own_run / "ctranslate2" / "model.bin")
    expected = texts(Translator.load(own_run, engine="pytorch"))
    assert texts(Translator.load(own_run)) == expected
    assert folders == [own_run / "ctranslate2"]
    assert os.stat(own_run / "ctranslate2" / "model.bin").st_mtime_ns == before.st_mtime_ns


def test_a_new_export_is_kept_in_the_run(own_run, folders, monkeypatch):
    first = texts(Translator.load(own_run))
    folder = own_run / "ctranslate2"
    assert read_export(folder).facts.model == read_artifact(own_run).model_hash
    monkeypatch.setattr("dragoman.interop.ctranslate2.write_export", None)  # Not called again.
    assert texts(Translator.load(own_run)) == first
    assert folders == [folder, folder]
    assert not [path for path in own_run.iterdir() if path.name.startswith(".")]


def test_a_new_export_has_the_permissions_of_other_files(own_run):
    Translator.load(own_run)
    files = [path for path in own_run.rglob("*") if path.is_file()]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in files}
    assert len(modes) == 1, {path.name: oct(path.stat().st_mode) for path in files}


def test_the_export_of_an_earlier_model_is_replaced(own_run):
    export(own_run, own_run / "ctranslate2")
    earlier = texts(Translator.load(own_run))
    write_run(own_run, seed=2)
    again = Translator.load(own_run)
    assert texts(again) != earlier
    assert texts(again) == texts(Translator.load(own_run, engine="pytorch"))
    assert again.model_hash == read_artifact(own_run).model_hash
    assert read_export(own_run / "ctranslate2").facts.model == again.model_hash


def test_a_quantized_export_of_an_earlier_model_is_kept(own_run, folders):
    export(own_run, own_run / "ctranslate2", "int8")
    write_run(own_run, seed=2)
    assert Translator.load(own_run).quantization == "float32"
    assert folders[0] != own_run / "ctranslate2"
    assert read_export(own_run / "ctranslate2").facts.quantization == "int8"


def test_a_run_that_cannot_be_written_gets_a_temporary_export(own_run, folders, monkeypatch):
    before = sorted(own_run.parent.rglob("*"))
    original = interop.write_export

    def refuse_in_run(artifact, destination, *arguments):
        if destination.parent == own_run:
            raise PermissionError(13, "Permission denied")
        original(artifact, destination, *arguments)

    monkeypatch.setattr(interop, "write_export", refuse_in_run)
    assert texts(Translator.load(own_run)) == texts(Translator.load(own_run, engine="pytorch"))
    assert not folders[0].parent.exists()
    assert sorted(own_run.parent.rglob("*")) == before


@pytest.mark.parametrize("name", ["model.bin", "recipe.yaml", "shared_vocabulary.json"])
def test_a_damaged_export_is_refused(own_run, name):
    folder = own_run / "ctranslate2"
    export(own_run, folder)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).unlink()
    (folder / name).write_bytes(content)
    for loaded in (own_run, folder):
        assert str(refusal([loaded])) == (
            f"the export in {str(folder)!r} is damaged: {name} is not what was written; "
            "export it again"
        )
    assert load([own_run], engine="pytorch").engine.name == "pytorch"


def test_pytorch_cannot_load_an_export(own_run):
    export(own_run, own_run / "ctranslate2")
    advice = "give the run that it was made from"
    assert advice in str(refusal([own_run / "ctranslate2"], engine="pytorch"))
    error = refusal([own_run / "ctranslate2"], ["decoding.search=sample"])
    assert "decoding.search" in str(error)
    assert advice in str(error).lower()
    assert advice in str(refusal([own_run, own_run / "ctranslate2"]))


def without_torch(code, *arguments):
    code = f"import sys; sys.modules['torch'] = None\n{code}\nassert sys.modules['torch'] is None"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True
    )


# As JSON: the texts of an untrained model may contain any character.
TRANSLATE = """
import json
from dragoman import Translator
translations = Translator.load(sys.argv[1]).translate(sys.argv[2:])
print(json.dumps([translation.text for translation in translations]))
"""


def test_an_export_alone_translates_without_torch(own_run, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    export(own_run, elsewhere)
    expected = texts(Translator.load(own_run, engine="pytorch"))
    shutil.rmtree(own_run)
    process = without_torch(TRANSLATE, elsewhere, *LINES)
    assert process.stderr == ""
    assert json.loads(process.stdout) == expected


def test_a_run_with_its_export_translates_without_torch(own_run):
    export(own_run, own_run / "ctranslate2")
    process = without_torch(TRANSLATE, own_run, *LINES)
    assert json.loads(process.stdout) == texts(Translator.load(own_run))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((), "has no CTranslate2 export of this model, and PyTorch"),
        (("decoding.search=sample",), "dragoman[train]"),
    ],
)
def test_without_torch_the_error_says_what_needs_it(own_run, settings, message):
    code = f"from dragoman import Translator; Translator.load(sys.argv[1], {settings!r})"
    assert message in without_torch(code, own_run).stderr


def test_without_ctranslate2_pytorch_is_used(run, monkeypatch):
    find = loading.importlib.util.find_spec
    monkeypatch.setattr(
        loading.importlib.util,
        "find_spec",
        lambda name: None if name == "ctranslate2" else find(name),
    )
    assert load([run]).engine.name == "pytorch"
    error = refusal([run], engine="ctranslate2")
    assert isinstance(error, MissingExtraError)
    assert "dragoman[infer]" in str(error)


# Ensembles


@pytest.mark.slow
def test_several_runs_are_averaged(tmp_path):
    runs = [write_run(tmp_path / f"run-{seed}", seed=seed) for seed in (1, 2)]
    loaded = load(runs, ["decoding.search=greedy"])
    assert loaded.engine.name == "pytorch"
    artifacts = [read_artifact(run) for run in runs]
    assert loaded.model_hash == "+".join(artifact.model_hash for artifact in artifacts)
    models = [artifact.model() for artifact in artifacts]
    (source,) = loaded.tokenizers[0].encode(LINES[:1])
    (((hypothesis),),) = loaded.engine.translate([source], loaded.recipe.decoding)
    expected = average_greedily(models, source, len(hypothesis.tokens))
    assert list(hypothesis.tokens) == expected
    alone = [texts(Translator.load(run, engine="pytorch")) for run in runs]
    assert texts(Translator(loaded)) not in alone


def average_greedily(models, source, count):
    """Written from the equation: no cache, no search classes."""
    source = torch.tensor([[*source, 3]])
    tokens = [2]
    for _ in range(count):
        outputs = [
            model(source, torch.ones_like(source, dtype=torch.bool), torch.tensor([tokens]))
            for model in models
        ]
        mean = sum(logits[0, -1].softmax(-1) for logits in outputs) / len(outputs)
        tokens.append(int(mean.argmax()))
    return tokens[1:]


def test_an_ensemble_of_one_model_twice_gives_the_same(run):
    together, alone = Translator.load([run, run]), Translator.load(run, engine="pytorch")
    pairs = list(zip(together.translate(LINES), alone.translate(LINES), strict=True))
    # Retried lines are not compared: the repetition penalty works on logits, but an ensemble has
    # only probabilities.
    same = [one.text == other.text for one, other in pairs if not other.flags]
    assert len(same) > 5
    assert all(same)


def test_an_ensemble_needs_the_same_tokenizers(run, tmp_path):
    other = write_run(tmp_path / "other", languages=("de", "fr"))
    assert "has other tokenizers" in str(refusal([run, other]))
    words = write_run(tmp_path / "words", kind="words")
    assert "has other tokenizers" in str(refusal([run, words]))


def test_ctranslate2_has_no_ensembles(run):
    assert "an ensemble needs pytorch" in str(refusal([run, run], engine="ctranslate2"))


# Positions


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "settings", [{}, {"max_extra_tokens": 0}, {"max_source_tokens": 79, "max_extra_tokens": 8}]
)
def test_a_line_with_more_tokens_than_positions_is_split(tmp_path, engine, settings):
    run = write_run(tmp_path / "run", model=LEARNED, **settings)
    translator = Translator.load(run, engine=engine)
    long = [" ".join(lines(count, seed=count)) for count in (1, 6, 11, 21)]
    is_long = [len(ids) >= MAXIMUM for ids in translator.source.encode(long)]
    assert any(is_long)
    for with_alignment in (False, True):
        translations = translator.translate([*long, "x" * 300], with_alignment=with_alignment)
        assert len(translations) == len(long) + 1
        split = itertools.compress(translations, is_long)
        assert all("split" in translation.flags for translation in split)


@given(st.integers(65, 300), st.integers(0, 300), st.integers(1, 300))
@example(128, 0, 128)
@example(80, 8, 79)
def test_clamped_lengths_fit_the_positions(positions, extra, longest):
    decoding = recipe(max_extra_tokens=extra, max_source_tokens=longest).decoding
    clamped = clamp_lengths(decoding, positions)
    assert 1 <= clamped.max_source_tokens <= longest
    assert clamped.max_extra_tokens <= extra
    for length in range(1, clamped.max_source_tokens + 1):
        assert length + 1 <= positions
        assert length_limit(length, clamped) <= positions
    if longest < positions and length_limit(longest, decoding) <= positions:
        assert clamped == decoding


def test_a_model_with_too_few_positions_is_refused(tmp_path):
    run = write_run(tmp_path / "run", model={"position": {"name": "learned", "maximum": 16}})
    for engine in ENGINES:
        assert "larger model.position.maximum" in str(refusal([run], engine=engine))


def test_an_ensemble_has_the_positions_of_its_smallest_model(run, tmp_path):
    small = write_run(tmp_path / "small", model=LEARNED)
    loaded = load([run, small])
    assert isinstance(loaded.engine, PyTorch)
    assert loaded.recipe.decoding.max_source_tokens < MAXIMUM


# Parts from outside the package


EVIL = """
from pathlib import Path

from dragoman.model.similarity.scaled_dot import ScaledDot

Path(__file__).with_name("executed").touch()


class Own(ScaledDot):
    pass
"""


@pytest.fixture
def foreign_run(tmp_path, monkeypatch):
    """A run whose recipe names a module outside the package."""
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "evil.py").write_text(EVIL)
    monkeypatch.syspath_prepend(tmp_path)
    run = write_run(tmp_path / "run")
    path = run / "recipe.yaml"
    path.write_text(path.read_text().replace("similarity: scaled_dot", "similarity: foreign.evil"))
    facts = json.loads((run / "format.json").read_text())
    facts["sha256"]["recipe.yaml"] = sha256(path)
    (run / "format.json").write_text(json.dumps(facts))
    yield run
    for name in ("foreign", "foreign.evil"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("engine", ["auto", *ENGINES])
def test_a_foreign_part_is_not_imported_without_trust(foreign_run, engine):
    message = str(refusal([foreign_run], engine=engine))
    assert "model.similarity: foreign.evil" in message
    assert "--trust-parts" in message
    assert "foreign.evil" in str(refusal([foreign_run, foreign_run]))
    with pytest.raises(ArtifactError, match=r"foreign\.evil"):
        export(foreign_run, foreign_run / "ctranslate2")
    with pytest.raises(ArtifactError, match=r"foreign\.evil"):
        exporting.export(foreign_run, to="huggingface")
    assert not (foreign_run.parent / "foreign" / "executed").exists()


def test_a_trusted_foreign_part_is_used(foreign_run):
    translator = Translator.load(foreign_run, trust_parts=True)
    assert translator.engine.name == "pytorch"
    assert translator.translate("One.").text
    assert (foreign_run.parent / "foreign" / "executed").exists()


# Unfinished runs


def write_checkpoint(run, step, best_step, weights):
    folder = run / "checkpoints" / f"step-{step:08d}"
    folder.mkdir(parents=True)
    save_file(weights, folder / "model.safetensors")
    (folder / "state.json").write_text(json.dumps({"best_step": best_step}))
    hashes = {path.name: sha256(path) for path in folder.iterdir()}
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "sha256": hashes}))
    return folder


@pytest.fixture
def unfinished(tmp_path):
    """A run with three checkpoints, the second of them the best, and no model yet."""
    run = tmp_path / "run"
    for seed in (1, 2, 3):
        artifact = read_artifact(write_run(run, seed=seed))
        write_checkpoint(run, seed, 2, artifact.weights())
    (run / "format.json").unlink()
    (run / "model.safetensors").unlink()
    return run


@pytest.mark.parametrize("engine", ENGINES)
def test_an_unfinished_run_translates_with_its_best_checkpoint(unfinished, tmp_path, engine):
    best = write_run(tmp_path / "best", seed=2)
    translator = Translator.load(unfinished, engine=engine)
    assert translator.checkpoint == "step-00000002"
    assert texts(translator) == texts(Translator.load(best, engine=engine))
    assert not (unfinished / "ctranslate2").exists()


def test_a_damaged_checkpoint_is_skipped(unfinished):
    for step in (2, 3):
        weights = unfinished / "checkpoints" / f"step-{step:08d}" / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])
    assert load([unfinished]).checkpoint == "step-00000001"
    shutil.rmtree(unfinished / "checkpoints" / "step-00000001")
    assert "has no checkpoint that can be used" in str(refusal([unfinished]))


def test_the_averaged_weights_of_a_checkpoint_are_used(tmp_path):
    run = write_run(tmp_path / "run", seed=2)
    weights = read_artifact(run).weights()
    expected = texts(Translator.load(run, engine="pytorch"))
    text = (run / "recipe.yaml").read_text()
    (run / "recipe.yaml").write_text(text.replace("ema_decay: 0.0", "ema_decay: 0.9"))
    folder = write_checkpoint(run, 1, 1, weights)
    tensors = {f"average.{name}": weight for name, weight in weights.items()}
    tensors["moment"] = weights["output.bias"].clone()
    save_file(tensors, folder / "optimizer.safetensors")
    save_file({name: 0 * weight for name, weight in weights.items()}, folder / "model.safetensors")
    names = ("model.safetensors", "optimizer.safetensors", "state.json")
    hashes = {name: sha256(folder / name) for name in names}
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "sha256": hashes}))
    (run / "format.json").unlink()
    assert texts(Translator.load(run, engine="pytorch")) == expected


def test_the_run_inside_a_folder_is_suggested(run):
    assert f"did you mean {shlex.quote(str(run))}?" in str(refusal([run.parent]))
