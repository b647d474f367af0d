"""BPE-dropout follows the paper, and with rate 0 it equals SentencePiece."""

import gzip
import time
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.tokenizer.bpe_dropout import MAX_CACHED_WORD_LENGTH, BpeDropout
from dragoman.tokenizer.byte_pair_encoding import SPACE_MARK
from dragoman.tokenizer.bytes import Bytes
from dragoman.tokenizer.interface import RESERVED_TOKENS
from dragoman.tokenizer.sentencepiece import SentencePiece
from support.shared_data import shared_data

TEXTS = [
    "the cat sat on the mat with a hat and the other cats",
    "der Bär mag die grünen Äpfel und die anderen Bären",
    "hello world, hello words; wonderful 漢字かな 漢字",
] * 5

TRIALS = 20_000
SIGMAS = 5
"""The allowed distance of a frequency from its probability: exceeded once in a million runs."""


@pytest.fixture(scope="module")
def small():
    return SentencePiece.train(TEXTS, 400, ["en", "de"])


@pytest.fixture(scope="module")
def english():
    path = shared_data() / "multi30k" / "train.en.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


@pytest.fixture(scope="module")
def multi30k(english):
    return SentencePiece.train(english, 8000, ["en"])


def is_near(count, probability, trials=TRIALS):
    spread = (trials * probability * (1 - probability)) ** 0.5
    return abs(count - trials * probability) <= SIGMAS * spread + 1e-9


def test_rate_zero_equals_sentencepiece(small):
    dropout = BpeDropout(small.bpe_vocabulary(), 0, seed=1)
    parts = [
        *TEXTS,
        *RESERVED_TOKENS,
        "the",
        "▁",
        " ",
        "<2de>",
        "<0x41>",
        "😀",
        "é",
        "e\u0301",
        "漢字",
        "\n",
        "\0",
        "▅",
    ]
    long = st.text(alphabet="the catdr", min_size=MAX_CACHED_WORD_LENGTH, max_size=200)

    @given(long | st.text() | st.lists(st.sampled_from(parts) | st.text(max_size=3)).map("".join))
    def check(text):
        assert dropout.encode(text, 0, 0, 0) == small.encode([text])[0]

    check()


@pytest.mark.parametrize("rate", [0.1, 0.5, 1])
def test_text_is_restored_with_any_rate(small, rate):
    dropout = BpeDropout(small.bpe_vocabulary(), rate, seed=1)

    parts = st.sampled_from([*TEXTS, *RESERVED_TOKENS, "▁", " ", "the"])

    @given(st.text() | st.lists(parts).map("".join), st.integers(0))
    def check(text, sample):
        ids = dropout.encode(text, 0, sample, 0)
        assert small.decode([ids]) == [text]
        reserved = [piece for piece in small.pieces(ids) if set(piece) & set(RESERVED_TOKENS)]
        assert reserved == [character for character in text if character in RESERVED_TOKENS]

    check()


def test_the_same_key_always_gives_the_same_segmentation(small):
    one, other = (
        BpeDropout(small.bpe_vocabulary(), 0.3, seed=7),
        BpeDropout(small.bpe_vocabulary(), 0.3, seed=7),
    )
    keys = [(epoch, sample, side) for epoch in (0, 1) for sample in range(50) for side in (0, 1)]
    segmentations = {key: one.encode(TEXTS[0], *key) for key in keys}
    assert {key: other.encode(TEXTS[0], *key) for key in reversed(keys)} == segmentations


def test_the_random_numbers_never_change(small):
    """A change needs a line in CHANGELOG.md: resumed runs would see other segmentations."""
    drops = BpeDropout(small.bpe_vocabulary(), 0.25, seed=1)._drops(epoch=2, sample=3, side=1)
    assert list(islice(drops, 12)) == [3, 0, 5, 4, 8, 2, 7, 0, 0, 3, 0, 5]


def test_every_part_of_the_key_matters(small):
    vocabulary = small.bpe_vocabulary()
    segmentations = {
        (seed, epoch, sample, side): tuple(
            BpeDropout(vocabulary, 0.5, seed).encode(" ".join(TEXTS), epoch, sample, side)
        )
        for seed, epoch, sample, side in [
            (1, 0, 0, 0), (2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1),
            (1, 1, 1, 0), (1, 11, 0, 0), (1, 0, 11, 0), (11, 0, 0, 0), (1, 0, 2**40, 0),
        ]
    }  # fmt: skip
    assert len(set(segmentations.values())) == len(segmentations)


def test_rate_one_splits_into_characters(small):
    (pieces,) = [
        small.pieces(BpeDropout(small.bpe_vocabulary(), 1, seed=1).encode("the Bär 😀", 0, 0, 0))
    ]
    emoji = [f"<0x{byte:02X}>" for byte in "😀".encode()]
    assert pieces == [*"▁the▁Bär▁", *emoji]


def exact_probabilities(symbols, pieces, rate, cache):
    """Algorithm 1 of Provilkov et al., computed exactly: segmentation → probability."""
    if symbols not in cache:
        positions = range(len(symbols) - 1)
        merges = [(pieces.get(symbols[at] + symbols[at + 1]), at) for at in positions]
        merges = sorted(merge for merge in merges if merge[0] is not None)
        probabilities = Counter()
        for rank, (_, at) in enumerate(merges):
            merged = (*symbols[:at], symbols[at] + symbols[at + 1], *symbols[at + 2 :])
            following = exact_probabilities(merged, pieces, rate, cache)
            for segmentation, probability in following.items():
                probabilities[segmentation] += rate**rank * (1 - rate) * probability
        probabilities[symbols] += rate ** len(merges)
        cache[symbols] = probabilities
    return cache[symbols]


