"""Is each model served by the right engine, and is what cannot be served refused in plain words?"""

import itertools
import shutil
import subprocess
import sys

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman import engines
from dragoman.artifact import read_artifact
from dragoman.decoding.ctranslate2 import CTranslate2
from dragoman.decoding.engine import length_limit, within
from dragoman.decoding.pytorch import PyTorch
from dragoman.engines import serve
from dragoman.errors import ArtifactError, DragomanError, MissingExtraError, RecipeError
from dragoman.exporting.ctranslate2 import export
from dragoman.translator import Translator
from translator_models import ENGINES, lines, recipe, write_run

pytestmark = pytest.mark.slow  # In CI; `make check` has little time.

LINES = lines(20, seed=3)
MAXIMUM = 80
LEARNED = {"position": {"name": "learned", "maximum": MAXIMUM}}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("models") / "run")


@pytest.fixture
def own_run(tmp_path):
    """One that a test may change."""
    return write_run(tmp_path / "run")


def texts(translator):
    return [each.text for each in translator.translate(LINES)]


def refusal(*arguments, **named):
    with pytest.raises(DragomanError) as caught:
        serve(*arguments, **named)
    return caught.value


def test_ctranslate2_serves_whatever_it_can(run):
    assert serve([run]).engine.name == "ctranslate2"
    assert serve([run], engine="ctranslate2").engine.name == "ctranslate2"
    assert serve([run], engine="pytorch").engine.name == "pytorch"
    assert serve([run]).model_hash == read_artifact(run).model_hash


@pytest.mark.parametrize("model", [{"similarity": "additive"}, {"reach": "hard"}])
def test_pytorch_serves_the_parts_that_ctranslate2_does_not_know(tmp_path, model):
    run = write_run(tmp_path / "run", model=model)
    assert serve([run]).engine.name == "pytorch"
    assert len(texts(Translator.load(run))) == len(LINES)
    found = refusal([run], engine="ctranslate2")
    assert isinstance(found, ArtifactError)
    (setting,) = model
    assert f"model.{setting}" in str(found)
    assert "choose pytorch" in str(found)


@pytest.mark.parametrize("setting", ["decoding.search=sample", "decoding.length_form=gnmt"])
def test_pytorch_serves_the_searches_that_ctranslate2_does_not_know(run, setting):
    assert serve([run], [setting]).engine.name == "pytorch"
    assert setting.partition("=")[0] in str(refusal([run], [setting], engine="ctranslate2"))


def test_the_search_that_is_asked_for_counts_not_the_runs_own(tmp_path):
    run = write_run(tmp_path / "run", search="sample")
    assert serve([run]).engine.name == "pytorch"
    assert serve([run], ["decoding.search=greedy"]).engine.name == "ctranslate2"


def test_both_engines_say_the_same(run):
    one, other = (Translator.load(run, engine=each).translate(LINES) for each in ENGINES)
    assert [each.text for each in one] == [each.text for each in other]
    assert [each.flags for each in one] == [each.flags for each in other]
    scores = [[each.score for each in found] for found in (one, other)]
    torch.testing.assert_close(*map(torch.tensor, scores), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        ["hypotheses=3", "length_penalty=0"],
        ["hypotheses=3", "beam=3", "patience=1.5"],
        ["hypotheses=5", "patience=2", "length_penalty=0.6"],
    ],
)
def test_both_engines_list_the_same(run, settings):
    changed = ["decoding.retry=false", *(f"decoding.{each}" for each in settings)]
    one, other = (Translator.load(run, changed, engine=each).translate(LINES) for each in ENGINES)
    same = [two.alternatives == each.alternatives for each, two in zip(one, other, strict=True)]
    # Noise makes many ties, which float32 sums in another order decide.
    assert [each.text for each in one] == [each.text for each in other]
    assert sum(same) >= 0.9 * len(same)


@pytest.mark.parametrize("setting", ["minimum_length=9", "minimum_length=900"])
def test_both_engines_keep_to_the_minimum_and_to_the_limit(run, setting):
    changed = [f"decoding.{setting}"]
    one, other = (Translator.load(run, changed, engine=each).translate(LINES) for each in ENGINES)
    assert [each.text for each in one] == [each.text for each in other]
    assert all(len(each.tokens) >= 9 for each in one)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_source_without_tokens_is_no_accident(run, engine):
    """A tokenizer that is imported may leave nothing of a text."""
    served = serve([run], engine=engine)
    (source,) = served.tokenizers[0].encode(["one"])
    for with_alignment in (False, True):
        found = served.engine.translate(
            [[], source], served.recipe.decoding, with_alignment=with_alignment
        )
        assert [len(each) for each in found] == [1, 1]


