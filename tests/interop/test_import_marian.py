"""Imported Marian models: language tokens, reserved tokens, names of tied weights, and memory.

`test_huggingface.py` compares logits and translations with transformers.
"""

from __future__ import annotations

# Before transformers: its own import of SentencePiece warns, and warnings are errors here.
from dragoman.tokenizer.sentencepiece import SentencePiece

# isort: split

import functools
import json
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from dragoman.artifact import read_artifact
from dragoman.errors import DataError
from dragoman.inference.translator import Translator
from dragoman.tokenizer.interface import (
    RESERVED_TOKENS,
    SPAN_TOKENS,
    SPECIAL,
    UNKNOWN,
    annotated_term,
)
from dragoman.tokenizer.marian import Marian, reserve_tokens
from dragoman.workflow import preparation, training
from dragoman.workflow.documents import options_for
from dragoman.workflow.exporting import import_model
from support.marian_models import ENGLISH, GERMAN, our_model, unigram, write_opus

pytestmark = pytest.mark.slow

EMBEDDING = "source_embedding.weight"


@pytest.fixture(scope="module")
def opus(tmp_path_factory):
    """A model with one target language, and the run that was imported from it."""
    torch.manual_seed(20170612)
    folder = tmp_path_factory.mktemp("opus")
    write_opus(folder / "opus", languages=())
    import_model(folder / "opus", folder / "run")
    return folder


@pytest.fixture(scope="module")
def tokenizers(opus):
    """The tokenizers of the run."""
    return our_model(opus / "run")[1]


# Target languages.

