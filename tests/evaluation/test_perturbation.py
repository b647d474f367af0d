"""Each perturbation makes its documented change to a sentence, and no other."""

import re
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.evaluation import perturbation
from dragoman.evaluation.perturbation import (
    TYPO_RATE,
    add_typos,
    change_number,
    drop_final_punctuation,
    insert_email,
    insert_named_placeholder,
    insert_number,
    insert_printf_placeholder,
    insert_tags,
    insert_url,
    split_words,
    uppercase,
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
INSERTING = [
    insert_number,
    insert_url,
    insert_email,
    insert_printf_placeholder,
    insert_named_placeholder,
]
PROTECTING = [*INSERTING, insert_tags, change_number]


@given(ANYTHING)
def test_uppercase_keeps_all_letters(text):
    assert uppercase(text) == uppercase(text).upper()
    assert uppercase(text).casefold() == text.upper().casefold()


@given(ANYTHING)
def test_only_final_punctuation_is_dropped(text):
    left = drop_final_punctuation(text)
    assert text.startswith(left)
    assert set(text[len(left) :]) <= set(" .!?…。！？।؟")
    assert drop_final_punctuation(left + "...") == drop_final_punctuation(left) == left


@given(ANYTHING)
def test_words_and_gaps_alternate_and_are_the_whole_text(text):
    runs = list(split_words(text))
    assert "".join(run for _, run in runs) == text
    kinds = [is_word for is_word, _ in runs]
    assert all(first != second for first, second in pairwise(kinds))
    assert all(any(map(str.isalpha, run)) or not run.isascii() for is_word, run in runs if is_word)


def is_typo(word, typed):
    """Whether one letter is missing, doubled, or swapped with the next one."""
    positions = range(len(word) - 1)
    return (
        typed in {word[:n] + word[n + 1 :] for n in positions}
        or typed in {word[: n + 1] + word[n:] for n in positions}
        or typed in {word[:n] + word[n + 1] + word[n] + word[n + 2 :] for n in positions}
    )


@given(ANYTHING, SEEDS)
def test_a_typo_is_one_mistake_in_a_word_that_is_long_enough(text, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perturbation, "TYPO_RATE", 1.0)
        typed = add_typos(text, Random(seed))
    pairs = zip(split_words(text), split_words(typed), strict=True)
    for (is_word, run), (is_still_a_word, typed_run) in pairs:
        assert is_word == is_still_a_word
        if is_word and len(run) >= 4:
            assert is_typo(run, typed_run)
            assert typed_run != run
        else:
            assert typed_run == run


def test_typos_have_the_documented_rate():
    words = 20_000
    typed = add_typos(" ".join(["letters"] * words), Random(1)).split(" ")
    share = sum(word != "letters" for word in typed) / words
    # Tolerance: six standard deviations.
    assert share == pytest.approx(TYPO_RATE, abs=6 * (TYPO_RATE * (1 - TYPO_RATE) / words) ** 0.5)
    assert len({word for word in typed if len(word) < 7}) > 3
    assert len({word for word in typed if len(word) > 7}) > 3
    assert len({word for word in typed if len(word) == 7}) > 3


@given(ANYTHING, SEEDS)
def test_only_the_digits_of_the_changed_number_are_different(text, seed):
    protected = change_number(text, Random(seed))
    if protected is None:
        assert not re.search(r"\d\d", text)
        return
    assert len(protected.text) == len(text)
    changed = [(old, new) for old, new in zip(text, protected.text, strict=True) if old != new]
    assert len(changed) >= 2
    assert all(old.isdecimal() and new in "123456789" for old, new in changed)
    # The changed digits are one whole number.
    number = [position for position, old in enumerate(text) if old != protected.text[position]]
    between = protected.text[number[0] : number[-1] + 1]
    assert protected.pattern.search(protected.text)[0] == between
    assert not protected.pattern.search(text)


@pytest.mark.parametrize("rewritten", ["{}", "{}.{}", "{},{}", "{} {}", "{}'{}", "{}\u202f{}"])
@given(seed=SEEDS)
def test_a_translated_number_may_have_other_separators(rewritten, seed):
    protected = insert_number("a b", Random(seed))
    number = protected.text.split(" ")[1]
    parts = (number,) if rewritten == "{}" else (number[:-3], number[-3:])
    if all(parts):
        assert protected.pattern.search(f"so {rewritten.format(*parts)}, yes")
    for wrong in (number + "7", "7" + number, number[:-1], number[1:], "", number[::-1] + "0"):
        assert not protected.pattern.search(f"so {wrong} yes")


@pytest.mark.slow
@pytest.mark.parametrize("insert", INSERTING)
@given(text=ANYTHING, seed=SEEDS)
def test_the_inserted_text_is_between_words(insert, text, seed):
    protected = insert(text, Random(seed))
    before, after = text.split(" "), protected.text.split(" ")
    last = max(len(before) - 1, 1)
    assert any(
        after[:position] + after[position + 1 :] == before
        and protected.pattern.fullmatch(after[position])
        for position in range(1, last + 1)
    )


@pytest.mark.parametrize(
    "insert", [insert_url, insert_email, insert_printf_placeholder, insert_named_placeholder]
)
@given(seed=SEEDS)
def test_an_address_or_placeholder_must_stay_unchanged(insert, seed):
    protected = insert("left right", Random(seed))
    _, literal, _ = protected.text.split(" ")
    for fine in (literal, f"({literal})", f"«{literal}».", f"漢{literal}字"):
        assert protected.pattern.search(fine)
    for position in range(len(literal)):
        assert not protected.pattern.search(literal[:position] + literal[position + 1 :])
        assert (
            not protected.pattern.search(literal[:position] + " " + literal[position:])
            or position == 0
        )
        if literal[position].swapcase() != literal[position]:
            spoiled = literal[:position] + literal[position].swapcase() + literal[position + 1 :]
            assert not protected.pattern.search(spoiled)
    assert not protected.pattern.search(f"{literal}x")
    assert not protected.pattern.search(f"x{literal}")


@given(ANYTHING, SEEDS)
def test_tags_surround_one_word(text, seed):
    protected = insert_tags(text, Random(seed))
    assert protected.text.count("<b>") == text.count("<b>") + 1
    assert protected.text.count("</b>") == text.count("</b>") + 1
    bold = re.search(r"<b>([^ ]*)</b>", protected.text)[1].removeprefix("<b>")
    assert " " not in bold


@pytest.mark.parametrize("answer", ["word", "<b>word", "word</b>", "</b>word<b>", "<b></b> word",
                                    "<b> </b>", "<B>word</B>", "< b>word</b>"])  # fmt: skip
def test_tags_must_surround_a_word_in_the_output(answer):
    protected = insert_tags("word", Random(1))
    assert protected.pattern.search(protected.text)
    assert not protected.pattern.search(answer)


@pytest.mark.parametrize("perturb", [add_typos, *PROTECTING])
@given(text=ANYTHING, seed=SEEDS)
def test_the_same_seed_gives_the_same_perturbation(perturb, text, seed):
    assert perturb(text, Random(seed)) == perturb(text, Random(seed))


@pytest.mark.parametrize("perturb", [add_typos, *PROTECTING])
def test_different_seeds_give_different_perturbations(perturb):
    text = " ".join(["there were 17 letters"] * 20)
    assert len({perturb(text, Random(seed)) for seed in range(10)}) > 5
