"""What does every tokenizer promise, whatever it cuts text into?

Tokenizers are found by looking into their folder, so a new one is held to this without a word. One
that learns nothing, because it comes with a model of others, promises less: `test_marian.py`.
"""

import importlib
import inspect
import json
import os
import subprocess
import sys
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import part
from dragoman.errors import DataError, RecipeError
from dragoman.tokenizer import folder
from dragoman.tokenizer.interface import BEGIN, END, PADDING, SPECIAL, UNKNOWN, Tokenizer
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


def found_by_looking():
    for name in part.names("tokenizer"):
        module = importlib.import_module(f"dragoman.tokenizer.{name}")
        for member in vars(module).values():
            is_one = inspect.isclass(member) and issubclass(member, Tokenizer)
            if is_one and member.__module__ == module.__name__ and not inspect.isabstract(member):
                yield name, member


TAKEN = {"marian"}
EVERY = {name: cls for name, cls in found_by_looking() if name not in TAKEN}
TRAINED = {name: cls.train(TEXTS, SIZE, LANGUAGES) for name, cls in EVERY.items()}
every = pytest.mark.parametrize("name", EVERY)
every_learner = pytest.mark.parametrize("name", [name for name in EVERY if name != "bytes"])

# What comes back as it was; a tokenizer that is not named here promises nothing.
COMES_BACK = {
    "sentencepiece": ANY_TEXT,
    "bytes": ANY_TEXT,
    "characters": st.text(alphabet=sorted(set("".join(TEXTS)))),
    "words": st.sampled_from(TEXTS) | st.lists(st.sampled_from(TEXTS)).map(" ".join),
}


def test_the_recipe_knows_every_tokenizer():
    found = dict(found_by_looking())
    assert set(found) == set(folder.KINDS)
    assert all(folder.tokenizer_class(name) is cls for name, cls in found.items())


def test_no_two_write_the_same_file():
    found = dict(found_by_looking())
    assert len({cls.file_name for cls in found.values()}) == len(found)


@every
@given(text=ANY_TEXT)
@settings(max_examples=60)
def test_text_never_becomes_a_special_id(name, text):
    tokenizer = TRAINED[name]
    (ids,) = tokenizer.encode([text])
    assert all(isinstance(each, int) and each < tokenizer.size for each in ids)
    first = len(SPECIAL) + len(LANGUAGES)
    assert all(each >= first or each == UNKNOWN for each in ids)
    if COMES_BACK.get(name) is ANY_TEXT:
        assert UNKNOWN not in ids


@every
@given(data=st.data())
@settings(max_examples=60)
def test_what_was_promised_comes_back(name, data):
    text = data.draw(COMES_BACK[name])
    assert TRAINED[name].decode(TRAINED[name].encode([text])) == [text]


@every
def test_words_and_characters_it_has_not_seen_are_lost_only_by_those(name):
    text = "The quokka 🦘 sees a cat."
    (back,) = TRAINED[name].decode(TRAINED[name].encode([text]))
    lost = {"words": "The sees a cat.", "characters": "The oa  sees a cat."}
    assert back == lost.get(name, text)


@every
def test_a_batch_is_the_same_as_one_by_one(name):
    tokenizer, texts = TRAINED[name], [*TEXTS, *LOOKS_SPECIAL, "", " ", "a▁b"]
    ids = tokenizer.encode(texts)
    assert ids == [row for text in texts for row in tokenizer.encode([text])]
    assert tokenizer.decode(ids) == [back for row in ids for back in tokenizer.decode([row])]
    assert tokenizer.encode(tuple(texts)) == ids
    assert tokenizer.encode([]) == []
    assert tokenizer.decode([]) == []
    assert tokenizer.encode([""]) == [[]]
    assert tokenizer.decode([[]]) == [""]


@every
def test_special_ids_are_where_all_expect_them(name):
    tokenizer = TRAINED[name]
    assert tokenizer.pieces([PADDING, UNKNOWN, BEGIN, END]) == list(SPECIAL)
    assert [tokenizer.id_of(piece) for piece in SPECIAL] == [PADDING, UNKNOWN, BEGIN, END]
    assert [tokenizer.id_of(token(each)) for each in LANGUAGES] == [4, 5]
    assert tokenizer.id_of(token("xx")) == UNKNOWN
    assert tokenizer.id_of("no such piece") == UNKNOWN


