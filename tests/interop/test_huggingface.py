"""Exported models give the same scores in transformers, and imported models in Dragoman.

Models are small, and every weight is random, so that a weight that is left out changes the result.
Nothing is downloaded.
"""

from __future__ import annotations

# Before transformers: its own import of SentencePiece warns, and warnings are errors here.
from dragoman.tokenizer.sentencepiece import SentencePiece

# isort: split

import json
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch.nn import functional as F  # noqa: N812
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianMTModel

from dragoman.artifact import begin_artifact, finish_artifact, read_artifact
from dragoman.decoding.beam import Beam
from dragoman.decoding.greedy import Greedy
from dragoman.errors import ArtifactError, DataError
from dragoman.interop.compatibility.huggingface import PARTS, obstacles
from dragoman.interop.compatibility.table import compatibility
from dragoman.interop.huggingface import export
from dragoman.interop.huggingface_import import FORBIDDEN_BIAS
from dragoman.model.transformer import Transformer
from dragoman.recipe.schema import Recipe
from dragoman.tokenizer.interface import BEGIN, END, PADDING, RESERVED_TOKENS, SPECIAL, UNKNOWN
from dragoman.training.journal import read_journal
from dragoman.training.loss import MicroBatch, Objective
from dragoman.workflow import training
from dragoman.workflow.exporting import import_model
from support import digits
from support.marian_models import ENGLISH, GERMAN, as_marian_ids, our_model, write_opus
from support.sets import first_quick
from support.small_models import EVERY_PART

# MarianTokenizer recommends a package that it does not use.
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

# Scores are of the order of one, and float32 has seven digits: sums in another order differ by
# 5e-6 here (measured). A wrong equation differs by 1e-3 and more.
TOLERANCE = {"atol": 1e-5, "rtol": 0.0}

SMALL = {
    "width": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "heads": 2,
    "feed_forward_width": 24,
}


@pytest.fixture(scope="module")
def shared():
    """One vocabulary for both sides."""
    tokenizer = SentencePiece.train(ENGLISH + GERMAN, 400, ["en", "de"])
    return tokenizer, tokenizer


@pytest.fixture(scope="module")
def separate():
    """Two vocabularies of different sizes."""
    return SentencePiece.train(ENGLISH, 320, ["de"]), SentencePiece.train(GERMAN, 340, [])


def write_run(folder, tokenizers, model, **sections):
    """Write a run with a random model, and return the model in evaluation mode."""
    recipe = Recipe.model_validate(
        {
            "tokenizer": {"shared": tokenizers[0] is tokenizers[1]},
            "model": SMALL | model,
            **sections,
        }
    )
    for side, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        (folder / "tokenizers" / side).mkdir(parents=True)
        tokenizer.save(folder / "tokenizers" / side)
    built = randomized(Transformer(recipe.model, *(one.size for one in tokenizers)))
    (folder / "run").mkdir()
    begin_artifact(folder / "run", recipe, folder / "tokenizers")
    finish_artifact(folder / "run", dict(built.named_parameters()))
    return built


def randomized(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_norm = name.endswith("norm.weight")
            parameter.copy_(torch.randn_like(parameter) * 0.3 + is_norm)
    return model.eval()


def loaded(folder):
    return AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True).eval()


def batch(sizes, lengths=(9, 5, 1)):
    """Padded sources, the mask of their real tokens, and targets."""
    is_real = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    source = torch.randint(len(SPECIAL), sizes[0], is_real.shape).masked_fill(~is_real, PADDING)
    return source, is_real, torch.randint(sizes[1], (len(lengths), 7))


def assert_same_scores(ours, theirs, sizes):
    source, is_real, target = batch(sizes)
    with torch.no_grad():
        scores = ours(source, is_real, target)
        expected = theirs(
            input_ids=source, attention_mask=is_real.long(), decoder_input_ids=target
        ).logits
    assert expected.std() > 0.3
    torch.testing.assert_close(scores, expected, **TOLERANCE)


# Exporting.