@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1, 2)])
@pytest.mark.parametrize("word", ["the", "cats", "hello"])
def test_segmentations_are_as_frequent_as_in_the_paper(small, word, rate):
    expected = exact_probabilities(tuple(SPACE_MARK + word), small.text_pieces(), rate, {})
    assert sum(expected.values()) == 1
    assert len(expected) > 3
    dropout = BpeDropout(small.bpe_vocabulary(), float(rate), seed=3)
    counts = Counter(
        tuple(small.pieces(dropout.encode(word, 0, sample, 0))) for sample in range(TRIALS)
    )
    assert set(counts) <= set(expected)
    for segmentation, probability in expected.items():
        frequency = counts[segmentation] / TRIALS
        message = (segmentation, float(probability), frequency)
        assert is_near(counts[segmentation], float(probability)), message


def test_drops_in_different_words_are_independent(small):
    """The rate is the same for the first and the last word, and they are independent."""
    expected = exact_probabilities(tuple("▁the"), small.text_pieces(), Fraction(1, 5), {})[
        ("▁the",)
    ]
    dropout = BpeDropout(small.bpe_vocabulary(), 0.2, seed=4)
    whole = small.id_of("▁the")
    first = last = both = 0
    for sample in range(TRIALS):
        ids = dropout.encode("the hello the", 0, sample, 1)
        first += ids[0] == whole
        last += ids[-1] == whole
        both += ids[0] == ids[-1] == whole
    assert is_near(first, float(expected))
    assert is_near(last, float(expected))
    assert is_near(both, float(expected) ** 2)


def sampled_lengths(tokenizer, texts, rate):
    library = tokenizer._library
    sampling = {"enable_sampling": True, "alpha": rate, "nbest_size": -1, "num_threads": 1}
    return [len(ids) for ids in library.encode(texts, **sampling)]


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_a_single_merge_is_dropped_as_often_as_in_sentencepiece(small, rate):
    """With two symbols there is only one merge, so both must agree."""
    assert small.pieces(small.encode(["a"])[0]) == ["▁a"]
    theirs = sampled_lengths(small, ["a"] * TRIALS, rate).count(2)
    dropout = BpeDropout(small.bpe_vocabulary(), rate, seed=5)
    ours = sum(len(dropout.encode("a", 0, sample, 0)) == 2 for sample in range(TRIALS))
    assert is_near(ours, rate)
    assert is_near(theirs, rate)


def test_a_vocabulary_without_merges_is_refused(small):
    pieces = {SPACE_MARK: 262, "a": 263, "xyz": 264}
    vocabulary = replace(small.bpe_vocabulary(), pieces=pieces)
    with pytest.raises(DataError, match="'xyz'"):
        BpeDropout(vocabulary, 0.1, seed=1)


def test_only_byte_pair_encoding_has_merges(small):
    assert small.bpe_vocabulary() is not None
    assert Bytes(["de"]).bpe_vocabulary() is None


def test_a_rate_above_one_is_refused(small):
    with pytest.raises(ValueError, match=r"1\.5"):
        BpeDropout(small.bpe_vocabulary(), 1.5, seed=1)


def test_the_word_cache_is_bounded(small, monkeypatch):
    monkeypatch.setattr("dragoman.tokenizer.bpe_dropout.CACHED_WORDS", 3)
    bounded, unbounded = (
        BpeDropout(small.bpe_vocabulary(), 0.3, seed=1),
        BpeDropout(small.bpe_vocabulary(), 0.3, seed=1),
    )
    for sample, text in enumerate([*TEXTS, "x" * 1000]):
        assert bounded.encode(text, 0, sample, 0) == unbounded.encode(text, 0, sample, 0)
    assert len(bounded._words) == 3


@pytest.mark.slow
def test_rate_zero_equals_sentencepiece_on_a_real_corpus(multi30k, english):
    dropout = BpeDropout(multi30k.bpe_vocabulary(), 0, seed=1)
    assert [dropout.encode(text, 0, 0, 0) for text in english] == multi30k.encode(english)


@pytest.mark.slow
def test_more_dropout_makes_longer_sequences_but_shorter_than_sentencepiece(multi30k, english):
    """SentencePiece never retries a dropped merge, so its pieces are shorter at the same rate."""
    texts = english[:2000]
    before = 0
    for rate in (0, 0.05, 0.1, 0.3, 0.5, 0.8, 1):
        dropout = BpeDropout(multi30k.bpe_vocabulary(), rate, seed=1)
        total = sum(len(dropout.encode(text, 0, row, 0)) for row, text in enumerate(texts))
        assert total > before
        if 0 < rate < 1:
            assert total < sum(sampled_lengths(multi30k, texts, rate))
        if rate == 0.1:
            # The paper counts about a quarter more tokens at this rate.
            assert 1.1 < total / sum(map(len, multi30k.encode(texts))) < 1.3
        before = total


@pytest.mark.slow
def test_encoding_is_fast_enough_for_training(multi30k, english):
    """The best CPU time of a few, because other tests may run in parallel."""
    dropout, texts = BpeDropout(multi30k.bpe_vocabulary(), 0.1, seed=1), english[:5000]
    words = sum(len(text.split()) for text in texts)
    seconds = []
    for epoch in range(3):
        before = time.process_time()
        for row, text in enumerate(texts):
            dropout.encode(text, epoch, row, 0)
        seconds.append(time.process_time() - before)
    assert min(seconds) / words * 15 < 150e-6
