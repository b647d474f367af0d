"""Does each trouble do to a sentence what it says, and nothing else?"""

import re
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.evaluation import perturbation
from dragoman.evaluation.perturbation import (
    TYPO_RATE,
    change_number,
    drop_stop,
    mistype,
    put_format,
    put_mail_address,
    put_name,
    put_number,
    put_tags,
    put_web_address,
    shout,
    words_and_gaps,
)

WORDS = st.sampled_from(
    [
        *(
            "the",
            "Straße",
            "naïve",
            "Ελλάδα",
            "жизнь",
            "हिन्दी",
            "日本語",
            "مرحبا",
            "aaaa",
            "a",
            "I",
        ),
        *("1", "07", "12:30", "1,234.5", "2000", "MP3", "٣٤", "(so)", "…", "Mr.", "%s", "<b>", ""),
    ]
)
SENTENCES = st.builds(
    lambda words, stop: " ".join(words) + stop,
    st.lists(WORDS, min_size=1, max_size=12),
    st.sampled_from(["", ".", "?", "!", "…", "。", " .", "?!"]),
)
ANYTHING = SENTENCES | st.text(max_size=40)
SEEDS = st.integers(0, 2**32)
INSERTED = [put_number, put_web_address, put_mail_address, put_format, put_name]
CHARGES = [*INSERTED, put_tags, change_number]


@given(ANYTHING)
def test_shouting_leaves_nothing_small_and_loses_nothing(text):
    assert shout(text) == shout(text).upper()
    assert shout(text).casefold() == text.upper().casefold()


@given(ANYTHING)
def test_only_what_ends_a_sentence_is_dropped(text):
    left = drop_stop(text)
    assert text.startswith(left)
    assert set(text[len(left) :]) <= set(" .!?…。！？।؟")
    assert drop_stop(left + "...") == drop_stop(left) == left


@given(ANYTHING)
def test_words_and_gaps_are_the_whole_text_by_turns(text):
    runs = list(words_and_gaps(text))
    assert "".join(run for _, run in runs) == text
    kinds = [is_word for is_word, _ in runs]
    assert all(one != other for one, other in pairwise(kinds))
    assert all(any(map(str.isalpha, run)) or not run.isascii() for is_word, run in runs if is_word)


def is_typo(word, typed):
    """Whether one letter is missing, doubled, or changed places with its neighbour."""
    places = range(len(word) - 1)
    return (
        typed in {word[:n] + word[n + 1 :] for n in places}
        or typed in {word[: n + 1] + word[n:] for n in places}
        or typed in {word[:n] + word[n + 1] + word[n] + word[n + 2 :] for n in places}
    )


@given(ANYTHING, SEEDS)
def test_a_typo_is_one_slip_in_a_word_that_is_long_enough(text, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perturbation, "TYPO_RATE", 1.0)
        typed = mistype(text, Random(seed))
    pairs = zip(words_and_gaps(text), words_and_gaps(typed), strict=True)
    for (is_word, run), (is_still_one, said) in pairs:
        assert is_word == is_still_one
        if is_word and len(run) >= 4:
            assert is_typo(run, said)
            assert said != run
        else:
            assert said == run


def test_typos_come_at_the_rate_that_is_stated():
    words = 20_000
    typed = mistype(" ".join(["letters"] * words), Random(1)).split(" ")
    share = sum(word != "letters" for word in typed) / words
    # Six standard deviations of a share of so many words.
    assert share == pytest.approx(TYPO_RATE, abs=6 * (TYPO_RATE * (1 - TYPO_RATE) / words) ** 0.5)
    assert len({word for word in typed if len(word) < 7}) > 3
    assert len({word for word in typed if len(word) > 7}) > 3
    assert len({word for word in typed if len(word) == 7}) > 3