POSITIONS = [
    "sinusoidal",
    {"name": "sinusoidal", "layout": "cosine_first"},
    {"name": "sinusoidal", "layout": "halves"},
    {"name": "learned", "maximum": 40},
]
MODELS = [
    {"norm": norm, "position": position, "tied_embeddings": tied}
    for norm in ("post", "pre")
    for position in POSITIONS
    for tied in ("all", "output", "none")
]
ACTIVATIONS = ("relu", "gelu", "swish")
EXPORTED = [
    # Every activation and bias with some models; a long test has all combinations.
    {**model, "feed_forward": ACTIVATIONS[number % 3], "output_bias": bool(number % 2)}
    for number, model in enumerate(MODELS)
    if not obstacles(Recipe.model_validate({"model": model}))
]


def name_of(model):
    position = model["position"]
    name = position if isinstance(position, str) else " ".join(map(str, position.values()))
    return f"{model['norm']}-{name}-{model['tied_embeddings']}"


@pytest.mark.parametrize("model", first_quick(EXPORTED, 3), ids=name_of)
def test_an_exported_model_gives_the_same_scores(model, shared, tmp_path):
    ours = write_run(tmp_path, shared, model)
    export(tmp_path / "run", tmp_path / "exported")
    assert_same_scores(
        ours, loaded(tmp_path / "exported"), [tokenizer.size for tokenizer in shared]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [{}, {"norm": "pre"}, {"norm": "pre", "position": "learned"}], ids=str
)
def test_the_scores_stay_when_transformers_saves_the_model_again(model, shared, tmp_path):
    ours = write_run(tmp_path, shared, model)
    export(tmp_path / "run", tmp_path / "exported")
    loaded(tmp_path / "exported").save_pretrained(tmp_path / "again")
    assert_same_scores(ours, loaded(tmp_path / "again"), [tokenizer.size for tokenizer in shared])


def test_there_is_an_architecture_for_each_norm_and_position():
    exported = {(model["norm"], str(model["position"])) for model in EXPORTED}
    expected = {(norm, str(position)) for norm in ("post", "pre") for position in POSITIONS}
    assert exported == expected - {("post", str(POSITIONS[-1]))}


@pytest.mark.long
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("model", EXPORTED, ids=name_of)
def test_every_combination_gives_the_same_scores(model, activation, has_bias, shared, tmp_path):
    model = {**model, "feed_forward": activation, "output_bias": has_bias}
    ours = write_run(tmp_path, shared, model)
    export(tmp_path / "run", tmp_path / "exported")
    assert_same_scores(
        ours, loaded(tmp_path / "exported"), [tokenizer.size for tokenizer in shared]
    )


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_an_odd_width_has_one_more_sine(layout, shared, tmp_path):
    position = {"name": "sinusoidal", "layout": layout}
    ours = write_run(tmp_path, shared, {"width": 15, "heads": 3, "position": position})
    export(tmp_path / "run", tmp_path / "exported")
    assert_same_scores(
        ours, loaded(tmp_path / "exported"), [tokenizer.size for tokenizer in shared]
    )


@pytest.mark.parametrize("tied", ["output", "none"])
def test_two_vocabularies_are_exported(tied, separate, tmp_path):
    ours = write_run(tmp_path, separate, {"tied_embeddings": tied})
    export(tmp_path / "run", tmp_path / "exported")
    assert_same_scores(
        ours, loaded(tmp_path / "exported"), [tokenizer.size for tokenizer in separate]
    )
    theirs = AutoTokenizer.from_pretrained(tmp_path / "exported", local_files_only=True)
    assert [ids[:-1] for ids in theirs(ENGLISH).input_ids] == separate[0].encode(ENGLISH)
    assert [ids[:-1] for ids in theirs(text_target=GERMAN).input_ids] == separate[1].encode(GERMAN)
    written = [[BEGIN, *ids, END, PADDING] for ids in separate[1].encode(GERMAN)]
    assert theirs.batch_decode(written, skip_special_tokens=True) == GERMAN


