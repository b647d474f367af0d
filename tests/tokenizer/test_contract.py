"""Every tokenizer keeps the contract of the interface.

The tests find the tokenizers by listing their folder, so a new one is tested automatically. The
Marian tokenizer comes with an imported model and cannot be trained: see `test_marian.py`.
"""

import importlib
import inspect
import json
import os
import subprocess
import sys
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError, RecipeError
from dragoman.recipe import parts
from dragoman.tokenizer import folder
from dragoman.tokenizer.interface import (
    BEGIN,
    END,
    PADDING,
    RESERVED_TOKENS,
    SPECIAL,
    UNKNOWN,
    Tokenizer,
)
from dragoman.tokenizer.interface import language_token as token

LANGUAGES = ["en", "de"]
SIZE = 400
TEXTS = [
    f"{who} {does} {what}{end}"
    for who, does, what, end in product(
        ["The old dog", "A cat", "Die Straße", "Der Bär"],
        ["sees", "isn't", "mag", "(well) finds"],
        ["grüne Äpfel", "a naïve café", "漢字 and かな", "42 eggs, 3.5 apples"],
        [".", "!", " …"],
    )
]

LOOKS_SPECIAL = [
    *SPECIAL,
    token("de"),
    "<0x41>",
    "▁",
    "￭",
    "▅",
    "\t",
    "\n",
    "\0",
    "😀",
    "שלום",
    "é",
]
ANY_TEXT = st.text() | st.lists(
    st.sampled_from([*LOOKS_SPECIAL, " ", "a", "The"]) | st.text(max_size=3), max_size=8
).map("".join)


def discover():
    for name in parts.names("tokenizer"):
        module = importlib.import_module(f"dragoman.tokenizer.{name}")
        for member in vars(module).values():
            is_tokenizer = inspect.isclass(member) and issubclass(member, Tokenizer)
            if (
                is_tokenizer
                and member.__module__ == module.__name__
                and not inspect.isabstract(member)
            ):
                yield name, member


NOT_TRAINED = {"marian"}
EVERY = {name: cls for name, cls in discover() if name not in NOT_TRAINED}
TRAINED = {name: cls.train(TEXTS, SIZE, LANGUAGES) for name, cls in EVERY.items()}
every = pytest.mark.parametrize("name", EVERY)
every_learner = pytest.mark.parametrize("name", [name for name in EVERY if name != "bytes"])

# The texts that each tokenizer restores exactly.
RESTORED = {
    "sentencepiece": ANY_TEXT,
    "bytes": ANY_TEXT,
    "characters": st.text(alphabet=sorted(set("".join(TEXTS)))),
    "words": st.sampled_from(TEXTS) | st.lists(st.sampled_from(TEXTS)).map(" ".join),
}


def test_the_recipe_knows_every_tokenizer():
    tokenizers = dict(discover())
    assert set(tokenizers) == set(folder.KINDS)
    assert all(folder.tokenizer_class(name) is cls for name, cls in tokenizers.items())


def test_no_two_tokenizers_write_the_same_file():
    tokenizers = dict(discover())
    assert len({cls.file_name for cls in tokenizers.values()}) == len(tokenizers)


@every
@given(text=ANY_TEXT)
@settings(max_examples=60)
def test_text_never_becomes_a_special_id(name, text):
    tokenizer = TRAINED[name]
    (ids,) = tokenizer.encode([text])
    assert all(isinstance(token_id, int) and token_id < tokenizer.size for token_id in ids)
    first = len(SPECIAL) + len(LANGUAGES)
    assert all(token_id >= first or token_id == UNKNOWN for token_id in ids)
    if RESTORED.get(name) is ANY_TEXT:
        assert UNKNOWN not in ids


@every
@given(data=st.data())
@settings(max_examples=60)
def test_text_is_restored(name, data):
    text = data.draw(RESTORED[name])
    assert TRAINED[name].decode(TRAINED[name].encode([text])) == [text]


@every
def test_only_words_and_characters_lose_unseen_text(name):
    text = "The quokka 🦘 sees a cat."
    (restored,) = TRAINED[name].decode(TRAINED[name].encode([text]))
    lost = {"words": "The sees a cat.", "characters": "The oa  sees a cat."}
    assert restored == lost.get(name, text)


@every
def test_a_batch_gives_the_same_ids_as_single_texts(name):
    tokenizer, texts = TRAINED[name], [*TEXTS, *LOOKS_SPECIAL, "", " ", "a▁b"]
    ids = tokenizer.encode(texts)
    assert ids == [row for text in texts for row in tokenizer.encode([text])]
    assert tokenizer.decode(ids) == [text for row in ids for text in tokenizer.decode([row])]
    assert tokenizer.encode(tuple(texts)) == ids
    assert tokenizer.encode([]) == []
    assert tokenizer.decode([]) == []
    assert tokenizer.encode([""]) == [[]]
    assert tokenizer.decode([[]]) == [""]


