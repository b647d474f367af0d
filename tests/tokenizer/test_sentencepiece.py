"""The SentencePiece tokenizer loses no text, prints nothing, and does not crash."""

import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError, RecipeError
from dragoman.tokenizer.byte_pair_encoding import SPACE_MARK
from dragoman.tokenizer.interface import (
    BACK_TRANSLATION_TOKEN,
    BEGIN,
    END,
    PADDING,
    RESERVED_TOKENS,
    UNKNOWN,
)
from dragoman.tokenizer.sentencepiece import SentencePiece, library

TEXTS = ["the cat sat on the mat with a hat", "der Bär mag die grünen Äpfel", "hello world"] * 5


@pytest.fixture(scope="module")
def small():
    return SentencePiece.train(TEXTS, 350, ["en", "de"])


def file_of(tokenizer, folder):
    tokenizer.save(folder)
    return folder / tokenizer.file_name


AWKWARD = [
    " leading", "trailing ", "two  spaces", "   ", "tab\there", "line\nbreak", "\r\n", "\0",
    "😀", "👩🏽‍🚀", "e\u0301 é", "שלום עולם", "مرحبا", "\u202eabc\u202c", "ﬁ ① Ａ",
    "\u00a0\u3000\u200b\ufeff",
    "▁", "▁▁", " ▁", "▁ ", "a▁b", "▁the cat▁", "the▁ cat ▁sat", "▅", "⁇", "\ufffd",
    "\uffff", "\U0010ffff",
    "<s>", "</s>", "<unk>", "<pad>", "<2de>", "<0x41>", "the <2de> cat",
]  # fmt: skip


@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_text_is_restored(small, text):
    assert small.decode(small.encode([text])) == [text]


def test_any_text_is_restored(small):
    pieces = st.sampled_from([*AWKWARD, *TEXTS, SPACE_MARK, " "])

    @given(st.lists(pieces | st.text(max_size=4), max_size=6).map("".join))
    def check(text):
        assert small.decode(small.encode([text])) == [text]
        # With the library alone as well: other programs that load the model see the same text.
        assert small._library.decode(small.encode([text])[0]) == text

    check()


def test_the_space_mark_in_a_text_is_encoded_by_its_bytes(small):
    (ids,) = small.encode(["the▁cat"])
    assert small.pieces(ids)[:4] == ["▁the", "<0xE2>", "<0x96>", "<0x81>"]
    (ids,) = small.encode(["▁"])
    assert small.pieces(ids) == ["▁", "<0xE2>", "<0x96>", "<0x81>"]


def test_the_number_of_threads_changes_nothing(small):
    expected = small.encode(TEXTS * 20)
    small.threads = 3
    assert small.encode(TEXTS * 20) == expected
    assert small.decode(expected) == TEXTS * 20
    small.threads = 1


def test_special_and_language_tokens_are_control_symbols(small):
    assert [small._library.is_control(number) for number in (PADDING, BEGIN, END, 4, 5)] == [
        True
    ] * 5
    assert small._library.is_unknown(UNKNOWN)


def test_ids_are_in_the_order_of_learning(small):
    """BPE-dropout reads the priorities of merges from the ids."""
    learned = list(small.text_pieces().values())[len(RESERVED_TOKENS) :]
    scores = [small._library.get_score(number) for number in learned]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == len(scores)
    assert small.size == len(small.text_pieces()) + 256 + 6


def test_a_small_text_gives_a_smaller_vocabulary():
    assert 300 < SentencePiece.train(TEXTS, 100_000, ["de"]).size < 500


def test_a_vocabulary_that_is_too_small_names_the_minimum():
    with pytest.raises(RecipeError, match=r"found 100, expected at least (\d+)") as caught:
        SentencePiece.train(TEXTS, 100, ["de"])
    enough = int(str(caught.value).split("at least ")[1].split(":")[0])
    assert SentencePiece.train(TEXTS, enough, ["de"]).size == enough


def test_long_lines_are_used_in_training():
    pieces = SentencePiece.train(["wonderful " * 5000, "world"], 400, []).text_pieces()
    assert "▁wonderful" in pieces


def test_the_space_mark_is_always_in_the_vocabulary():
    """Here it is rarer than the rarest covered character."""
    tokenizer = SentencePiece.train(["a" * 30_000], 400, [])
    assert SPACE_MARK in tokenizer.text_pieces()
    assert tokenizer.decode(tokenizer.encode(["a b"])) == ["a b"]