def train(model, score, sentences, begin, end):
    """Train a model on targets of all lengths, not too well; an untrained one repeats one token."""
    source, is_real = sentences
    expected = torch.randint(len(SPECIAL), 60, (len(source), len(source) + 2))
    for row in range(len(source)):
        expected[row, row + 1 :] = end
    target = torch.cat([torch.full((len(source), 1), begin), expected[:, :-1]], dim=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(400):
        loss = F.cross_entropy(score(source, is_real, target).flatten(0, 1), expected.flatten())
        if loss < 0.6:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.6
    model.requires_grad_(requires_grad=False)


def random_sentences(size):
    source, is_real, _ = batch((size, size), (9, 8, 7, 6, 5, 4, 3, 2))
    return source, is_real


TRAINED = {"output_bias": True, "norm": "pre", "dropout": 0.0}


@pytest.fixture(scope="module")
def trained(shared):
    torch.manual_seed(20170612)
    settings = Recipe.model_validate({"model": SMALL | TRAINED}).model
    model = randomized(Transformer(settings, *(tokenizer.size for tokenizer in shared)))
    sentences = random_sentences(shared[0].size)
    train(model, model, sentences, BEGIN, END)
    return model, sentences


GREEDY = {"search": "greedy", "max_extra_tokens": 40}
BEAM = {"search": "beam", "beam_size": 4, "max_extra_tokens": 40}


@pytest.mark.slow
@pytest.mark.parametrize(
    "decoding",
    [
        GREEDY,
        GREEDY | {"no_repeat_ngram_size": 2, "min_length": 4},
        GREEDY | {"repetition_penalty": 1.3},
        BEAM,
        BEAM | {"length_penalty": 0.0},
        BEAM | {"length_penalty": 0.6, "no_repeat_ngram_size": 2, "min_length": 4},
    ],
    ids=str,
)
def test_generate_finds_what_our_search_finds(decoding, trained, shared, tmp_path):
    ours, (source, is_real) = trained
    sections = {"decoding": decoding, "corpus": {"max_tokens": 30}}
    write_run(tmp_path, shared, TRAINED, **sections)
    finish_artifact(tmp_path / "run", dict(ours.named_parameters()))
    export(tmp_path / "run", tmp_path / "exported")
    theirs = loaded(tmp_path / "exported")
    settings = read_artifact(tmp_path / "run").recipe.decoding
    search = Beam(settings) if settings.search == "beam" else Greedy(settings)
    best = [hypotheses[0] for hypotheses in search.run(ours, source, is_real)]
    expected = theirs.generate(source, attention_mask=is_real.long()).tolist()
    assert_same_tokens(best, expected, BEGIN, END)


def assert_same_tokens(hypotheses, expected, begin, end):
    assert [row[0] for row in expected] == [begin] * len(hypotheses)
    wholes = [[*row[1:], end] for row in expected]
    assert [list(one.tokens) for one in hypotheses] == [row[: row.index(end)] for row in wholes]
    # The comparison is not trivial: most translations end, and they differ from each other.
    assert sum(one.is_finished for one in hypotheses) >= len(hypotheses) / 2
    assert len({one.tokens for one in hypotheses}) >= len(hypotheses) / 2


def test_sampling_settings_are_exported(shared, tmp_path):
    decoding = {"search": "sample", "temperature": 0.7, "top_k": 9, "top_p": 0.8}
    write_run(tmp_path, shared, {}, decoding=decoding)
    export(tmp_path / "run", tmp_path / "exported")
    config = loaded(tmp_path / "exported").generation_config
    assert (config.do_sample, config.temperature, config.top_k, config.top_p) == (True, 0.7, 9, 0.8)


def test_the_longest_training_sentence_has_positions(shared, tmp_path):
    write_run(tmp_path, shared, {}, corpus={"max_tokens": 2000}, decoding={"max_extra_tokens": 7})
    export(tmp_path / "run", tmp_path / "exported")
    theirs = json.loads((tmp_path / "exported" / "config.json").read_text())
    limit = json.loads((tmp_path / "exported" / "generation_config.json").read_text())["max_length"]
    assert 2007 < limit <= theirs["max_position_embeddings"]


LOOKS_SPECIAL = [
    *SPECIAL,
    *RESERVED_TOKENS,
    "<2de>",
    "<0x41>",
    ">>de<<",
    "<<",
    "😀",
    "👩🏽‍🚀",
    "漢字",
    "\t",
    "\n",
    "\0",
]
ANY_TEXT = st.text() | st.lists(
    st.sampled_from([*LOOKS_SPECIAL, *ENGLISH, *GERMAN, " "]) | st.text(max_size=3), max_size=6
).map("".join)


@pytest.mark.slow
def test_the_exported_tokenizer_is_the_same(shared, tmp_path):
    write_run(tmp_path, shared, {"norm": "pre"})
    export(tmp_path / "run", tmp_path / "exported")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "exported", local_files_only=True)
    ours, _ = shared

    @given(ANY_TEXT.filter(lambda text: "▁" not in text and not text.startswith(">>")))
    @settings(max_examples=300)
    def check(text):
        (ids,) = ours.encode([text])
        assert theirs(text).input_ids == [*ids, END]
        assert theirs(text_target=text).input_ids == [*ids, END]
        written = [BEGIN, *ids, END, PADDING]
        assert theirs.decode(written, skip_special_tokens=True) == text.strip()

    check()
    padded = theirs(["hello world", "no"], padding=True, return_tensors="pt")
    assert (padded.input_ids == PADDING).equal(padded.attention_mask == 0)
    assert theirs.model_max_length == 1024