MANY = ("fra", "es", "pt_BR", "zho_Hant")


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A model with several target languages, imported without choosing one."""
    torch.manual_seed(20170612)
    folder = tmp_path_factory.mktemp("many")
    write_opus(folder / "opus", languages=MANY, target="+".join(MANY))
    import_model(folder / "opus", folder / "run")
    return folder


def source_tokens(translator, *arguments, **options):
    return [one.source_tokens for one in translator.translate(*arguments, **options)]


@pytest.mark.parametrize(
    ("language", "token"),
    [
        *(("fra", ">>fra<<"), ("fr", ">>fra<<"), ("fr-CA", ">>fra<<"), ("spa", ">>es<<")),
        *(("pt-BR", ">>pt_BR<<"), ("pt", ">>pt_BR<<"), ("zh-TW", ">>zho_Hant<<")),
    ],
)
def test_a_language_selects_its_token(many, language, token):
    with Translator.load(many / "run") as translator:
        rows = source_tokens(translator, ENGLISH, language=language, with_alignment=True)
        assert {row[0] for row in rows} == {token}
        marked = [f"{token} {sentence}" for sentence in ENGLISH]
        assert translator.ids(ENGLISH[0], language) == translator.ids(marked[0])
        expected = [one.text for one in translator.translate(marked)]
        assert [one.text for one in translator.translate(ENGLISH, language=language)] == expected


def test_the_language_changes_the_translation(many):
    with Translator.load(many / "run") as translator:
        french, spanish = (
            [one.text for one in translator.translate(ENGLISH, language=code)]
            for code in ("fr", "es")
        )
    assert french != spanish


def test_every_part_of_a_long_line_gets_the_token(many):
    long = " ".join(f"{sentence}." for sentence in ENGLISH * 4)
    with Translator.load(many / "run", ["decoding.max_source_tokens=40"]) as translator:
        for arguments in ({"language": "fr"}, {}):
            text = long if arguments else f">>fra<< {long}"
            (row,) = source_tokens(translator, [text], with_alignment=True, **arguments)
            assert row.count(">>fra<<") > 3


def test_a_missing_language_is_an_error_that_lists_them(many):
    with Translator.load(many / "run") as translator:
        with pytest.raises(DataError, match=r"line 2 .*es, fra, pt_BR, zho_Hant.*--language"):
            translator.translate([">>es<< hello world", "hello world"])
        with pytest.raises(DataError, match=r"'de'; it has tokens for: es, fra"):
            translator.translate("hello world", language="de")
        with pytest.raises(DataError, match="'pt-PT'"):
            translator.translate("hello world", language="pt-PT")
        assert translator.translate(["", "  "])[1].text == "  "


def test_the_language_can_be_chosen_at_the_import(many, tmp_path):
    assert read_artifact(many / "run").recipe.languages.target == ""
    import_model(many / "opus", tmp_path / "run", target="fr")
    languages = read_artifact(tmp_path / "run").recipe.languages
    assert (languages.source, languages.target) == ("en", "fr")
    with Translator.load(tmp_path / "run") as translator:
        assert {row[0] for row in source_tokens(translator, ENGLISH)} == {">>fra<<"}
        assert source_tokens(translator, ["hello world"], language="es")[0][0] == ">>es<<"
        assert source_tokens(translator, [">>es<< hello world"])[0].count(">>fra<<") == 0
    with pytest.raises(DataError, match=r"does not translate into 'de'.*es, fra"):
        import_model(many / "opus", tmp_path / "german", target="de")


def test_a_single_language_needs_no_choice(tmp_path):
    write_opus(tmp_path / "opus", languages=("deu",), target="")
    import_model(tmp_path / "opus", tmp_path / "run")
    with Translator.load(tmp_path / "run") as translator:
        assert source_tokens(translator, ["hello world"])[0][0] == ">>deu<<"


# Reserved tokens.

TEXT = st.lists(st.sampled_from([*ENGLISH, *GERMAN, " ", "  ", "ﬁ", "!"]) | st.text(max_size=4))


@functools.cache
def without_and_with_tokens():
    model, pieces = unigram(ENGLISH)
    return [Marian(one, [*SPECIAL, *pieces]) for one in (model, reserve_tokens(model))]


@given(text=TEXT.map("".join))
def test_other_texts_are_split_as_before(text):
    old, new = without_and_with_tokens()
    for token in RESERVED_TOKENS:
        text = text.replace(token, "")
    assert new.encode([text]) == old.encode([text])
    assert new.decode(new.encode([text])) == old.decode(old.encode([text]))


def test_reserved_tokens_are_added_once():
    model, _ = unigram(ENGLISH)
    assert reserve_tokens(reserve_tokens(model)) == reserve_tokens(model) != model
    own = SentencePiece.train(ENGLISH, 320, [])
    assert own.has_span_tokens


@given(
    text=st.lists(st.sampled_from([*RESERVED_TOKENS, "the", " ", "cat", "(", "hat"])).map("".join)
)
def test_a_reserved_token_is_one_id_and_never_merged(tokenizers, text):
    source, target = tokenizers
    for tokenizer in (source, target):
        pieces = tokenizer.pieces(tokenizer.encode([text])[0])
        reserved = [piece for piece in pieces if set(piece) & set(RESERVED_TOKENS)]
        assert reserved == [character for character in text if character in RESERVED_TOKENS]
    decoded = source.decode(source.encode([text]))[0]
    assert [one for one in decoded if one in RESERVED_TOKENS] == reserved


def test_imported_tokenizers_have_the_tokens_but_the_model_has_not_learned_them(opus, tokenizers):
    assert all(tokenizer.has_span_tokens for tokenizer in tokenizers)
    assert UNKNOWN not in tokenizers[0].encode([annotated_term("cat", "hat")])[0]
    with Translator.load(opus / "run") as translator:
        options = options_for(translator)
    assert (options.has_span_tokens, options.has_term_tokens) == (False, False)


def test_new_rows_are_like_the_others_and_differ_from_each_other(opus):
    weights = read_artifact(opus / "run").weights()
    new, old = weights[EMBEDDING][-len(RESERVED_TOKENS) :], weights[EMBEDDING][len(SPECIAL) :]
    old = old[: -len(RESERVED_TOKENS)]
    mean = old.mean(dim=0)
    assert ((new - mean).abs() < old.std(dim=0)).all()
    assert len({tuple(row.tolist()) for row in new}) == len(RESERVED_TOKENS)
    bias = weights["output.bias"]
    assert (bias[-len(RESERVED_TOKENS) :] == bias[len(SPECIAL) : -len(RESERVED_TOKENS)].min()).all()


def test_fine_tuning_learns_the_tokens(opus, tmp_path):
    """Prepare with the imported tokenizer and train from the imported weights."""
    pairs = [f"the cat %s sat {number}\tdie Katze %s saß {number}" for number in range(120)]
    (tmp_path / "memory.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    sections = read_artifact(opus / "run").recipe.model_dump(mode="json")
    origin = str(opus / "run")
    recipe = {
        "languages": sections["languages"],
        "corpus": {
            "train": [{"files": ["memory.tsv"]}],
            "held_out": 10,
            "filters": [],
            "span_augmentation": 1.0,
        },
        "tokenizer": sections["tokenizer"] | {"init_from": origin},
        "model": sections["model"],
        "training": {
            "init_from": origin,
            "steps": 3,
            "tokens_per_update": 512,
            "warmup_steps": 1,
            "average_checkpoints": 1,
            "validation_pairs": 2,
        },
        "decoding": {"max_extra_tokens": 2},
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    preparation.prepare(tmp_path / "recipe.yaml")
    training.train(tmp_path / "recipe.yaml")
    before, after = (read_artifact(run).weights() for run in (opus / "run", tmp_path / "run"))
    _, (tokenizer, _) = our_model(tmp_path / "run")
    used = tokenizer.id_of(SPAN_TOKENS[0])
    assert not before[EMBEDDING][used].equal(after[EMBEDDING][used])
    with Translator.load(tmp_path / "run") as translator:
        assert options_for(translator).has_span_tokens


# Files as the hub has them.

TIED = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)


@pytest.mark.parametrize("names", [*((name,) for name in TIED), TIED[:3], TIED])
def test_tied_weights_may_be_stored_once_or_several_times(opus, names, tmp_path):
    folder = tmp_path / "opus"
    folder.mkdir()
    for file in (opus / "opus").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    weights = load_file(folder / "model.safetensors")
    shared = weights["model.shared.weight"]
    others = {name: weight for name, weight in weights.items() if name not in TIED}
    save_file(others | {name: shared.clone() for name in names}, folder / "model.safetensors")
    import_model(folder, tmp_path / "run")
    ours, expected = (read_artifact(run) for run in (tmp_path / "run", opus / "run"))
    assert ours.model_hash == expected.model_hash


def test_an_old_folder_without_generation_config(opus, tmp_path):
    """The first folders of the hub have the settings of the search in config.json."""
    folder = tmp_path / "opus"
    folder.mkdir()
    for file in (opus / "opus").iterdir():
        if file.name != "generation_config.json":
            (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    padding = config["pad_token_id"]
    config |= {"num_beams": 6, "bad_words_ids": [[padding]], "max_length": 512}
    del config["share_encoder_decoder_embeddings"]
    (folder / "config.json").write_text(json.dumps(config))
    import_model(folder, tmp_path / "run")
    artifact = read_artifact(tmp_path / "run")
    assert artifact.recipe.decoding.beam_size == 6
    assert artifact.model_hash == read_artifact(opus / "run").model_hash


# Memory.

MEASURE = """
import resource, sys
import dragoman.interop.huggingface_import
from dragoman import import_model
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = peak()
import_model(sys.argv[1], sys.argv[2])
print(peak() - before)
"""


def test_the_weights_are_in_memory_once(tmp_path):
    """The embeddings are stored three times here; the run has them once."""
    sizes = {"d_model": 256, "encoder_ffn_dim": 8192, "decoder_ffn_dim": 8192}
    write_opus(tmp_path / "opus", words=40_000, **sizes)
    weights = load_file(tmp_path / "opus" / "model.safetensors")
    shared = weights["model.shared.weight"]
    weights |= {name: shared.clone() for name in TIED}
    save_file(weights, tmp_path / "opus" / "model.safetensors")
    process = subprocess.run(
        [sys.executable, "-c", MEASURE, tmp_path / "opus", tmp_path / "run"],
        capture_output=True,
        text=True,
        check=True,
    )
    size = (tmp_path / "run" / "model.safetensors").stat().st_size / 2**20
    assert size > 120
    # Some megabytes are for the vocabulary.
    assert float(process.stdout) < 1.2 * size + 40