def test_an_error_while_reading_texts_is_raised_unchanged():
    def texts():
        yield "the cat"
        raise DataError("line 2 is broken")

    with pytest.raises(DataError, match="line 2 is broken"):
        SentencePiece.train(texts(), 400, [])


def test_nothing_is_printed(capfd, tmp_path):
    tokenizer = SentencePiece.train([*TEXTS, "", "▁", "\0", "x" * 5000], 400, ["de"])
    path = file_of(tokenizer, tmp_path)
    SentencePiece.load(tmp_path).decode(tokenizer.encode(TEXTS))
    path.write_bytes(b"")
    with pytest.raises(DataError):
        SentencePiece.load(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_truncated_file_is_refused(small, tmp_path):
    path = file_of(small, tmp_path)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 37), *range(len(whole) - 80, len(whole))]:
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"tokenizer\.model"):
            SentencePiece.load(tmp_path)


def test_random_bytes_are_refused(small, tmp_path):
    path = file_of(small, tmp_path)
    rng = random.Random(1)
    for _ in range(300):
        path.write_bytes(rng.choice([b"", b"\n", b"\n\x03"]) + rng.randbytes(200))
        with pytest.raises(DataError, match=r"tokenizer\.model"):
            SentencePiece.load(tmp_path)


def test_a_damaged_file_is_refused_or_works(small, tmp_path):
    """A changed letter is only detected by the hash of the folder, but nothing may crash."""
    path = file_of(small, tmp_path)
    whole = path.read_bytes()
    rng = random.Random(2)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(rng.choice([1, 2, 8])):
            damaged[rng.randrange(len(whole))] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            SentencePiece.load(tmp_path).encode(AWKWARD)
        except DataError:
            refused += 1
    assert refused > 100


def test_a_model_without_reserved_tokens_still_loads():
    """Runs of earlier versions have none."""
    old = train_with_library({})
    assert not old.has_span_tokens
    assert old.decode(old.encode(["the \ue000 cat"])) == ["the \ue000 cat"]


def test_a_model_without_the_back_translation_token_still_loads():
    old = train_with_library({"user_defined_symbols": list(RESERVED_TOKENS[:19])})
    assert old.has_span_tokens
    assert not old.has_back_translation_token
    text = f"{BACK_TRANSLATION_TOKEN} the cat"
    assert old.decode(old.encode([text])) == [text]


@pytest.mark.parametrize(
    "changed",
    [
        {"normalization_rule_name": "nmt_nfkc"},
        {"remove_extra_whitespaces": True},
        {"byte_fallback": False},
        {"pad_id": -1},
        {"unk_id": 0, "pad_id": 1},
    ],
)
def test_a_model_of_another_program_is_refused(changed):
    with pytest.raises(DataError, match="not made by Dragoman"):
        train_with_library(changed)


def train_with_library(changed):
    ours = {
        "model_type": "bpe",
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": 2,
        "eos_id": 3,
    }
    model_file = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=model_file,
        vocab_size=350,
        hard_vocab_limit=False,
        minloglevel=2,
        **(ours | changed),
    )
    return SentencePiece(model_file.getvalue())


@given(st.lists(st.text(max_size=60) | st.sampled_from(TEXTS + AWKWARD), max_size=6))
def test_cached_words_are_split_as_the_library_splits_them(small, texts):
    texts = [text.encode(errors="ignore").decode() for text in texts]
    for _ in range(2):  # The second time from the cache.
        assert small.encode(texts) == small.encode_with_library(texts)


@given(st.lists(st.lists(st.integers(0, 349), max_size=20), max_size=5))
def test_pieces_are_joined_as_the_library_joins_them(small, rows):
    rows = [[number for number in row if number < small.size] for row in rows]
    assert small.decode(rows) == small.decode_with_library(rows)


def test_the_word_cache_is_bounded(small, monkeypatch):
    monkeypatch.setattr("dragoman.tokenizer.sentencepiece.CACHED_WORDS", 10)
    texts = [f"word{number} and word{number + 1}" for number in range(100)]
    for text in texts:
        assert small.encode([text]) == small.encode_with_library([text])
        assert len(small._words) < 20
