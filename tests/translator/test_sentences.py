"""Is a text cut where sentences end, and are the pieces together the text, to the letter?"""

import subprocess
import sys
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman import sentences
from dragoman.sentences import Piece, fit, gap, halve, split

LANGUAGES = st.sampled_from(["en", "de", "ja", "zh", "ar", "hi", "it", "nl", "xx", ""])
AWKWARD = [
    ". ", "! ", "? ", "… ", "。", "！", "？", "।", "؟", "Mr. ", "z. B. ", "1. ", "a) ", "(", "[",
    '"', "“", "”", "«", "'", ",", ", ", ";", "、", "\t", "\r", "\x0b", "\x1c", "\x1f", "\x85",
    "\u2028", "\u3000", "\u200b", "\ufeff", " ", "   ", "word", "Word ", "שלום ", "😀", "👩🏽‍🚀",
    "e\u0301", "∯", "ȸ", "&ᓴ&", "♨",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(AWKWARD) | st.text(max_size=4), max_size=40).map("".join)

# What has broken pysbd: a control character in a numbered list; what looks like an abbreviation
# and holds a bracket.
BREAKS = [("1. \x1c1. a", "en"), ("b.a b)a", "de")]


def together(pieces):
    return "".join(piece.text + piece.gap for piece in pieces)


def texts(pieces):
    return [piece.text for piece in pieces]


@given(TEXTS, LANGUAGES)
@example(*BREAKS[0])
@example(*BREAKS[1])
@settings(max_examples=300)
def test_pieces_and_gaps_are_the_text(text, language):
    assert together(split(text, language)) == text
    assert together(halve(text)) == text


@given(TEXTS.map(str.strip).filter(bool), LANGUAGES)
def test_a_piece_has_no_space_at_its_ends_and_is_never_nothing(text, language):
    for piece in [*split(text, language), *halve(text)]:
        assert piece.text == piece.text.strip() != ""
        assert piece.gap.strip() == ""


@given(TEXTS, LANGUAGES, st.integers(1, 30))
def test_each_piece_fits_unless_it_is_a_single_character(text, language, most):
    def measure(parts):
        return [len(part.encode()) for part in parts]

    pieces = fit(text, language, measure, most)
    assert together(pieces) == text
    assert all(len(each.encode()) <= most or len(each) == 1 for each in texts(pieces))


@given(TEXTS.map(str.strip).filter(lambda text: len(text) > 1))
def test_a_text_is_halved_into_two(text):
    assert len(halve(text)) == 2


def test_a_single_letter_stays_whole():
    assert halve("x") == [Piece("x", "")]
    assert halve("") == [Piece("", "")]
    assert split("", "en") == []


def test_halves_are_cut_behind_a_comma_then_between_words_then_anywhere():
    assert halve("one two three, four five") == [
        Piece("one two three,", " "),
        Piece("four five", ""),
    ]
    assert halve("eins zwei  drei vier") == [Piece("eins zwei", "  "), Piece("drei vier", "")]
    assert halve("一二三四五，六七八九十") == [Piece("一二三四五，", ""), Piece("六七八九十", "")]
    assert halve("abcdef") == [Piece("abc", ""), Piece("def", "")]


@pytest.mark.parametrize("number", ["1,000,000", "10:30", "2019–2021"])
def test_a_number_is_not_cut_where_words_can_be(number):
    pieces = fit(f"it is {number} or so", "xx", lambda parts: list(map(len, parts)), 12)
    assert any(number in each for each in texts(pieces))


SENTENCES = {
    "en": ["Mr. Smith paid $3.50 to the U.S. office.", "Did he?", "Yes!"],
    "de": ["Wir kommen z. B. am 3. Mai.", "Dann gehen wir."],
    "en-GB": ["Mr. Smith came.", "He left."],
    "de_AT": ["Wir kommen z. B. morgen.", "Dann nicht."],
    "xx": ["Kto to?", "«To já.»", "Ano…", "Dobře."],
    "": ["One.", "Two."],
}


@pytest.mark.parametrize("language", SENTENCES)
def test_sentences_are_found(language):
    expected = SENTENCES[language]
    for space in (" ", "  ", "\t"):
        assert texts(split(space.join(expected), language)) == expected


@pytest.mark.parametrize("language", ["ja", "zh", "xx"])
def test_sentences_without_spaces_are_found(language):
    expected = ["今日は雨です。", "本当？", "はい！"]
    assert split("".join(expected), language) == [Piece(each, "") for each in expected]


def test_a_closing_quote_stays_with_its_sentence():
    assert texts(split("「いい天気。」行こう！", "xx")) == ["「いい天気。」", "行こう！"]
    assert texts(split('He said "No." Then he left.', "xx")) == ['He said "No."', "Then he left."]


@pytest.mark.parametrize("language", ["en", "xx"])
def test_no_sentence_is_cut_because_the_text_is_long(language):
    expected = [
        f"Sentence {number} has {'very ' * (number % 30)}many words." for number in range(300)
    ]
    text = " ".join(expected)
    assert len(text) > 5 * sentences._WINDOW
    assert texts(split(text, language)) == expected


def test_without_sentences_a_long_text_is_cut_between_words():
    text = " ".join(["word"] * 2000)
    pieces = split(text, "en")
    assert len(pieces) > 1
    assert all(set(each.split()) == {"word"} for each in texts(pieces))


@pytest.mark.parametrize(("text", "language"), BREAKS)
def test_where_pysbd_breaks_the_plain_rule_cuts(text, language):
    segmenter = sentences._segmenter(language)
    with pytest.raises(Exception, match=r"invalid literal|unbalanced"):
        segmenter.processor(text).process()
    assert together(split(text, language)) == text


@pytest.mark.parametrize("unit", ["।", "؟", ":", ";", "1. ", "\x85", "Mr. ", "(", '"', "😀", "a"])
@pytest.mark.parametrize("language", ["ar", "hi", "it"])
def test_no_text_takes_long(unit, language):
    """What pysbd adds to find places is the square of the sentences; we do not ask for it."""
    text = (unit * 4000)[:4000].strip() or "x"
    start = time.perf_counter()
    split(text, language)
    assert time.perf_counter() - start < 5  # Measured: below half a second.


def test_a_space_comes_between_sentences_where_only_the_target_has_them():
    assert gap("zh", "en") == gap("ja-JP", "de") == " "
    assert gap("zh", "ja") == gap("en", "zh") == gap("en", "de") == gap("", "") == ""


def test_pysbd_is_imported_without_a_word():
    """Some of its strings are such that Python warns where it compiles them anew."""
    code = "from dragoman import sentences; print(sentences.split('A b. C d.', 'en'))"
    done = subprocess.run(
        [sys.executable, "-W", "always", "-X", "pycache_prefix=/nowhere", "-c", code],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert "C d." in done.stdout


def test_without_pysbd_the_plain_rule_cuts(monkeypatch):
    monkeypatch.setitem(sys.modules, "pysbd", None)
    sentences._segmenter.cache_clear()
    try:
        assert texts(split("Here it is. There it is.", "en")) == ["Here it is.", "There it is."]
    finally:
        sentences._segmenter.cache_clear()
