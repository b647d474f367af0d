"""Is a translation that looks wrong told from one that does not?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import doubt
from dragoman.doubt import doubts, guarded
from dragoman.recipe import DecodingRecipe
from translator_models import said

PLAIN = list(range(10, 30))


def told(source, tokens, **changed):
    return doubts(source, said(tokens, **changed))


def plain_turns(tokens, circle):
    """As the definition says it: try every place and every size."""
    most = 1
    for size in range(1, circle + 1):
        for start in range(len(tokens) - size + 1):
            once, turns = tokens[start : start + size], 1
            while tokens[start + turns * size : start + (turns + 1) * size] == once:
                turns += 1
            most = max(most, turns)
    return most


@given(st.lists(st.integers(0, 2), max_size=30), st.integers(1, 9))
def test_turns_are_counted_as_defined(tokens, circle):
    assert doubt._turns(tokens, circle) == plain_turns(tokens, circle)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_a_circle_is_told(size):
    again = PLAIN[:size]
    assert told(PLAIN, [1, 2, *again * 3]) == []
    assert told(PLAIN, [1, 2, *again * 4, 3]) == ["repetition"]


def test_a_token_that_is_frequent_is_no_circle():
    assert told(PLAIN, [1, 2, 1, 3, 1, 4, 1, 5, 1, 6, 1]) == []


@pytest.mark.parametrize("times", [4, 5, 20])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_a_source_that_repeats_itself_is_not_suspected(size, times):
    source = PLAIN[:size] * times
    assert told(source, source) == []
    # Its first word may be another, as at the beginning of a sentence, and so is said once less.
    assert told([99, *source[1:]], source) == []


def test_a_source_may_need_more_tokens_to_say_the_same():
    assert told(PLAIN[:16] * 4, PLAIN[:5] * 4) == []


def test_more_turns_than_the_source_has_are_told():
    assert told([1, 2] * 5, [3, 4] * 20) == ["repetition", "length"]
    assert told([5, 5, 6, 7], [8, 8, 8, 8]) == ["repetition"]


def test_a_translation_that_was_cut_is_told():
    assert told(PLAIN, PLAIN, is_ended=False) == ["length"]


def test_lengths_that_are_implausible_are_told():
    assert told(PLAIN, range(60)) == []
    assert told(PLAIN, range(61)) == ["length"]
    assert told(PLAIN, range(5)) == []
    assert told(PLAIN, range(4)) == ["length"]
    assert told(PLAIN, []) == ["length"]


def test_a_short_source_may_have_any_translation():
    assert told([1], range(36)) == []
    assert told(range(12), []) == []
    assert told([], []) == []


def test_guards_are_never_weaker_than_the_settings():
    settings = guarded(DecodingRecipe(beam=7))
    assert (settings.no_repeat, settings.repetition_penalty, settings.beam) == (3, 1.1, 7)
    settings = guarded(DecodingRecipe(no_repeat=2, repetition_penalty=1.5))
    assert (settings.no_repeat, settings.repetition_penalty) == (2, 1.5)
    assert guarded(DecodingRecipe(no_repeat=5)).no_repeat == 3
