"""The tokenizer of an imported Marian model keeps the part of the contract that applies to it.

`tests/interop/test_huggingface.py` compares it with the tokenizer of transformers.
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
    model_file = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 5),
        model_writer=model_file,
        model_type="unigram",
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model_file.getvalue()


@pytest.fixture(scope="module")
def small(model):
    processor = library.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    pieces = [processor.id_to_piece(number) for number in range(len(processor))]
    known = [piece for piece in pieces if piece not in (*SPECIAL, "(")]
    return Marian(model, [*SPECIAL, ">>deu<<", "only the other side has this", *known])


def test_listed_pieces_are_restored(small):
    known = [text for text in TEXTS if "(" not in text]
    assert small.decode(small.encode(known)) == known


@given(text=st.text() | st.lists(st.sampled_from([*SPECIAL, ">>", "<<", "the", " "])).map("".join))
def test_text_never_becomes_a_special_id(small, text):
    (ids,) = small.encode([text])
    assert all(token_id == UNKNOWN or token_id >= len(SPECIAL) + 1 for token_id in ids)


def test_unlisted_pieces_are_unknown_and_lost(small):
    (ids,) = small.encode(["( 😀 the"])
    assert ids.count(UNKNOWN) == 2
    assert small.decode([ids]) == ["the"]


def test_a_language_token_counts_only_at_the_beginning(small):
    language = small.id_of(">>deu<<")
    assert language == len(SPECIAL)
    (plain,) = small.encode(["the cat"])
    assert small.encode([">>deu<< the cat", ">>deu<<the cat"]) == [[language, *plain]] * 2
    assert small.decode([[BEGIN, language, *plain, END, PADDING]]) == ["the cat"]
    # These are text: not a listed language, not at the beginning, or not closed.
    for text in (">>fra<< the", "the >>deu<<", " >>deu<< the", ">> the", ">>", "<<", ">>deu"):
        assert language not in small.encode([text])[0], text
    assert small.id_of(">>fra<<") == UNKNOWN


def test_special_ids_are_fixed(small):
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


def test_a_loaded_tokenizer_is_the_same(small, tmp_path):
    small.save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [small.file_name]
    loaded = load_tokenizer(tmp_path)
    assert type(loaded) is Marian
    assert loaded.pieces(range(loaded.size)) == small.pieces(range(small.size))
    assert loaded.encode(TEXTS) == small.encode(TEXTS)
    before = (tmp_path / small.file_name).read_bytes()
    loaded.save(tmp_path)
    assert (tmp_path / small.file_name).read_bytes() == before
    assert "▁".encode() in before  # The file is human-readable.


def test_training_is_refused_with_the_alternative():
    with pytest.raises(RecipeError, match=r"tokenizer\.kind[\s\S]*tokenizer\.init_from"):
        Marian.train(TEXTS, 400, ["en"])


def test_pieces_must_begin_with_the_special_ones_and_be_unique(model):
    for pieces in ([], ["<unk>", *SPECIAL], [*SPECIAL, "a", "a"], [*SPECIAL, "<s>"]):
        with pytest.raises(DataError, match="do not begin with"):
            Marian(model, pieces)


def test_encoding_half_a_character_is_refused(small):
    with pytest.raises(DataError, match="half a character"):
        small.encode(["whole 😀", "half \ud83d"])


@pytest.mark.parametrize("content", [b"", b"\xff" * 9, b"[]", b'{"pieces": []}'])
def test_an_invalid_file_is_refused(content, tmp_path):
    with pytest.raises(DataError, match=r"marian\.json"):
        Marian.load(tmp_path)
    (tmp_path / Marian.file_name).write_bytes(content)
    with pytest.raises(DataError, match=r"marian\.json"):
        Marian.load(tmp_path)


def test_a_truncated_file_or_one_with_another_model_is_refused(small, tmp_path):
    small.save(tmp_path)
    path = tmp_path / small.file_name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"marian\.json"):
        Marian.load(tmp_path)
    path.write_bytes(whole[: whole.index(b'"sentencepiece"')] + b'"sentencepiece": "AAAA"}')
    with pytest.raises(DataError, match=r"marian\.json.*not a SentencePiece model"):
        Marian.load(tmp_path)