@every
def test_special_ids_are_fixed(name):
    tokenizer = TRAINED[name]
    assert tokenizer.pieces([PADDING, UNKNOWN, BEGIN, END]) == list(SPECIAL)
    assert [tokenizer.id_of(piece) for piece in SPECIAL] == [PADDING, UNKNOWN, BEGIN, END]
    assert [tokenizer.id_of(token(language)) for language in LANGUAGES] == [4, 5]
    assert tokenizer.id_of(token("xx")) == UNKNOWN
    assert tokenizer.id_of("no such piece") == UNKNOWN


@every
def test_special_ids_are_skipped_in_decoding(name):
    tokenizer = TRAINED[name]
    (ids,) = tokenizer.encode(["The cat"])
    assert tokenizer.decode([[4, BEGIN, *ids, UNKNOWN, END, PADDING, PADDING]]) == ["The cat"]
    assert tokenizer.decode([[PADDING, UNKNOWN, BEGIN, END, 4, 5]]) == [""]


@every
def test_every_piece_maps_back_to_its_id(name):
    tokenizer = TRAINED[name]
    pieces = tokenizer.pieces(range(tokenizer.size))
    assert len(set(pieces)) == tokenizer.size
    assert [tokenizer.id_of(piece) for piece in pieces] == list(range(tokenizer.size))


@every
def test_the_vocabulary_is_not_larger_than_requested(name):
    smaller = SIZE - 60
    assert TRAINED[name].size <= SIZE
    assert EVERY[name].train(TEXTS, smaller, LANGUAGES).size <= smaller


@every
def test_a_loaded_tokenizer_is_the_same(name, tmp_path):
    trained = TRAINED[name]
    trained.save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [trained.file_name]
    loaded = EVERY[name].load(tmp_path)
    assert type(loaded) is EVERY[name]
    everything = range(trained.size)
    assert loaded.pieces(everything) == trained.pieces(everything)
    assert loaded.encode([*TEXTS, *LOOKS_SPECIAL]) == trained.encode([*TEXTS, *LOOKS_SPECIAL])
    before = (tmp_path / trained.file_name).read_bytes()
    loaded.save(tmp_path)
    assert (tmp_path / trained.file_name).read_bytes() == before
    assert type(folder.load_tokenizer(tmp_path)) is EVERY[name]


def test_the_same_text_gives_the_same_bytes_in_every_process(tmp_path):
    code = (
        "import json, sys\nfrom pathlib import Path\n"
        "from dragoman.tokenizer.folder import tokenizer_class\n"
        "texts = json.load(sys.stdin)\n"
        f"for kind in {list(EVERY)}:\n    cls = tokenizer_class(kind)\n"
        f"    cls.train(texts, {SIZE}, {LANGUAGES}).save(Path(sys.argv[1]))\n"
    )
    for seed in ("1", "2"):
        output = tmp_path / seed
        output.mkdir()
        subprocess.run(
            [sys.executable, "-c", code, output],
            input=json.dumps(TEXTS),
            text=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )
    for name, trained in TRAINED.items():
        trained.save(tmp_path)
        expected = (tmp_path / EVERY[name].file_name).read_bytes()
        for seed in ("1", "2"):
            assert (tmp_path / seed / EVERY[name].file_name).read_bytes() == expected


@every
def test_a_language_listed_twice_has_one_token(name):
    tokenizer = EVERY[name].train(TEXTS, SIZE, ["de", "de"])
    assert tokenizer.pieces([4]) == [token("de")]
    assert tokenizer.pieces([5]) != [token("de")]


@every
def test_a_vocabulary_size_that_is_too_small_is_a_recipe_error(name):
    with pytest.raises(RecipeError, match=r"tokenizer\.vocabulary_size"):
        EVERY[name].train(TEXTS, 6, LANGUAGES)


@every_learner
@pytest.mark.parametrize("texts", [[], [""]])
def test_training_without_text_is_refused(name, texts):
    with pytest.raises(DataError, match="no text"):
        EVERY[name].train(texts, SIZE, LANGUAGES)


@every_learner
def test_training_on_half_a_character_is_refused(name):
    with pytest.raises(DataError, match="half a character"):
        EVERY[name].train([*TEXTS, "half \ud83d"], SIZE, LANGUAGES)


@pytest.mark.parametrize("name", ["sentencepiece", "bytes"])
def test_encoding_half_a_character_is_refused(name):
    with pytest.raises(DataError, match=r"half a character.*U\+D83D"):
        TRAINED[name].encode(["whole 😀", "half \ud83d"])


def test_the_text_with_half_a_character_is_named():
    with pytest.raises(DataError, match=r"text 1 contains half.* at position 11"):
        TRAINED["sentencepiece"].encode(["a whole one 😀", "a good half\ud83d", "another"])


@every
def test_a_missing_file_is_named(name, tmp_path):
    with pytest.raises(DataError, match=EVERY[name].file_name):
        EVERY[name].load(tmp_path)


