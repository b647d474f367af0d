"""The robustness checks give a good score to a robust translator only."""

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.evaluation.robustness import (
    NOISES,
    PRESERVATIONS,
    RobustnessResult,
    find_parts,
    has_repetition,
    is_plausible,
    measure_robustness,
)

WORDS = [
    *("harbour", "winter", "bridge", "paper", "candle", "river", "kitchen", "orange", "stone"),
    *("letter", "morning", "garden", "window", "captain", "silver", "forest", "market", "bottle"),
    *("engine", "ladder", "mirror", "pocket", "rabbit", "summer", "ticket", "valley", "button"),
]
NOISE_NAMES = [noise.name for noise in NOISES]
PRESERVATION_NAMES = [check.name for check in PRESERVATIONS]


def sentences(count=60):
    rng = Random(1)
    return [
        " ".join(rng.choices(WORDS, k=rng.randint(5, 12))).capitalize()
        + (f" {rng.randint(10, 9999)}" if rng.random() < 0.5 else "")
        + rng.choice([".", "?", "!"])
        for _ in range(count)
    ]


SOURCES = sentences()


def echo(texts):
    return list(texts)


def for_each_text(change):
    """A translator that applies a function to every text."""
    return lambda texts: [change(text) for text in texts]


def scores(translate, sources=SOURCES, references=SOURCES, **parameters):
    rows = measure_robustness(translate, sources, references, **parameters)
    return {(row.name, row.metric): row.score for row in rows}


def by_kind(scores_by_row):
    noise = [score for (name, _), score in scores_by_row.items() if name in NOISE_NAMES]
    kept = [score for (name, _), score in scores_by_row.items() if name in PRESERVATION_NAMES]
    (words,) = (score for (name, _), score in scores_by_row.items() if name == "single word")
    lines = [score for (name, _), score in scores_by_row.items() if "joined" in name]
    assert len(noise) + len(kept) + 1 + len(lines) == len(scores_by_row)
    return noise, kept, words, lines


def test_a_translator_that_copies_has_full_scores():
    """If source and target language are the same, copying is right, except for typos."""
    rows = measure_robustness(echo, SOURCES, SOURCES)
    for row in rows:
        assert row.count > 0
        if row.metric == "chrF":
            assert row.unperturbed == pytest.approx(100)
        if not row.name.startswith("typos"):
            assert row.score == pytest.approx(100), row
    (typos,) = (row for row in rows if row.name.startswith("typos"))
    assert 80 < typos.score < 99
    assert typos.loss == pytest.approx(100 - typos.score)


def test_empty_output_scores_zero():
    assert set(scores(for_each_text(lambda text: "")).values()) == {0}


def test_a_constant_output_preserves_nothing():
    """It may be plausible for a word, and it may match one sentence of a long line."""
    noise, kept, _, lines = by_kind(scores(for_each_text(lambda text: "Bitte warten.")))
    assert max(noise) < 20
    assert set(kept) == {0}
    assert max(lines) <= 5


def test_a_translator_that_repeats_everything_preserves_nothing():
    """A placeholder that occurs twice breaks a program, like a missing one."""
    _, kept, _, _ = by_kind(scores(for_each_text(lambda text: f"{text} {text}")))
    assert set(kept) == {0}


DAMAGES = {
    "number changed": lambda text: re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), text),
    "number inserted": lambda text: re.sub(r"\d", "", text, count=1),
    "URL": lambda text: text.replace("://", ": //"),
    "email address": lambda text: text.replace("@", "(at)"),
    "%s": lambda text: text.replace("%s", "% s"),
    "{name}": lambda text: text.replace("{name}", "{Name}"),
    "<b>…</b>": lambda text: text.replace("</b>", "<b>"),
}


@pytest.mark.parametrize("name", PRESERVATION_NAMES)
def test_damage_of_one_kind_is_found_by_its_own_check_only(name):
    scores_by_row = scores(for_each_text(DAMAGES[name]))
    spoiled = {kept for kept in PRESERVATION_NAMES if scores_by_row[kept, "% kept"] < 100}
    assert scores_by_row[name, "% kept"] == 0
    numbers = {"number changed", "number inserted", "URL"}
    assert spoiled == {name} or (name in numbers and spoiled <= numbers)


def test_a_translator_that_cannot_read_capitals_fails_that_check_only():
    translate = for_each_text(lambda text: "" if text.isupper() else text)
    rows = {row.name: row for row in measure_robustness(translate, SOURCES, SOURCES)}
    assert rows["ALL CAPS"].score == 0
    assert rows["ALL CAPS"].loss == pytest.approx(100)
    assert rows["no final punctuation"].loss == pytest.approx(0)


def test_output_in_capitals_is_right_for_a_source_in_capitals():
    (row,) = (row for row in measure_robustness(echo, SOURCES, SOURCES) if row.name == "ALL CAPS")
    assert row.score == row.unperturbed


