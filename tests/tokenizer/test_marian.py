"""Does a tokenizer that came with a Marian model keep the promises it can keep?

That it cuts as transformers' own is shown in `tests/exporting/test_huggingface.py`.
"""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError, RecipeError
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import BEGIN, END, PADDING, SPECIAL, UNKNOWN
from dragoman.tokenizer.marian import Marian
from dragoman.tokenizer.sentencepiece import library

TEXTS = ["the cat sat on the mat with a hat", "der Bär mag die grünen Äpfel", "hello world (>)"]


@pytest.fixture(scope="module")
def model():
    written = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 5),
        model_writer=written,
        model_type="unigram",
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return written.getvalue()


@pytest.fixture(scope="module")
def small(model):
    cutter = library.SentencePieceProcessor()
    cutter.LoadFromSerializedProto(model)
    pieces = [cutter.id_to_piece(each) for each in range(len(cutter))]
    known = [each for each in pieces if each not in (*SPECIAL, "(")]
    return Marian(model, [*SPECIAL, ">>deu<<", "only the other side has this", *known])


def test_what_is_listed_comes_back(small):
    known = [text for text in TEXTS if "(" not in text]
    assert small.decode(small.encode(known)) == known


@given(text=st.text() | st.lists(st.sampled_from([*SPECIAL, ">>", "<<", "the", " "])).map("".join))
def test_text_never_becomes_a_special_id(small, text):
    (ids,) = small.encode([text])
    assert all(each == UNKNOWN or each >= len(SPECIAL) + 1 for each in ids)


def test_what_is_not_listed_is_unknown_and_lost(small):
    (ids,) = small.encode(["( 😀 the"])
    assert ids.count(UNKNOWN) == 2
    assert small.decode([ids]) == ["the"]


def test_a_language_is_told_at_the_very_beginning(small):
    language = small.id_of(">>deu<<")
    assert language == len(SPECIAL)
    (plain,) = small.encode(["the cat"])
    assert small.encode([">>deu<< the cat", ">>deu<<the cat"]) == [[language, *plain]] * 2
    assert small.decode([[BEGIN, language, *plain, END, PADDING]]) == ["the cat"]
    # Text, as it is not a language, or not at the beginning, or not even closed.
    for text in (">>fra<< the", "the >>deu<<", " >>deu<< the", ">> the", ">>", "<<", ">>deu"):
        assert language not in small.encode([text])[0], text
    assert small.id_of(">>fra<<") == UNKNOWN


def test_special_ids_are_where_all_expect_them(small):
    assert small.pieces([PADDING, UNKNOWN, BEGIN, END]) == list(SPECIAL)
    assert [small.id_of(piece) for piece in SPECIAL] == [PADDING, UNKNOWN, BEGIN, END]
    assert small.decode([[PADDING, UNKNOWN, BEGIN, END, small.id_of(">>deu<<")], []]) == ["", ""]
    pieces = small.pieces(range(small.size))
    assert [small.id_of(piece) for piece in pieces] == list(range(small.size))


def test_threads_and_batches_change_nothing(small):
    texts = [*TEXTS * 20, "", " ", ">>deu<<", "😀"]
    one_by_one = [ids for text in texts for ids in small.encode([text])]
    assert small.encode(texts) == one_by_one
    small.threads = 3
    assert small.encode(tuple(texts)) == one_by_one
    small.threads = 1
    assert small.encode([]) == small.decode([]) == []


def test_it_is_the_same_when_loaded(small, tmp_path):
    small.save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [small.file_name]
    again = load_tokenizer(tmp_path)
    assert type(again) is Marian
    assert again.pieces(range(again.size)) == small.pieces(range(small.size))
    assert again.encode(TEXTS) == small.encode(TEXTS)
    before = (tmp_path / small.file_name).read_bytes()
    again.save(tmp_path)
    assert (tmp_path / small.file_name).read_bytes() == before
    assert "▁".encode() in before  # People can read it.


def test_it_learns_nothing_and_says_what_to_do():
    with pytest.raises(RecipeError, match=r"tokenizer\.kind[\s\S]*tokenizer\.start_from"):
        Marian.train(TEXTS, 400, ["en"])


def test_a_list_of_words_must_begin_with_ours_and_name_each_once(model):
    for pieces in ([], ["<unk>", *SPECIAL], [*SPECIAL, "a", "a"], [*SPECIAL, "<s>"]):
        with pytest.raises(DataError, match="do not begin with"):
            Marian(model, pieces)


def test_half_a_character_is_refused(small):
    with pytest.raises(DataError, match="half a character"):
        small.encode(["whole 😀", "half \ud83d"])


@pytest.mark.parametrize("content", [b"", b"\xff" * 9, b"[]", b'{"pieces": []}'])
def test_a_file_that_cannot_be_right_is_refused(content, tmp_path):
    with pytest.raises(DataError, match=r"marian\.json"):
        Marian.load(tmp_path)
    (tmp_path / Marian.file_name).write_bytes(content)
    with pytest.raises(DataError, match=r"marian\.json"):
        Marian.load(tmp_path)


def test_a_file_cut_short_or_with_another_model_is_refused(small, tmp_path):
    small.save(tmp_path)
    path = tmp_path / small.file_name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"marian\.json"):
        Marian.load(tmp_path)
    path.write_bytes(whole[: whole.index(b'"sentencepiece"')] + b'"sentencepiece": "AAAA"}')
    with pytest.raises(DataError, match=r"marian\.json.*not a SentencePiece model"):
        Marian.load(tmp_path)