@every
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        b"\xff" * 100,
        b"[]",
        b'{"languages": ["en"]',
        b'{"languages": [1], "pieces": []}',
        b'{"languages": ["en", "en"]}',
        b'{"languages": ["en"], "pieces": ["a", "a"]}',
        b'{"languages": ["en"], "pieces": ["<2en>"]}',
        b'{"languages": ["en"], "pieces": [""]}',
        b'{"languages": ["en"], "pieces": [], "more": 1}',
    ],
)
def test_an_invalid_file_is_refused(name, content, tmp_path):
    (tmp_path / EVERY[name].file_name).write_bytes(content)
    with pytest.raises(DataError, match=EVERY[name].file_name):
        EVERY[name].load(tmp_path)


@pytest.mark.parametrize("name", ["words", "characters"])
def test_the_most_frequent_pieces_are_kept_and_ties_are_alphabetical(name):
    reserved = len(EVERY[name].reserved)
    tokenizer = EVERY[name].train(["b a c", "c d"], reserved + 8, ["de"])
    space = [" "] if name == "characters" else []
    assert tokenizer.pieces(range(reserved + 5, tokenizer.size)) == [*space, "c", "a", "b"][:3]


# Reserved tokens.

every_reserving = pytest.mark.parametrize("name", ["sentencepiece", "words", "characters"])
TEXT_WITH_TOKENS = st.lists(
    st.sampled_from([*RESERVED_TOKENS, "The", " ", "a", "cat", ".", "Bär", "é", "漢", "▁"]),
    max_size=12,
).map("".join)


@every_reserving
def test_reserved_tokens_are_in_every_vocabulary(name):
    assert TRAINED[name].has_span_tokens
    assert TRAINED[name].has_back_translation_token
    assert UNKNOWN not in {TRAINED[name].id_of(token) for token in RESERVED_TOKENS}
    assert len(set(RESERVED_TOKENS)) == 20


@every_reserving
@given(text=TEXT_WITH_TOKENS)
@settings(max_examples=60)
def test_a_reserved_token_is_one_id_and_never_merged(name, text):
    tokenizer = TRAINED[name]
    (ids,) = tokenizer.encode([text])
    pieces = tokenizer.pieces(ids)
    with_tokens = [piece for piece in pieces if set(piece) & set(RESERVED_TOKENS)]
    assert all(piece.removeprefix("￭") in RESERVED_TOKENS for piece in with_tokens)
    assert len(with_tokens) == sum(character in RESERVED_TOKENS for character in text)
    assert set(RESERVED_TOKENS) & set(text) <= set(tokenizer.decode([ids])[0])
    if name == "sentencepiece":
        assert tokenizer.decode([ids]) == [text]
        assert tokenizer.encode_with_library([text]) == [ids]


@every_reserving
def test_a_reserved_token_in_the_training_text_is_not_merged(name):
    tokenizer = EVERY[name].train([f"a{RESERVED_TOKENS[0]}b c{RESERVED_TOKENS[17]}"] * 50, SIZE, [])
    assert tokenizer.has_span_tokens
    pieces = tokenizer.pieces(range(tokenizer.size))
    reserved = [piece for piece in pieces if set(piece) & set(RESERVED_TOKENS)]
    assert {piece.removeprefix("￭") for piece in reserved} == set(RESERVED_TOKENS)


def test_bytes_have_no_reserved_tokens():
    assert not TRAINED["bytes"].has_span_tokens
    assert not TRAINED["bytes"].has_back_translation_token


@pytest.mark.parametrize("name", ["words", "characters"])
def test_a_vocabulary_without_reserved_tokens_still_loads(name, tmp_path):
    content = {"languages": ["de"], "pieces": ["a", "b"]}
    (tmp_path / EVERY[name].file_name).write_text(json.dumps(content))
    tokenizer = EVERY[name].load(tmp_path)
    assert tokenizer.size == 7
    assert not tokenizer.has_span_tokens
    assert not tokenizer.has_back_translation_token


def test_words_are_split_at_spaces_and_around_punctuation():
    split = TRAINED["words"].split
    assert split("Well, no. (3.5)") == ["Well", "￭,", "no", "￭.", "(", "￭3", "￭.", "￭5", "￭)"]
    assert split("isn't  „so“") == ["isn", "￭'", "￭t", "„", "￭so", "￭“"]
    assert split("नमस्ते e\u0301t\u0301e\u0301") == ["नमस्ते", "e\u0301t\u0301e\u0301"]
    assert split("日本、東京。") == ["日本", "￭、", "￭東京", "￭。"]


@given(st.text())
@example("0\u2028")
@example("\u20280")
def test_words_change_only_white_space(text):
    known = EVERY["words"].train(["always", text], 10_000, [])
    assert known.decode(known.encode([text])) == [" ".join(text.split())]


def test_the_files_are_human_readable(tmp_path):
    for name in ("words", "characters", "bytes"):
        TRAINED[name].save(tmp_path)
        text = (tmp_path / EVERY[name].file_name).read_text(encoding="utf-8")
        assert '"languages"' in text
        assert "\\u" not in text
    assert '"grüne"' in (tmp_path / "words.json").read_text(encoding="utf-8")