@given(ANYTHING, SEEDS)
def test_a_changed_number_has_other_figures_and_the_rest_stays(text, seed):
    charge = change_number(text, Random(seed))
    if charge is None:
        assert not re.search(r"\d\d", text)
        return
    assert len(charge.text) == len(text)
    changed = [(old, new) for old, new in zip(text, charge.text, strict=True) if old != new]
    assert len(changed) >= 2
    assert all(old.isdecimal() and new in "123456789" for old, new in changed)
    # The figures that changed are one number, whole.
    number = [place for place, old in enumerate(text) if old != charge.text[place]]
    between = charge.text[number[0] : number[-1] + 1]
    assert charge.pattern.search(charge.text)[0] == between
    assert not charge.pattern.search(text)


@pytest.mark.parametrize("rewritten", ["{}", "{}.{}", "{},{}", "{} {}", "{}'{}", "{}\u202f{}"])
@given(seed=SEEDS)
def test_a_number_may_be_parted_in_the_other_languages_way(rewritten, seed):
    charge = put_number("a b", Random(seed))
    number = charge.text.split(" ")[1]
    parts = (number,) if rewritten == "{}" else (number[:-3], number[-3:])
    if all(parts):
        assert charge.pattern.search(f"so {rewritten.format(*parts)}, yes")
    for wrong in (number + "7", "7" + number, number[:-1], number[1:], "", number[::-1] + "0"):
        assert not charge.pattern.search(f"so {wrong} yes")


@pytest.mark.parametrize("put", INSERTED)
@given(text=ANYTHING, seed=SEEDS)
def test_what_is_put_in_stands_between_words(put, text, seed):
    charge = put(text, Random(seed))
    before, after = text.split(" "), charge.text.split(" ")
    last = max(len(before) - 1, 1)
    assert any(
        after[:place] + after[place + 1 :] == before and charge.pattern.fullmatch(after[place])
        for place in range(1, last + 1)
    )


@pytest.mark.parametrize("put", [put_web_address, put_mail_address, put_format, put_name])
@given(seed=SEEDS)
def test_an_address_or_placeholder_must_come_out_letter_for_letter(put, seed):
    charge = put("left right", Random(seed))
    _, what, _ = charge.text.split(" ")
    for fine in (what, f"({what})", f"«{what}».", f"漢{what}字"):
        assert charge.pattern.search(fine)
    for place in range(len(what)):
        assert not charge.pattern.search(what[:place] + what[place + 1 :])
        assert not charge.pattern.search(what[:place] + " " + what[place:]) or place == 0
        if what[place].swapcase() != what[place]:
            spoiled = what[:place] + what[place].swapcase() + what[place + 1 :]
            assert not charge.pattern.search(spoiled)
    assert not charge.pattern.search(f"{what}x")
    assert not charge.pattern.search(f"x{what}")


@given(ANYTHING, SEEDS)
def test_tags_stand_round_one_word(text, seed):
    charge = put_tags(text, Random(seed))
    assert charge.text.count("<b>") == text.count("<b>") + 1
    assert charge.text.count("</b>") == text.count("</b>") + 1
    bold = re.search(r"<b>([^ ]*)</b>", charge.text)[1].removeprefix("<b>")
    assert " " not in bold


@pytest.mark.parametrize("answer", ["word", "<b>word", "word</b>", "</b>word<b>", "<b></b> word",
                                    "<b> </b>", "<B>word</B>", "< b>word</b>"])  # fmt: skip
def test_tags_must_come_out_round_a_word(answer):
    charge = put_tags("word", Random(1))
    assert charge.pattern.search(charge.text)
    assert not charge.pattern.search(answer)


@pytest.mark.parametrize("disturb", [mistype, *CHARGES])
@given(text=ANYTHING, seed=SEEDS)
def test_the_same_seed_disturbs_in_the_same_way(disturb, text, seed):
    assert disturb(text, Random(seed)) == disturb(text, Random(seed))


@pytest.mark.parametrize("disturb", [mistype, *CHARGES])
def test_another_seed_disturbs_in_another_way(disturb):
    text = " ".join(["there were 17 letters"] * 20)
    assert len({disturb(text, Random(seed)) for seed in range(10)}) > 5
