"""Degenerate translations are detected, and others are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inference import quality
from dragoman.inference.quality import detect_degeneration, with_repetition_limits
from dragoman.recipe.schema import DecodingRecipe
from support.translator_models import hypothesis

PLAIN = list(range(10, 30))


def flags(source, tokens, **changed):
    return detect_degeneration(source, hypothesis(tokens, **changed))


def max_repeats(tokens, max_period):
    """The definition: try every start and every period."""
    maximum = 1
    for period in range(1, max_period + 1):
        for start in range(len(tokens) - period + 1):
            sequence, repeats = tokens[start : start + period], 1
            while tokens[start + repeats * period : start + (repeats + 1) * period] == sequence:
                repeats += 1
            maximum = max(maximum, repeats)
    return maximum


@given(st.lists(st.integers(0, 2), max_size=30), st.integers(1, 9))
def test_repeats_are_counted_as_defined(tokens, max_period):
    assert quality._max_repeats(tokens, max_period) == max_repeats(tokens, max_period)


@pytest.mark.parametrize("period", [1, 2, 3, 8])
def test_a_repeated_sequence_is_detected(period):
    again = PLAIN[:period]
    assert flags(PLAIN, [1, 2, *again * 3]) == []
    assert flags(PLAIN, [1, 2, *again * 4, 3]) == ["repetition"]


def test_a_frequent_token_is_no_repetition():
    assert flags(PLAIN, [1, 2, 1, 3, 1, 4, 1, 5, 1, 6, 1]) == []


@pytest.mark.parametrize("times", [4, 5, 20])
@pytest.mark.parametrize("period", [1, 3, 8])
def test_a_source_that_repeats_itself_may_have_such_a_translation(period, times):
    source = PLAIN[:period] * times
    assert flags(source, source) == []
    # The first token may differ, as at the beginning of a sentence.
    assert flags([99, *source[1:]], source) == []


def test_a_repeated_sequence_may_take_more_tokens_in_the_source():
    assert flags(PLAIN[:16] * 4, PLAIN[:5] * 4) == []


def test_more_repeats_than_in_the_source_are_detected():
    assert flags([1, 2] * 5, [3, 4] * 20) == ["repetition", "length"]
    assert flags([5, 5, 6, 7], [8, 8, 8, 8]) == ["repetition"]


def test_a_translation_cut_by_the_limit_is_detected():
    assert flags(PLAIN, PLAIN, is_finished=False) == ["length"]


def test_an_implausible_length_is_detected():
    assert flags(PLAIN, range(60)) == []
    assert flags(PLAIN, range(61)) == ["length"]
    assert flags(PLAIN, range(5)) == []
    assert flags(PLAIN, range(4)) == ["length"]
    assert flags(PLAIN, []) == ["length"]


def test_a_short_source_may_have_a_translation_of_any_length():
    assert flags([1], range(36)) == []
    assert flags(range(12), []) == []
    assert flags([], []) == []


def test_repetition_limits_are_never_weaker_than_the_settings():
    settings = with_repetition_limits(DecodingRecipe(beam_size=7))
    assert (settings.no_repeat_ngram_size, settings.repetition_penalty, settings.beam_size) == (
        3,
        1.1,
        7,
    )
    settings = with_repetition_limits(
        DecodingRecipe(no_repeat_ngram_size=2, repetition_penalty=1.5)
    )
    assert (settings.no_repeat_ngram_size, settings.repetition_penalty) == (2, 1.5)
    assert with_repetition_limits(DecodingRecipe(no_repeat_ngram_size=5)).no_repeat_ngram_size == 3