UNKNOWN_PARTS = [{"model": {kind: name}} for kind, name in EVERY_PART if name not in PARTS[kind]]
REFUSED = [
    *((next(iter(sections["model"])), sections) for sections in UNKNOWN_PARTS),
    ("similarity", {"model": {"similarity": "my_parts.gaussian"}}),
    ("position_entry", {"model": {"position_entry": "concatenated"}}),
    ("position_entry", {"model": {"position_entry": "projected"}}),
    ("position_depth", {"model": {"position_depth": "every_layer"}}),
    ("position.base", {"model": {"position": {"name": "sinusoidal", "base": "500"}}}),
    ("position.base", {"model": {"position": {"name": "sinusoidal", "base": "many"}}}),
    (
        "position.layout",
        {
            "model": {
                "position": {"name": "sinusoidal", "layout": "cosine_first"},
                "width": 15,
                "heads": 3,
            }
        },
    ),
    ("position", {"model": {"position": "learned"}}),
    ("feed_forward", {"model": {"feed_forward": "swiglu"}}),
    ("feed_forward", {"model": {"feed_forward": "none"}}),
    ("cross_attention", {"model": {"cross_attention": "same_layer"}}),
    ("tied_embeddings", {"model": {"norm": "pre", "tied_embeddings": "output"}}),
    ("tied_embeddings", {"model": {"norm": "pre", "tied_embeddings": "none"}}),
    *(("kind", {"tokenizer": {"kind": kind}}) for kind in ("words", "characters", "bytes")),
    ("length_normalization", {"decoding": {"length_normalization": "gnmt"}}),
    ("coverage_penalty", {"decoding": {"coverage_penalty": 0.2}}),
    ("patience", {"decoding": {"patience": 2}}),
    ("repetition_penalty", {"decoding": {"repetition_penalty": 1.2}}),
]


@pytest.mark.parametrize(("setting", "sections"), REFUSED, ids=str)
def test_settings_that_cannot_be_exported_are_named(setting, sections, tmp_path):
    (section,) = sections
    recipe = Recipe.model_validate(sections)
    assert [mistake.path for mistake in obstacles(recipe)] == [f"{section}.{setting}"]
    # The recipe is checked before the weights.
    begin_artifact(tmp_path / "run", recipe, tmp_path / "no tokenizer")
    finish_artifact(tmp_path / "run", {})
    with pytest.raises(ArtifactError, match=f"{section}.{setting}"):
        export(tmp_path / "run", tmp_path / "exported", trust_parts=True)
    assert not (tmp_path / "exported").exists()