def test_only_the_decoding_can_be_changed(run):
    served = serve([run], ["decoding.beam=2", "decoding.search=greedy"])
    assert (served.recipe.decoding.beam, served.recipe.decoding.search) == (2, "greedy")
    found = refusal([run], ["model.width=64", "seed=2", "decoding.beam=2"])
    assert [each.path for each in found.mistakes] == ["model.width", "seed"]
    found = refusal([run], ["decoding.beem=2"])
    assert isinstance(found, RecipeError)
    assert "did you mean" in str(found)


@pytest.mark.parametrize("engine", ENGINES)
def test_more_hypotheses_than_the_search_finds_are_refused(run, engine):
    for asked in (["decoding.hypotheses=4"], ["decoding.search=greedy", "decoding.hypotheses=2"]):
        (found,) = refusal([run], asked, engine=engine).mistakes
        assert found.path == "decoding.hypotheses"
    serve([run], ["decoding.beam=4", "decoding.hypotheses=4"], engine=engine)


def test_another_engine_is_refused(run):
    assert "did you mean 'pytorch'" in str(refusal([run], engine="torch"))


def test_no_model_is_told(tmp_path):
    assert "no model was named" in str(refusal([]))
    assert "there is no folder" in str(refusal([tmp_path / "nowhere"]))
    assert "is not a model" in str(refusal([tmp_path]))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device here")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("device", ["cuda", "toaster"])
def test_a_device_that_is_not_there_is_told(run, engine, device):
    found = refusal([run], engine=engine, device=device)
    assert isinstance(found, ArtifactError)
    assert device.lower() in str(found).lower()


# Exports


@pytest.fixture
def folders(monkeypatch):
    """The folders that CTranslate2 has loaded."""
    seen, load = [], CTranslate2.__init__

    def watched(self, folder, *arguments, **named):
        seen.append(folder)
        load(self, folder, *arguments, **named)

    monkeypatch.setattr(CTranslate2, "__init__", watched)
    return seen


def test_the_export_of_a_run_is_used(own_run, folders):
    fresh = texts(Translator.load(own_run))
    export(own_run, own_run / "ctranslate2")
    assert texts(Translator.load(own_run)) == fresh
    made, used = folders
    assert used == own_run / "ctranslate2"
    assert not made.exists()


def test_the_export_of_an_earlier_model_is_not(own_run, folders):
    export(own_run, own_run / "ctranslate2")
    earlier = texts(Translator.load(own_run))
    write_run(own_run, seed=2)
    again = Translator.load(own_run)
    assert folders[1] != own_run / "ctranslate2"
    assert texts(again) != earlier
    assert texts(again) == texts(Translator.load(own_run, engine="pytorch"))
    assert again.model_hash == read_artifact(own_run).model_hash


def test_nothing_is_left_of_an_export_that_was_made_for_the_moment(own_run, folders, monkeypatch):
    before = sorted(own_run.parent.rglob("*"))
    texts(Translator.load(own_run))
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
    for served in (own_run, folder):
        assert str(refusal([served])) == (
            f"the export in {str(folder)!r} is damaged: {name} is not what was written; "
            "export it again"
        )
    assert serve([own_run], engine="pytorch").engine.name == "pytorch"


def test_an_export_alone_is_not_for_pytorch(own_run):
    export(own_run, own_run / "ctranslate2")
    assert "name its run" in str(refusal([own_run / "ctranslate2"], engine="pytorch"))
    found = refusal([own_run / "ctranslate2"], ["decoding.search=sample"])
    assert "decoding.search" in str(found)
    assert "Name its run" in str(found)
    assert "name its run" in str(refusal([own_run, own_run / "ctranslate2"]))


def without_torch(code, *arguments):
    code = f"import sys; sys.modules['torch'] = None\n{code}\nassert sys.modules['torch'] is None"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True
    )


TRANSLATE = """
from dragoman import Translator
for each in Translator.load(sys.argv[1]).translate(sys.argv[2:]):
    print(each.text)
"""


