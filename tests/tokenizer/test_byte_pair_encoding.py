"""The readable byte-pair encoding learns the merges of SentencePiece, and splits text like it."""

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.tokenizer.byte_pair_encoding import SPACE_MARK, Merge, learn_merges, split_word
from dragoman.tokenizer.sentencepiece import SentencePiece, byte_piece
from support.shared_data import shared_data

PAGE = Path(__file__).parents[2] / "docs" / "parts.md"
TEXTS = [
    "the cat sat on the mat with a hat and the other cats",
    "der Bär mag die grünen Äpfel und die anderen Bären",
    "banana bandana anagram: nana, 漢字かな 漢字",
] * 5


def multi30k(language, count):
    path = shared_data() / "multi30k" / f"train.{language}.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for _, line in zip(range(count), file, strict=False)]


@pytest.fixture(scope="module")
def small():
    return SentencePiece.train(TEXTS, 400, ["en", "de"])


def pieces_of(text, ranks):
    """Split a text word by word; characters outside the vocabulary become bytes."""
    pieces = []
    for word in text.split(" "):
        *_, symbols = split_word(word, ranks)
        for symbol in symbols:
            known = [symbol] if symbol in ranks else map(byte_piece, symbol.encode())
            pieces.extend(known)
    return pieces


def split_by_library(text, tokenizer):
    return tokenizer.pieces(tokenizer.encode([text])[0])


def test_any_text_is_split_as_by_sentencepiece(small):
    parts = st.sampled_from([*TEXTS, " ", "the", "an", "😀", "é"]) | st.text(max_size=3)
    # Dragoman encodes a ▁ that is part of a text by its bytes.
    texts = (st.text() | st.lists(parts).map("".join)).map(lambda text: text.replace("▁", ""))

    ranks = small.bpe_vocabulary().pieces

    @given(texts.filter(bool))
    def check(text):
        assert pieces_of(text, ranks) == split_by_library(text, small)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "de"])
def test_real_text_is_split_as_by_sentencepiece(language):
    texts = multi30k(language, 3000)
    tokenizer = SentencePiece.train(texts, 2000, [language])
    ranks = tokenizer.bpe_vocabulary().pieces
    for text in texts[:500]:
        assert pieces_of(text, ranks) == split_by_library(text, tokenizer)


@pytest.mark.slow
def test_the_merges_are_those_of_sentencepiece():
    """On words of Latin letters: the library never joins letters with digits or punctuation."""
    texts = [" ".join(re.findall(r"\b[a-z]{1,15}\b", text)) for text in multi30k("en", 150)]
    tokenizer = SentencePiece.train(texts, 600, ["en"])
    theirs = [piece for piece in tokenizer.text_pieces() if len(piece) > 1]
    assert len(theirs) > 200
    word_counts = Counter(word for text in texts for word in text.split())
    ours = [merge.left + merge.right for merge in learn_merges(word_counts, len(theirs))]
    assert ours == theirs


def test_the_most_frequent_pair_is_merged_first():
    merges = list(learn_merges({"ab": 3, "ac": 2}, limit=10))
    assert merges == [
        Merge(SPACE_MARK, "a", 5),
        Merge(SPACE_MARK + "a", "b", 3),
        Merge(SPACE_MARK + "a", "c", 2),
    ], "it ends when every word is one piece"


def test_each_merge_is_shown_one_by_one():
    steps = list(split_word("banana", {"an": 0, "ana": 1, "▁b": 2}))
    assert [" ".join(symbols) for symbols in steps] == [
        "▁ b a n a n a",
        "▁ b an a n a",
        "▁ b an an a",
        "▁ b an ana",
        "▁b an ana",
    ]


def test_a_word_of_unknown_characters_stays_split():
    assert list(split_word("xyz", {"ab": 0})) == [[SPACE_MARK, "x", "y", "z"]]


def test_the_page_shows_the_real_output(capsys):
    (program, shown), *_ = re.findall(
        r"```python\n([^`]*learn_merges[^`]*)```\n\n```text\n([^`]*)```", PAGE.read_text("utf-8")
    )
    exec(program, {})
    assert capsys.readouterr().out == shown