@pytest.mark.parametrize(
    "decoding",
    [
        {
            "search": "greedy",
            "length_normalization": "gnmt",
            "coverage_penalty": 0.2,
            "patience": 2,
            "repetition_penalty": 1.2,
        },
        {"length_penalty": 0, "length_normalization": "gnmt", "patience": 2},
    ],
)
def test_settings_without_effect_are_no_obstacle(decoding):
    assert obstacles(Recipe.model_validate({"decoding": decoding})) == []


def test_all_obstacles_are_listed_at_once():
    recipe = {
        "model": {"attention_kind": "hard", "head_kind": "my.own"},
        "tokenizer": {"kind": "bytes"},
    }
    paths = [mistake.path for mistake in obstacles(Recipe.model_validate(recipe))]
    assert paths == ["model.head_kind", "model.attention_kind", "tokenizer.kind"]


def test_an_existing_folder_is_not_replaced(shared, tmp_path):
    write_run(tmp_path, shared, {})
    (tmp_path / "exported").mkdir()
    with pytest.raises(DataError, match="exists already"):
        export(tmp_path / "run", tmp_path / "exported", force=True)


def test_an_earlier_export_is_replaced_only_with_force(shared, tmp_path):
    write_run(tmp_path, shared, {})
    export(tmp_path / "run", tmp_path / "exported")
    (tmp_path / "exported" / "old").touch()
    with pytest.raises(DataError, match=r"exists already.*--force"):
        export(tmp_path / "run", tmp_path / "exported")
    export(tmp_path / "run", tmp_path / "exported", force=True)
    assert not (tmp_path / "exported" / "old").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"run", "tokenizers", "exported"}


def test_a_killed_replacement_does_not_prevent_the_next(shared, tmp_path):
    write_run(tmp_path, shared, {})
    export(tmp_path / "run", tmp_path / "exported")
    shutil.copytree(tmp_path / "exported", tmp_path / ".exported.old")
    export(tmp_path / "run", tmp_path / "exported", force=True)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "tokenizers", "exported"}


def test_norwegian_is_no_truth_value_in_the_model_card(shared, tmp_path):
    write_run(tmp_path, shared, {}, languages={"source": "no", "target": "de"})
    export(tmp_path / "run", tmp_path / "exported")
    card = (tmp_path / "exported" / "README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(card.split("---")[1])["language"] == ["no", "de"]


def test_an_export_has_a_model_card(shared, tmp_path):
    write_run(tmp_path, shared, {}, languages={"source": "en", "target": "de"})
    export(tmp_path / "run", tmp_path / "exported")
    card = (tmp_path / "exported" / "README.md").read_text(encoding="utf-8")
    assert "language: [en, de]" in card
    assert "library_name: transformers" in card
    assert "Quality: not measured" in card


# Importing.


class Imported(NamedTuple):
    folder: Path
    theirs: MarianMTModel
    vocabulary: dict[str, int]
    sentences: tuple[torch.Tensor, torch.Tensor]


@pytest.fixture(scope="module")
def opus(tmp_path_factory):
    """A trained Marian model, and the run that was imported from it."""
    torch.manual_seed(20170612)
    folder = tmp_path_factory.mktemp("opus")
    theirs, (vocabulary,) = write_opus(folder / "theirs")
    sentences = random_sentences(len(vocabulary) - 1)

    def score(source, is_real, target):
        return theirs(
            input_ids=source, attention_mask=is_real.long(), decoder_input_ids=target
        ).logits

    train(theirs, score, sentences, vocabulary["<pad>"], vocabulary["</s>"])
    theirs.save_pretrained(folder / "theirs")
    import_model(folder / "theirs", folder / "ours")
    return Imported(folder, theirs, vocabulary, sentences)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"is_separate": True},
        {"is_separate": True, "tie_word_embeddings": False, "activation_function": "relu"},
        {"tie_word_embeddings": False, "activation_function": "gelu"},
    ],
    ids=str,
)
def test_an_imported_model_gives_the_same_scores(config, tmp_path):
    theirs, vocabularies = write_opus(tmp_path / "theirs", **config)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    ours, (first, second) = our_model(tmp_path / "ours")
    new = len(RESERVED_TOKENS)
    source, is_real, target = batch((first.size - new, second.size - new))
    target[:, 0] = BEGIN
    with torch.no_grad():
        scores = ours(source, is_real, target)
        expected = theirs(
            input_ids=as_marian_ids(source, first, vocabularies[0]),
            attention_mask=is_real.long(),
            decoder_input_ids=as_marian_ids(target, second, vocabularies[-1]),
        ).logits
    produced = [number for number in range(second.size - new) if number not in (PADDING, BEGIN)]
    rows = as_marian_ids(torch.tensor(produced), second, vocabularies[-1])
    assert sorted(rows.tolist()) == list(range(len(vocabularies[-1]) - 1))
    torch.testing.assert_close(scores[..., produced], expected[..., rows], **TOLERANCE)
    # Padding and begin have no probability, and no search finds a new token.
    assert scores[..., [PADDING, BEGIN]].max() < FORBIDDEN_BIAS / 2
    assert (scores[..., -new:].amax(-1) < scores[..., produced].topk(8).values[..., -1]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("beam", "penalty"), [(1, 1.0), (4, 1.0), (4, 0.5), (4, 0.0)])
