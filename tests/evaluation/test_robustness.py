"""Does the suite praise a translator that keeps its head, and no other?"""

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.evaluation.robustness import (
    KEEPINGS,
    NOISES,
    Row,
    is_plausible,
    stress,
    stutters,
    which_are_there,
)

WORDS = [
    *("harbour", "winter", "bridge", "paper", "candle", "river", "kitchen", "orange", "stone"),
    *("letter", "morning", "garden", "window", "captain", "silver", "forest", "market", "bottle"),
    *("engine", "ladder", "mirror", "pocket", "rabbit", "summer", "ticket", "valley", "button"),
]
NOISE_NAMES = [each.name for each in NOISES]
KEEPING_NAMES = [each.name for each in KEEPINGS]


def sentences(count=60):
    chance = Random(1)
    return [
        " ".join(chance.choices(WORDS, k=chance.randint(5, 12))).capitalize()
        + (f" {chance.randint(10, 9999)}" if chance.random() < 0.5 else "")
        + chance.choice([".", "?", "!"])
        for _ in range(count)
    ]


SOURCES = sentences()


def echo(texts):
    return list(texts)


def each(change):
    """A translator that does the same to every text."""
    return lambda texts: [change(text) for text in texts]


def scores(translate, sources=SOURCES, references=SOURCES, **how):
    rows = stress(translate, sources, references, **how)
    return {(row.name, row.measured): row.score for row in rows}


def by_kind(found):
    noise = [score for (name, _), score in found.items() if name in NOISE_NAMES]
    kept = [score for (name, _), score in found.items() if name in KEEPING_NAMES]
    (words,) = (score for (name, _), score in found.items() if name == "single word")
    lines = [score for (name, _), score in found.items() if "in a line" in name]
    assert len(noise) + len(kept) + 1 + len(lines) == len(found)
    return noise, kept, words, lines


def test_who_says_everything_again_has_full_marks():
    """Where the language stays, the best answer is the question; but for typos."""
    rows = stress(echo, SOURCES, SOURCES)
    for row in rows:
        assert row.count > 0
        if row.measured == "chrF":
            assert row.plain == pytest.approx(100)
        if not row.name.startswith("typos"):
            assert row.score == pytest.approx(100), row
    (typos,) = (row for row in rows if row.name.startswith("typos"))
    assert 80 < typos.score < 99
    assert typos.loss == pytest.approx(100 - typos.score)


def test_who_says_nothing_has_no_marks():
    found = scores(each(lambda text: ""))
    assert set(found.values()) == {0}


def test_who_always_says_the_same_keeps_nothing():
    """It may be plausible as a word, and is one of the sentences of a line."""
    noise, kept, _, lines = by_kind(scores(each(lambda text: "Bitte warten.")))
    assert max(noise) < 20
    assert set(kept) == {0}
    assert max(lines) <= 5


def test_who_says_everything_twice_keeps_nothing():
    """A placeholder that comes twice breaks a program as well as one that is lost."""
    _, kept, _, _ = by_kind(scores(each(lambda text: f"{text} {text}")))
    assert set(kept) == {0}


SPOILERS = {
    "number changed": lambda text: re.sub(r"\d", lambda each: str((int(each[0]) + 1) % 10), text),
    "number put in": lambda text: re.sub(r"\d", "", text, count=1),
    "web address": lambda text: text.replace("://", ": //"),
    "mail address": lambda text: text.replace("@", "(at)"),
    "%s": lambda text: text.replace("%s", "% s"),
    "{name}": lambda text: text.replace("{name}", "{Name}"),
    "<b>…</b>": lambda text: text.replace("</b>", "<b>"),
}


@pytest.mark.parametrize("name", KEEPING_NAMES)
def test_who_spoils_one_thing_is_caught_by_its_row_and_keeps_the_others(name):
    found = scores(each(SPOILERS[name]))
    spoiled = {kept for kept in KEEPING_NAMES if found[kept, "% kept"] < 100}
    assert found[name, "% kept"] == 0
    numbers = {"number changed", "number put in", "web address"}
    assert spoiled == {name} or (name in numbers and spoiled <= numbers)


def test_who_cannot_read_capitals_loses_by_them_alone():
    translate = each(lambda text: "" if text.isupper() else text)
    rows = {row.name: row for row in stress(translate, SOURCES, SOURCES)}
    assert rows["ALL CAPS"].score == 0
    assert rows["ALL CAPS"].loss == pytest.approx(100)
    assert rows["no final stop"].loss == pytest.approx(0)


def test_who_answers_shouting_with_shouting_loses_nothing():
    (row,) = (row for row in stress(echo, SOURCES, SOURCES) if row.name == "ALL CAPS")
    assert row.score == row.plain


def test_who_needs_the_stop_loses_without_it():
    translate = each(lambda text: text if text[-1:] in ".?!" else "")
    rows = {row.name: row for row in stress(translate, SOURCES, SOURCES)}
    assert rows["no final stop"].score == 0
    assert rows["no final stop"].plain == pytest.approx(100)
    assert rows["ALL CAPS"].loss == pytest.approx(0)