def test_an_export_alone_translates_without_torch(own_run, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    export(own_run, elsewhere)
    expected = texts(Translator.load(own_run, engine="pytorch"))
    shutil.rmtree(own_run)
    done = without_torch(TRANSLATE, elsewhere, *LINES)
    assert done.stderr == ""
    assert done.stdout.split("\n")[:-1] == expected


def test_a_run_with_its_export_translates_without_torch(own_run):
    export(own_run, own_run / "ctranslate2")
    done = without_torch(TRANSLATE, own_run, *LINES)
    assert done.stdout.split("\n")[:-1] == texts(Translator.load(own_run))


@pytest.mark.parametrize(
    ("settings", "told"),
    [((), "there is no torch to make one"), (("decoding.search=sample",), "dragoman[train]")],
)
def test_without_torch_what_needs_it_is_told(own_run, settings, told):
    code = f"from dragoman import Translator; Translator.load(sys.argv[1], {settings!r})"
    assert told in without_torch(code, own_run).stderr


def test_without_ctranslate2_pytorch_serves(run, monkeypatch):
    find = engines.importlib.util.find_spec
    monkeypatch.setattr(
        engines.importlib.util,
        "find_spec",
        lambda name: None if name == "ctranslate2" else find(name),
    )
    assert serve([run]).engine.name == "pytorch"
    found = refusal([run], engine="ctranslate2")
    assert isinstance(found, MissingExtraError)
    assert "dragoman[infer]" in str(found)


# Ensembles


@pytest.mark.slow
def test_several_runs_are_averaged(tmp_path):
    runs = [write_run(tmp_path / f"run-{seed}", seed=seed) for seed in (1, 2)]
    served = serve(runs, ["decoding.search=greedy"])
    assert served.engine.name == "pytorch"
    assert served.model_hash == "+".join(read_artifact(each).model_hash for each in runs)
    models = [read_artifact(each).model() for each in runs]
    (source,) = served.tokenizers[0].encode(LINES[:1])
    (((found),),) = served.engine.translate([source], served.recipe.decoding)
    assert list(found.tokens) == average_greedily(models, source, len(found.tokens))
    alone = [texts(Translator.load(each, engine="pytorch")) for each in runs]
    assert texts(Translator(served)) not in alone


def average_greedily(models, source, count):
    """Written from the equation: without a cache, without a search."""
    source = torch.tensor([[*source, 3]])
    said = [2]
    for _ in range(count):
        each = [
            model(source, torch.ones_like(source, dtype=torch.bool), torch.tensor([said]))
            for model in models
        ]
        mean = sum(logits[0, -1].softmax(-1) for logits in each) / len(each)
        said.append(int(mean.argmax()))
    return said[1:]


def test_a_run_with_itself_is_itself(run):
    together, alone = Translator.load([run, run]), Translator.load(run, engine="pytorch")
    pairs = list(zip(together.translate(LINES), alone.translate(LINES), strict=True))
    # Those that were tried again are not compared: the penalty of the guard is no function of
    # probabilities, which are all that an ensemble has.
    same = [one.text == other.text for one, other in pairs if not other.flags]
    assert len(same) > 5
    assert all(same)


def test_runs_of_other_tokenizers_do_not_translate_together(run, tmp_path):
    other = write_run(tmp_path / "other", languages=("de", "fr"))
    assert "has other tokenizers" in str(refusal([run, other]))
    words = write_run(tmp_path / "words", kind="words")
    assert "has other tokenizers" in str(refusal([run, words]))


def test_ctranslate2_has_no_ensembles(run):
    assert "several need pytorch" in str(refusal([run, run], engine="ctranslate2"))


# Places


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("settings", [{}, {"extra_length": 0}, {"longest": 79, "extra_length": 8}])
def test_a_line_longer_than_the_places_is_split(tmp_path, engine, settings):
    run = write_run(tmp_path / "run", model=LEARNED, **settings)
    translator = Translator.load(run, engine=engine)
    long = [" ".join(lines(count, seed=count)) for count in range(1, 22, 2)]
    is_long = [len(each) >= MAXIMUM for each in translator.source.encode(long)]
    assert any(is_long)
    for with_alignment in (False, True):
        found = translator.translate([*long, "x" * 300], with_alignment=with_alignment)
        assert len(found) == len(long) + 1
        assert all("split" in each.flags for each in itertools.compress(found, is_long))


@given(st.integers(65, 300), st.integers(0, 300), st.integers(1, 300))
@example(128, 0, 128)
@example(80, 8, 79)
def test_all_that_is_placed_has_a_place(places, extra, longest):
    asked = recipe(extra_length=extra, longest=longest)
    found = within(asked.decoding, places)
    assert 1 <= found.longest <= longest
    assert found.extra_length <= extra
    for length in range(1, found.longest + 1):
        assert length + 1 <= places
        assert length_limit(length, found) <= places
    if longest < places and length_limit(longest, asked.decoding) <= places:
        assert found == asked.decoding


def test_a_model_with_hardly_any_places_is_refused(tmp_path):
    run = write_run(tmp_path / "run", model={"position": {"name": "learned", "maximum": 16}})
    for engine in ENGINES:
        assert "larger model.position.maximum" in str(refusal([run], engine=engine))


def test_the_ensemble_keeps_to_the_places_of_the_smallest(run, tmp_path):
    small = write_run(tmp_path / "small", model=LEARNED)
    served = serve([run, small])
    assert isinstance(served.engine, PyTorch)
    assert served.recipe.decoding.longest < MAXIMUM