def test_an_imported_model_gives_the_same_translations(beam, penalty, opus):
    ours, (tokenizer, _) = our_model(opus.folder / "ours")
    decoding = read_artifact(opus.folder / "ours").recipe.decoding
    assert (decoding.search, decoding.beam_size) == ("beam", 4)
    rows = as_marian_ids(torch.arange(tokenizer.size), tokenizer, opus.vocabulary).tolist()
    source, is_real = opus.sentences
    our_ids = torch.tensor([[rows.index(number) for number in row] for row in source.tolist()])
    search = Beam(decoding.model_copy(update={"beam_size": beam, "length_penalty": penalty}))
    best = [hypotheses[0] for hypotheses in search.run(ours, our_ids, is_real)]
    only_beam = {"length_penalty": penalty, "early_stopping": True} if beam > 1 else {}
    expected = opus.theirs.generate(
        source, attention_mask=is_real.long(), num_beams=beam, **only_beam
    )
    expected_ids = [[rows.index(number) for number in row] for row in expected.tolist()]
    assert_same_tokens(best, expected_ids, PADDING, END)


@pytest.mark.slow
def test_the_imported_tokenizer_is_the_same(opus):
    theirs = AutoTokenizer.from_pretrained(
        opus.folder / "theirs", local_files_only=True, split_special_tokens=True
    )
    _, (source, target) = our_model(opus.folder / "ours")
    vocabulary = theirs.get_vocab()

    def is_other(text):
        is_quoted = text.startswith(">>") and not text.startswith(">>deu<<")
        return is_quoted or not set(RESERVED_TOKENS).isdisjoint(text)

    @given((ANY_TEXT | ANY_TEXT.map(">>deu<<{}".format)).filter(lambda text: not is_other(text)))
    @settings(max_examples=300)
    def check(text):
        for ours, argument in ((source, {"text": text}), (target, {"text_target": text})):
            (ids,) = ours.encode([text])
            marian_ids = as_marian_ids(torch.tensor([*ids, END]), ours, vocabulary).tolist()
            assert theirs(**argument).input_ids == marian_ids
            decoded = theirs.decode(marian_ids, skip_special_tokens=True)
            back = decoded.removeprefix(">>deu<<").strip()
            assert ours.decode([[BEGIN, *ids, END]]) == [back]

    check()
    assert source.id_of(">>deu<<") == target.id_of(">>deu<<") > UNKNOWN
    assert source.pieces(source.encode([">>deu<< a cat"])[0])[0] == ">>deu<<"
    assert source.encode(["a cat!"]) == [[*source.encode(["a cat"])[0], UNKNOWN]]
    assert UNKNOWN not in source.encode(["a cat"])[0]


@pytest.mark.slow
def test_the_recipe_of_an_imported_run_is_complete(opus):
    recipe = read_artifact(opus.folder / "ours").recipe
    assert (recipe.languages.source, recipe.languages.target) == ("en", "de")
    assert (recipe.tokenizer.kind, recipe.tokenizer.shared) == ("marian", True)
    assert recipe.model.tied_embeddings == "all"
    assert compatibility(recipe) == {"ctranslate2": [], "huggingface": []}