@pytest.mark.parametrize(
    "answer",
    [
        lambda word: "",
        lambda word: " . ",
        lambda word: f"{word} {word} {word}",
        lambda word: f"{word}, {word}, {word}",
        lambda word: 3 * word,
        lambda word: " ".join(WORDS),
    ],
)
def test_no_absurd_answer_to_a_word_passes(answer):
    translate = each(lambda text: text if " " in text else answer(text))
    assert scores(translate)["single word", "% plausible"] == 0


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("Haus", "house"),
        ("Donaudampfschifffahrtsgesellschaft", "Danube steamship company"),
        ("家", "a house, a home"),
        ("hahaha", "hahaha"),
        ("III", "III"),
        ("Mississippi", "Mississippi"),
        ("Jahr", "1000"),
        ("Banane", "banana"),
    ],
)
def test_a_sane_answer_to_a_word_passes(word, answer):
    assert is_plausible(word, answer)


@given(st.text(alphabet="ab ,1", max_size=30))
def test_stuttering_is_a_unit_said_three_times(text):
    """The definition, tried at every place."""
    units = (
        (text[begin:end], begin, end)
        for begin in range(len(text))
        for end in range(begin + 2, len(text) + 1)
    )
    expected = any(
        unit[0] in "ab"
        and unit[1] in "ab1"
        and re.match(rf"(?:[ ,]{{0,3}}{re.escape(unit)}){{2}}", text[end:])
        for unit, _, end in units
    )
    assert stutters(text) == expected


@pytest.mark.parametrize("kept", [0, 1, 5, 10, 19])
def test_sentences_that_were_left_out_of_a_line_are_missed(kept):
    """A translator that ends after some sentences."""

    def shorten(text):
        first = re.findall(r".*?[.?!](?: |$)", text)[:kept]
        return text if len(text) < 300 else "".join(first)

    found = scores(each(shorten))
    there = found["20 sentences in a line", "% of sentences there"]
    # One sentence in twenty may be taken for another's words.
    assert there == pytest.approx(5 * kept, abs=5)
    assert there < 100
    is_long_enough = found["20 sentences in a line", "% of plausible length"] == 100
    assert is_long_enough == (kept > 15)


def test_sentences_are_missed_wherever_they_stood():
    parts = SOURCES[:10]
    for missing in range(10):
        answer = " ".join(part for place, part in enumerate(parts) if place != missing)
        assert which_are_there(answer, parts) == [place != missing for place in range(10)]
    assert which_are_there("", parts) == [False] * 10
    assert which_are_there("漢字。かな。", ["漢字。", "かな。", "한글。"]) == [True, True, False]
    assert which_are_there("a b", ["a", "", "b"]) == [True, False, True]


def recorded(sources=SOURCES, **how):
    asked = []

    def translate(texts):
        asked.append(list(texts))
        return list(texts)

    return stress(translate, sources, sources, **how), asked


def test_the_same_seed_asks_the_same_questions():
    assert recorded() == recorded()
    rows, asked = recorded(seed=2)
    others, other_asked = recorded(seed=3)
    assert asked[1] == other_asked[1]  # Capitals leave nothing to chance.
    assert asked[3:-1] != other_asked[3:-1]
    assert [row.name for row in rows] == [row.name for row in others]


def test_a_few_of_many_sentences_are_asked_about():
    rows, asked = recorded(sentences(500), most=25)
    assert all(len(texts) <= 25 for texts in asked)
    assert asked[0] != sentences(500)[:25]
    assert set(asked[0]) <= set(sentences(500))
    assert rows[-1].count == 20


def test_without_references_nothing_is_asked_about_noise():
    names = [row.name for row in stress(echo, SOURCES)]
    assert not set(names) & set(NOISE_NAMES)
    assert set(KEEPING_NAMES) < set(names)


def test_where_nothing_can_be_asked_there_is_no_score():
    """And nobody is asked to translate nothing."""
    rows, asked = recorded(["漢"])
    assert all(asked)
    silent = {row.name: row for row in rows if row.count == 0}
    assert {"ALL CAPS", "no final stop", "number changed", "single word"} <= set(silent)
    assert all(row.score is None and row.loss is None for row in silent.values())


def test_empty_lines_are_not_asked_about():
    rows, asked = recorded(["", "One two three four.", "  "])
    assert asked[0] == ["One two three four."]
    assert rows[-1] == Row("1 sentences in a line", "% of sentences there", 1, 100.0)


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(DataError, match="no sentence to disturb"):
        stress(echo, ["", " "])
    with pytest.raises(DataError, match="the source has 60 lines and reference 1 has 1"):
        stress(echo, SOURCES, ["one"])
    with pytest.raises(ValueError, match="shorter"):
        stress(lambda texts: texts[1:], SOURCES)