def test_a_translator_that_needs_final_punctuation_fails_without_it():
    translate = for_each_text(lambda text: text if text[-1:] in ".?!" else "")
    rows = {row.name: row for row in measure_robustness(translate, SOURCES, SOURCES)}
    assert rows["no final punctuation"].score == 0
    assert rows["no final punctuation"].unperturbed == pytest.approx(100)
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
def test_implausible_output_for_a_word_is_found(answer):
    translate = for_each_text(lambda text: text if " " in text else answer(text))
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
def test_plausible_output_for_a_word_passes(word, answer):
    assert is_plausible(word, answer)


@given(st.text(alphabet="ab ,1", max_size=30))
def test_repetition_is_a_unit_that_occurs_three_times(text):
    """Compare with the definition, applied at every position."""
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
    assert has_repetition(text) == expected


@pytest.mark.parametrize("kept", [0, 1, 5, 10, 19])
def test_sentences_missing_from_a_long_line_are_counted(kept):
    """The translator stops after some sentences."""

    def cut(text):
        first = re.findall(r".*?[.?!](?: |$)", text)[:kept]
        return text if len(text) < 300 else "".join(first)

    scores_by_row = scores(for_each_text(cut))
    present = scores_by_row["20 joined sentences", "% sentences present"]
    # One sentence in twenty may match words of another sentence.
    assert present == pytest.approx(5 * kept, abs=5)
    assert present < 100
    is_long_enough = scores_by_row["20 joined sentences", "% plausible length"] == 100
    assert is_long_enough == (kept > 15)


def test_a_missing_sentence_is_found_at_every_position():
    parts = SOURCES[:10]
    for missing in range(10):
        answer = " ".join(part for position, part in enumerate(parts) if position != missing)
        assert find_parts(answer, parts) == [position != missing for position in range(10)]
    assert find_parts("", parts) == [False] * 10
    assert find_parts("漢字。かな。", ["漢字。", "かな。", "한글。"]) == [True, True, False]
    assert find_parts("a b", ["a", "", "b"]) == [True, False, True]


def recorded(sources=SOURCES, **parameters):
    requests = []

    def translate(texts):
        requests.append(list(texts))
        return list(texts)

    return measure_robustness(translate, sources, sources, **parameters), requests


def test_the_same_seed_gives_the_same_requests():
    assert recorded() == recorded()
    rows, requests = recorded(seed=2)
    other_rows, other_requests = recorded(seed=3)
    assert requests[1] == other_requests[1]  # Capitals need no random numbers.
    assert requests[3:-1] != other_requests[3:-1]
    assert [row.name for row in rows] == [row.name for row in other_rows]


def test_a_sample_of_many_sentences_is_used():
    rows, requests = recorded(sentences(500), max_sentences=25)
    assert all(len(texts) <= 25 for texts in requests)
    assert requests[0] != sentences(500)[:25]
    assert set(requests[0]) <= set(sentences(500))
    assert rows[-1].count == 20


def test_without_references_there_are_no_noise_checks():
    names = [row.name for row in measure_robustness(echo, SOURCES)]
    assert not set(names) & set(NOISE_NAMES)
    assert set(PRESERVATION_NAMES) < set(names)


def test_a_check_without_usable_sentences_has_no_score():
    """And the translator never gets an empty list."""
    rows, requests = recorded(["漢"])
    assert all(requests)
    unused = {row.name: row for row in rows if row.count == 0}
    assert {"ALL CAPS", "no final punctuation", "number changed", "single word"} <= set(unused)
    assert all(row.score is None and row.loss is None for row in unused.values())


def test_empty_lines_are_not_used():
    rows, requests = recorded(["", "One two three four.", "  "])
    assert requests[0] == ["One two three four."]
    assert rows[-1] == RobustnessResult("1 joined sentence", "% sentences present", 1, 100.0)


def test_unusable_texts_are_refused():
    with pytest.raises(DataError, match="no sentence to perturb"):
        measure_robustness(echo, ["", " "])
    with pytest.raises(DataError, match="the source and reference 1 have 60 and 1 lines"):
        measure_robustness(echo, SOURCES, ["one"])
    with pytest.raises(ValueError, match="shorter"):
        measure_robustness(lambda texts: texts[1:], SOURCES)


def test_progress_is_reported_after_each_check():
    calls = []
    rows = measure_robustness(
        echo, SOURCES, SOURCES, on_check=lambda done, total: calls.append((done, total))
    )
    # The check of long lines gives two rows.
    total = len(rows) - 1
    assert calls == [(done, total) for done in range(1, total + 1)]


def test_the_seed_of_a_check_does_not_depend_on_its_name():
    """Scores of older evaluations stay comparable: the first inserted number, to the digit."""
    check = next(check for check in PRESERVATIONS if check.name == "number inserted")
    protected = check.protect("a b", Random(f"1 {check.seed_key}"))
    assert protected.text == "a 53722 b"