@pytest.fixture
def _no_drawing(monkeypatch):
    monkeypatch.setattr("dragoman.training.finish.draw_curve", lambda *_: None)


@pytest.mark.slow
@pytest.mark.usefixtures("_no_drawing")
def test_an_imported_model_is_fine_tuned(opus, tmp_path):
    before = read_artifact(opus.folder / "ours")
    recipe = digits.write(tmp_path)
    tokenizer = tmp_path / "prepared" / "tokenizer"
    shutil.rmtree(tokenizer)
    # The ids of digits are ids of other tokens here, which can be trained as well.
    shutil.copytree(before.tokenizer, tokenizer)
    sections = before.recipe.model_dump(mode="json")
    recipe = digits.write_recipe(
        tmp_path,
        tokenizer=sections["tokenizer"],
        model=sections["model"],
        training={"init_from": str(opus.folder / "ours"), "average_checkpoints": 1},
    )
    training.train(recipe, ["training.learning_rate=0", "training.folder=same"])
    first = load_file(tmp_path / "same" / "model.safetensors")
    assert all(first[name].equal(weight) for name, weight in before.weights().items())
    training.train(recipe)
    after, _ = our_model(tmp_path / "run")
    journal = read_journal(tmp_path / "run" / "journal.jsonl")
    losses = [entry["loss"] for entry in journal if entry["kind"] == "progress"]
    assert losses[-1] < losses[0]
    # Training does not raise the bias of forbidden tokens.
    assert after.output.bias[[PADDING, BEGIN]].max() < FORBIDDEN_BIAS / 2


def test_the_gradient_of_the_output_bias_is_exact(shared):
    settings = Recipe.model_validate({"model": SMALL | {"output_bias": True, "dropout": 0}}).model
    model = randomized(Transformer(settings, 30, 30))
    source, is_real, target = batch((30, 30), (7, 7, 7))
    expected = torch.randint(30, target.shape)
    micro_batch = MicroBatch(source, is_real, target, expected, is_real)
    gradients = []
    for r_drop in (0.0, 0.5):
        model.zero_grad()
        objective = Objective(model.train(), 0.1, r_drop)
        loss = objective(micro_batch)
        loss.backward()
        gradients.append((loss, model.output.bias.grad))
    logits = model(source, is_real, target).flatten(0, 1)
    plain = F.cross_entropy(logits, expected.flatten(), reduction="sum", label_smoothing=0.1)
    (expected_gradient,) = torch.autograd.grad(plain, model.output.bias)
    for loss, gradient in gradients:
        # Sums of a few hundred float32 numbers in another order.
        torch.testing.assert_close(loss, plain, rtol=2e-5, atol=2e-5)
        torch.testing.assert_close(gradient, expected_gradient, rtol=2e-5, atol=2e-5)


# Both directions.


def test_an_exported_model_is_the_same_when_imported_again(shared, tmp_path):
    ours = write_run(tmp_path, shared, {"position": "sinusoidal"})
    export(tmp_path / "run", tmp_path / "exported")
    import_model(tmp_path / "exported", tmp_path / "back")
    back, (tokenizer, _) = our_model(tmp_path / "back")
    size = tokenizer.size
    assert tokenizer.pieces(range(size)) == shared[0].pieces(range(size))
    assert tokenizer.encode(ENGLISH + GERMAN) == shared[0].encode(ENGLISH + GERMAN)
    assert not read_artifact(tmp_path / "back").recipe.model.output_bias
    source, is_real, target = batch((size, size))
    torch.testing.assert_close(
        back(source, is_real, target), ours(source, is_real, target), **TOLERANCE
    )


