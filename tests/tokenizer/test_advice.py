"""The recommended vocabulary size is plausible and never smaller for more text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.tokenizer.advice import LARGEST, SMALLEST, advise
from dragoman.tokenizer.bytes import Bytes
from dragoman.tokenizer.folder import KINDS

PAIRS = st.integers(min_value=0, max_value=10**10)


@pytest.mark.parametrize(
    ("pairs", "size"),
    [(1_000, 4_000), (30_000, 8_000), (200_000, 16_000), (1_000_000, 16_000), (10**7, 32_000)],
)
def test_the_size_follows_the_number_of_pairs(pairs, size):
    assert advise(pairs).vocabulary_size == size


@given(PAIRS, PAIRS, st.sampled_from(KINDS), st.none() | st.integers(0, 10**7))
def test_more_text_never_gives_a_smaller_vocabulary(one, other, kind, distinct):
    less, more = sorted([one, other])
    small, large = advise(less, kind, distinct), advise(more, kind, distinct)
    assert small.vocabulary_size <= large.vocabulary_size <= LARGEST
    assert "\n" not in small.reason


@given(PAIRS, st.integers(0, 10**7))
def test_the_vocabulary_is_not_larger_than_the_number_of_words(pairs, distinct):
    assert advise(pairs, "words", distinct).vocabulary_size <= max(distinct, SMALLEST)


def test_the_reason_names_the_deciding_number():
    assert "30,000 pairs" in advise(30_000).reason
    assert "2,345 different words" in advise(30_000, distinct=2_345).reason
    assert "2,345 different characters" in advise(30_000, "characters", 2_345).reason


def test_bytes_have_a_fixed_size():
    assert advise(1, "bytes", languages=3).vocabulary_size == Bytes(["a", "b", "c"]).size