@every
def test_special_ids_say_nothing(name):
    tokenizer = TRAINED[name]
    (ids,) = tokenizer.encode(["The cat"])
    assert tokenizer.decode([[4, BEGIN, *ids, UNKNOWN, END, PADDING, PADDING]]) == ["The cat"]
    assert tokenizer.decode([[PADDING, UNKNOWN, BEGIN, END, 4, 5]]) == [""]


@every
def test_every_piece_leads_back_to_its_id(name):
    tokenizer = TRAINED[name]
    pieces = tokenizer.pieces(range(tokenizer.size))
    assert len(set(pieces)) == tokenizer.size
    assert [tokenizer.id_of(piece) for piece in pieces] == list(range(tokenizer.size))


@every
def test_it_is_not_larger_than_asked(name):
    smaller = SIZE - 60
    assert TRAINED[name].size <= SIZE
    assert EVERY[name].train(TEXTS, smaller, LANGUAGES).size <= smaller


@every
def test_it_is_the_same_when_loaded(name, tmp_path):
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
        place = tmp_path / seed
        place.mkdir()
        subprocess.run(
            [sys.executable, "-c", code, place],
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
def test_a_language_that_is_named_twice_has_one_token(name):
    tokenizer = EVERY[name].train(TEXTS, SIZE, ["de", "de"])
    assert tokenizer.pieces([4]) == [token("de")]
    assert tokenizer.pieces([5]) != [token("de")]


@every
def test_a_vocabulary_that_is_too_small_is_a_mistake_of_the_recipe(name):
    with pytest.raises(RecipeError, match=r"tokenizer\.vocabulary_size"):
        EVERY[name].train(TEXTS, 6, LANGUAGES)


@every_learner
@pytest.mark.parametrize("texts", [[], [""]])
def test_there_must_be_text_to_learn_from(name, texts):
    with pytest.raises(DataError, match="no text"):
        EVERY[name].train(texts, SIZE, LANGUAGES)


@every_learner
def test_half_a_character_is_nothing_to_learn_from(name):
    with pytest.raises(DataError, match="half a character"):
        EVERY[name].train([*TEXTS, "half \ud83d"], SIZE, LANGUAGES)


@pytest.mark.parametrize("name", ["sentencepiece", "bytes"])
def test_half_a_character_is_refused(name):
    with pytest.raises(DataError, match=r"half a character.*U\+D83D"):
        TRAINED[name].encode(["whole 😀", "half \ud83d"])


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
def test_a_file_that_cannot_be_right_is_refused(name, content, tmp_path):
    (tmp_path / EVERY[name].file_name).write_bytes(content)
    with pytest.raises(DataError, match=EVERY[name].file_name):
        EVERY[name].load(tmp_path)


@pytest.mark.parametrize("name", ["words", "characters"])
def test_the_most_frequent_are_kept_and_ties_go_by_the_alphabet(name):
    tokenizer = EVERY[name].train(["b a c", "c d"], 8, ["de"])
    space = [" "] if name == "characters" else []
    assert tokenizer.pieces(range(5, tokenizer.size)) == [*space, "c", "a", "b"][:3]


def test_words_are_cut_at_spaces_and_round_punctuation():
    cut = TRAINED["words"].cut
    assert cut("Well, no. (3.5)") == ["Well", "￭,", "no", "￭.", "(", "￭3", "￭.", "￭5", "￭)"]
    assert cut("isn't  „so“") == ["isn", "￭'", "￭t", "„", "￭so", "￭“"]
    assert cut("नमस्ते e\u0301t\u0301e\u0301") == ["नमस्ते", "e\u0301t\u0301e\u0301"]
    assert cut("日本、東京。") == ["日本", "￭、", "￭東京", "￭。"]


@given(st.text())
def test_words_lose_only_the_shape_of_white_space(text):
    known = EVERY["words"].train(["always", text], 10_000, [])
    assert known.decode(known.encode([text])) == [" ".join(text.split())]


def test_the_files_can_be_read_by_people(tmp_path):
    for name in ("words", "characters", "bytes"):
        TRAINED[name].save(tmp_path)
        text = (tmp_path / EVERY[name].file_name).read_text(encoding="utf-8")
        assert '"languages"' in text
        assert "\\u" not in text
    assert '"grüne"' in (tmp_path / "words.json").read_text(encoding="utf-8")
