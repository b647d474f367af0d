"""Is our dropout the paper's, and without dropout, is it SentencePiece?"""

import gzip
import time
from collections import Counter
from fractions import Fraction
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.tokenizer.dropout import LONGEST_KEPT, Dropout
from dragoman.tokenizer.sentencepiece import SPACE_MARK, SentencePiece
from shared_data import shared_data

TEXTS = [
    "the cat sat on the mat with a hat and the other cats",
    "der Bär mag die grünen Äpfel und die anderen Bären",
    "hello world, hello words; wonderful 漢字かな 漢字",
] * 5

TRIALS = 20_000
SIGMAS = 5
"""How far a frequency may lie from its probability: chance alone does it once in a million."""


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


def test_without_dropout_it_is_sentencepiece(small):
    dropout = Dropout(small, 0, seed=1)
    parts = [
        *TEXTS,
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
    long = st.text(alphabet="the catdr", min_size=LONGEST_KEPT, max_size=200)

    @given(long | st.text() | st.lists(st.sampled_from(parts) | st.text(max_size=3)).map("".join))
    def check(text):
        assert dropout.encode(text, 0, 0, 0) == small.encode([text])[0]

    check()


@pytest.mark.parametrize("rate", [0.1, 0.5, 1])
def test_dropped_text_is_the_same_text(small, rate):
    dropout = Dropout(small, rate, seed=1)

    @given(st.text() | st.lists(st.sampled_from([*TEXTS, "▁", " "])).map("".join), st.integers(0))
    def check(text, sample):
        assert small.decode([dropout.encode(text, 0, sample, 0)]) == [text]

    check()


def test_the_same_key_gives_the_same_cut_whatever_came_before(small):
    one, other = Dropout(small, 0.3, seed=7), Dropout(small, 0.3, seed=7)
    keys = [(epoch, sample, side) for epoch in (0, 1) for sample in range(50) for side in (0, 1)]
    cuts = {key: one.encode(TEXTS[0], *key) for key in keys}
    assert {key: other.encode(TEXTS[0], *key) for key in reversed(keys)} == cuts


def test_chance_is_the_same_for_ever(small):
    """Changing these numbers needs a line in CHANGELOG.md: resumed runs would see other cuts."""
    drops = Dropout(small, 0.25, seed=1)._drops(epoch=2, sample=3, side=1)
    assert list(islice(drops, 12)) == [3, 0, 5, 4, 8, 2, 7, 0, 0, 3, 0, 5]


def test_every_part_of_the_key_counts(small):
    cuts = {
        (seed, epoch, sample, side): tuple(
            Dropout(small, 0.5, seed).encode(" ".join(TEXTS), epoch, sample, side)
        )
        for seed, epoch, sample, side in [
            (1, 0, 0, 0), (2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1),
            (1, 1, 1, 0), (1, 11, 0, 0), (1, 0, 11, 0), (11, 0, 0, 0), (1, 0, 2**40, 0),
        ]
    }  # fmt: skip
    assert len(set(cuts.values())) == len(cuts)


def test_all_dropped_is_spelled_by_characters(small):
    (cut,) = [small.pieces(Dropout(small, 1, seed=1).encode("the Bär 😀", 0, 0, 0))]
    emoji = [f"<0x{byte:02X}>" for byte in "😀".encode()]
    assert cut == [*"▁the▁Bär▁", *emoji]


def paper(symbols, learned, rate, memory):
    """Algorithm 1 of Provilkov et al., with all chances at once: cut → probability, exactly."""
    if symbols not in memory:
        places = range(len(symbols) - 1)
        known = [(learned.get(symbols[at] + symbols[at + 1]), at) for at in places]
        known = sorted(each for each in known if each[0] is not None)
        found = Counter()
        for rank, (_, at) in enumerate(known):
            done = (*symbols[:at], symbols[at] + symbols[at + 1], *symbols[at + 2 :])
            for cut, chance in paper(done, learned, rate, memory).items():
                found[cut] += rate**rank * (1 - rate) * chance
        found[symbols] += rate ** len(known)
        memory[symbols] = found
    return memory[symbols]


@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1, 2)])
@pytest.mark.parametrize("word", ["the", "cats", "hello"])
def test_each_cut_is_as_frequent_as_the_paper_says(small, word, rate):
    expected = paper(tuple(SPACE_MARK + word), small.learned(), rate, {})
    assert sum(expected.values()) == 1
    assert len(expected) > 3
    dropout = Dropout(small, float(rate), seed=3)
    seen = Counter(
        tuple(small.pieces(dropout.encode(word, 0, sample, 0))) for sample in range(TRIALS)
    )
    assert set(seen) <= set(expected)
    for cut, chance in expected.items():
        assert is_near(seen[cut], float(chance)), (cut, float(chance), seen[cut] / TRIALS)


