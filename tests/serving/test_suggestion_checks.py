"""What the checks find in suggestions, and what they leave alone."""

from datetime import UTC, datetime, timedelta

import pytest

from dragoman.serving.stores.suggestions import Suggestion
from dragoman.serving.suggestion_checks import MAX_PER_DAY, MAX_TEXTS, check_suggestions

MONDAY = datetime(2026, 3, 2, 9, tzinfo=UTC)
SOURCE = "The train to the harbor leaves in the early morning."
MACHINE = "Der Zug zum Hafen fährt am frühen Morgen."
GOOD = "Die Bahn zum Hafen fährt am frühen Morgen ab."
ENGLISH = "We have not seen any of these ships before today."
FRENCH = "Le train pour le port part de bonne heure le matin."


def suggestion(number=1, source_text=SOURCE, text=GOOD, **more):
    values = {
        "id": number,
        "owner": "",
        "source": "en",
        "target": "de",
        "source_text": source_text,
        "machine_text": MACHINE,
        "suggestion": text,
        "model": "v1",
        "created": MONDAY,
        "status": "new",
        "decided_by": "",
        "decided": None,
    }
    return Suggestion(**values | more)


def problems(*suggestions):
    return [set(row.problems) for row in check_suggestions(suggestions)]


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        (SOURCE, GOOD, set()),
        (SOURCE, MACHINE, {"no change"}),
        (SOURCE, f"  {MACHINE}\n", {"no change"}),
        (GOOD, SOURCE, {"swapped sides"}),
        (FRENCH, GOOD, {"wrong source language"}),
        (SOURCE, FRENCH, {"wrong target language"}),
        (SOURCE, ENGLISH, {"wrong target language"}),
        (FRENCH, ENGLISH, {"wrong source language"}),
        (SOURCE, SOURCE, {"wrong target language", "target is a copy"}),
        (SOURCE, f"{GOOD} Mehr auf https://spam.example/x", {"placeholders differ"}),
        ("Delete %d files in <b>all</b> folders?", "Dateien in allen Ordnern löschen?",
         {"placeholders differ"}),
        (SOURCE, "Bahn Bahn Bahn Bahn Bahn Bahn Bahn Bahn Bahn", {"repetition on one side"}),
        (SOURCE, f"{GOOD} {MACHINE} {GOOD}", {"length ratio too large"}),
        (SOURCE, "Поезд в порт отправляется рано утром.",
         {"wrong target language", "wrong target script"}),
        ("The ticket costs 25 euros for every adult.",
         "Die Karte kostet 99 Euro für jeden Erwachsenen.", {"numbers differ"}),
        (SOURCE, "\u200b \u200b", {"empty"}),
    ],
)  # fmt: skip
def test_problems_of_one_suggestion(source, text, expected):
    (found,) = problems(suggestion(source_text=source, text=text))
    assert found == expected


def test_the_first_of_equal_suggestions_is_kept():
    assert problems(suggestion(1), suggestion(2, text=f"{GOOD} "), suggestion(3)) == [
        set(),
        {"duplicate"},
        {"duplicate"},
    ]
    # What was rejected once is not approved without a look when it is sent again.
    assert problems(suggestion(1, status="rejected"), suggestion(2)) == [set(), {"duplicate"}]
    # In another language pair it is another suggestion.
    assert problems(suggestion(1), suggestion(2, target="nds")) == [set(), set()]


def test_two_suggestions_for_one_text_contradict_each_other():
    other = "Das Bähnchen zum Hafen fährt am frühen Morgen ab."
    assert problems(suggestion(1), suggestion(2, text=other)) == [{"contradiction"}] * 2
    assert problems(suggestion(1, status="approved"), suggestion(2, text=other))[1] == {
        "contradiction"
    }
    # A decision ends the contradiction.
    assert problems(suggestion(1), suggestion(2, text=other, status="rejected")) == [set(), set()]


def test_swapped_sides_that_are_too_short_to_detect_a_language():
    assert problems(suggestion(1, "harbor", "Hafen"), suggestion(2, "Hafen", "harbor"))[1] >= {
        "swapped sides"
    }
    assert problems(suggestion(1, "OK", "OK", machine_text="OKAY")) == [set()]
    # Where the languages can be detected, the right one has no problem.
    assert problems(suggestion(1), suggestion(2, GOOD, SOURCE)) == [set(), {"swapped sides"}]


def test_one_suggestion_for_many_texts():
    animals = ("ant", "bear", "cat", "dog", "eel", "fox", "goat", "hen", "ibis", "jay", "koala")
    sources = [f"The {animal} sleeps under the old bridge." for animal in animals]
    spam = "Kauft heute die guten Pillen Nummer"
    rows = [
        suggestion(number, source, f"{spam} {number}!", machine_text="")
        for number, source in enumerate(sources, 1)
    ]
    for row in problems(*rows):
        assert "same suggestion for many texts" in row
    for row in problems(*rows[:MAX_TEXTS]):
        assert "same suggestion for many texts" not in row
    # Texts that differ only in a number may have translations that differ only in a number.
    pages = [suggestion(n, f"See page {n}.", f"Siehe Seite {n}.") for n in range(1, 30)]
    assert problems(*pages) == [set()] * len(pages)


@pytest.mark.parametrize(
    ("owner", "share", "expected"),
    [("5c439179a3aa", 0.6, True), ("5c439179a3aa", 0.4, False), ("", 0.6, False),
     ("user alice", 0.6, False)],
)  # fmt: skip
def test_one_key_that_floods_the_server(owner, share, expected):
    count = MAX_PER_DAY + 1
    others = int(count / share) - count
    rows = [suggestion(n, f"{SOURCE} {n}", f"{GOOD} {n}", owner=owner) for n in range(count)]
    rows += [
        suggestion(count + n, f"{ENGLISH} {n}", f"{GOOD} {n}", owner=f"other {n}")
        for n in range(others)
    ]
    # The same key on a quiet day.
    rows.append(
        suggestion(
            9999, f"{SOURCE} x", f"{GOOD} x", owner=owner, created=MONDAY + timedelta(days=1)
        )
    )
    flooding = ["too many from one key" in row for row in problems(*rows)]
    assert flooding == [expected] * count + [False] * (others + 1)