@pytest.mark.slow
def test_an_imported_model_is_the_same_when_exported_again(opus, tmp_path):
    export(opus.folder / "ours", tmp_path / "exported")
    ours, (source, target) = our_model(opus.folder / "ours")
    theirs = loaded(tmp_path / "exported")
    ids, is_real, written = batch((source.size, target.size))
    scores = theirs(ids, attention_mask=is_real.long(), decoder_input_ids=written).logits
    torch.testing.assert_close(scores, ours(ids, is_real, written), **TOLERANCE)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "exported", local_files_only=True)
    text = ">>deu<< hello world"
    assert tokenizer(text).input_ids[:-1] == source.encode([text])[0]
    assert tokenizer(text_target=GERMAN[0]).input_ids[:-1] == target.encode(GERMAN[:1])[0]


# Models that cannot be imported.


@pytest.fixture
def copied(opus, tmp_path):
    """A Marian folder that a test may damage."""
    return Path(shutil.copytree(opus.folder / "theirs", tmp_path / "theirs"))


def change(path, **values):
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | values), encoding="utf-8")


def refusal(folder):
    with pytest.raises(ArtifactError) as caught:
        import_model(folder, folder.parent / "ours")
    assert not (folder.parent / "ours").exists()
    return str(caught.value)


@pytest.mark.slow
def test_missing_files_are_named_all_at_once(copied):
    for name in ("source.spm", "vocab.json", "model.safetensors"):
        (copied / name).unlink()
    message = refusal(copied)
    assert "lacks source.spm, vocab.json, model.safetensors" in message
    assert "there is no" in refusal(copied / "nowhere")


@pytest.mark.slow
def test_a_pickle_is_not_opened_but_can_be_converted(copied, opus):
    copied = copied.rename(copied.with_name("$(touch x) 'quoted'"))
    (copied / "model.safetensors").unlink()
    torch.save(opus.theirs.state_dict(), copied / "pytorch_model.bin")
    message = refusal(copied)
    assert "lacks model.safetensors" in message
    *_, code = shlex.split(message.partition("type: ")[2])
    exec(code)  # The suggested command works.
    import_model(copied, copied.parent / "ours")


@pytest.mark.slow
def test_another_kind_of_model_is_refused_with_all_reasons(copied):
    values = {"model_type": "bart", "scale_embedding": False, "activation_function": "gelu_new"}
    change(copied / "config.json", **values)
    message = refusal(copied)
    assert all(name in message for name in values)
    assert "found 'bart'; expected one of: marian" in message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "values", "what"),
    [
        ("config.json", {"decoder_ffn_dim": 23}, "encoder_ffn_dim and decoder_ffn_dim differ"),
        ("config.json", {"encoder_layers": 3}, r"layers.2.*is missing"),
        ("config.json", {"d_model": 18}, r"\[16, 16\], expected \[18, 18\]"),
        ("config.json", {"eos_token_id": None}, "eos_token_id"),
        ("generation_config.json", {"bad_words_ids": [[3, 4]]}, "bad_words_ids"),
        ("vocab.json", {"one more": 3}, "tokens, expected"),
        ("vocab.json", {"one more": "x"}, "vocab.json cannot be read"),
    ],
)
def test_files_that_contradict_each_other_are_refused(file, values, what, copied):
    if values.get("eos_token_id", 0) is None:
        change(copied / "generation_config.json", **values)
    change(copied / file, **values)
    with pytest.raises(ArtifactError, match=what):
        import_model(copied, copied.parent / "ours")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "model.safetensors"])
def test_a_damaged_file_is_named(name, copied):
    (copied / name).write_bytes((copied / name).read_bytes()[:50])
    assert name in refusal(copied)


@pytest.mark.slow
def test_a_tied_weight_may_have_any_of_its_names(copied):
    weights = load_file(copied / "model.safetensors")
    weights["lm_head.weight"] = weights.pop("model.shared.weight")
    save_file(weights, copied / "model.safetensors")
    import_model(copied, copied.parent / "ours")


@pytest.mark.slow
def test_half_precision_becomes_float32(copied):
    weights = load_file(copied / "model.safetensors")
    save_file(
        {name: weight.half() for name, weight in weights.items()}, copied / "model.safetensors"
    )
    import_model(copied, copied.parent / "ours")
    imported = read_artifact(copied.parent / "ours").weights()
    assert {weight.dtype for weight in imported.values()} == {torch.float32}