def test_words_of_a_sentence_have_their_own_chance(small):
    """The rate holds for the last word as for the first, and one says nothing about the other."""
    expected = paper(tuple("▁the"), small.learned(), Fraction(1, 5), {})[("▁the",)]
    dropout = Dropout(small, 0.2, seed=4)
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
def test_one_merge_is_dropped_as_often_as_sentencepiece_drops_it(small, rate):
    """With two symbols there is one merge and one chance, so both must agree."""
    assert small.pieces(small.encode(["a"])[0]) == ["▁a"]
    theirs = sampled_lengths(small, ["a"] * TRIALS, rate).count(2)
    dropout = Dropout(small, rate, seed=5)
    ours = sum(len(dropout.encode("a", 0, sample, 0)) == 2 for sample in range(TRIALS))
    assert is_near(ours, rate)
    assert is_near(theirs, rate)


def test_a_vocabulary_of_another_kind_is_refused(small):
    class Unigram(SentencePiece):
        def learned(self):
            return {SPACE_MARK: 262, "a": 263, "xyz": 264}

    with pytest.raises(DataError, match="'xyz'"):
        Dropout(Unigram(small._model), 0.1, seed=1)


def test_a_rate_is_a_probability(small):
    with pytest.raises(ValueError, match=r"1\.5"):
        Dropout(small, 1.5, seed=1)


def test_the_memory_for_words_is_bounded(small, monkeypatch):
    monkeypatch.setattr("dragoman.tokenizer.dropout.WORDS_KEPT", 3)
    dropout, free = Dropout(small, 0.3, seed=1), Dropout(small, 0.3, seed=1)
    for sample, text in enumerate([*TEXTS, "x" * 1000]):
        assert dropout.encode(text, 0, sample, 0) == free.encode(text, 0, sample, 0)
    assert len(dropout._words) == 3


@pytest.mark.slow
def test_it_is_sentencepiece_on_a_real_corpus(multi30k, english):
    dropout = Dropout(multi30k, 0, seed=1)
    assert [dropout.encode(text, 0, 0, 0) for text in english] == multi30k.encode(english)


@pytest.mark.slow
def test_more_dropout_makes_longer_sequences_but_shorter_than_sentencepiece(multi30k, english):
    """SentencePiece gives a dropped merge no second chance, so it cuts finer at the same rate."""
    texts = english[:2000]
    before = 0
    for rate in (0, 0.05, 0.1, 0.3, 0.5, 0.8, 1):
        dropout = Dropout(multi30k, rate, seed=1)
        total = sum(len(dropout.encode(text, 0, row, 0)) for row, text in enumerate(texts))
        assert total > before
        if 0 < rate < 1:
            assert total < sum(sampled_lengths(multi30k, texts, rate))
        if rate == 0.1:
            # The paper counts about a quarter more tokens at this rate.
            assert 1.1 < total / sum(map(len, multi30k.encode(texts))) < 1.3
        before = total


@pytest.mark.slow
def test_it_is_fast_enough_to_cut_while_training(multi30k, english):
    """Seconds of the processor, the best of a few: other tests run beside this one."""
    dropout, texts = Dropout(multi30k, 0.1, seed=1), english[:5000]
    words = sum(len(text.split()) for text in texts)
    seconds = []
    for epoch in range(3):
        before = time.process_time()
        for row, text in enumerate(texts):
            dropout.encode(text, epoch, row, 0)
        seconds.append(time.process_time() - before)
    assert min(seconds) / words * 15 < 150e-6
