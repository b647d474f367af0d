"""Text is split into sentences, and the pieces join to exactly the original text."""

import subprocess
import sys
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.text import sentences
from dragoman.text.sentences import Piece, fit, gap, halve, split

LANGUAGES = st.sampled_from(["en", "de", "ja", "zh", "ar", "hi", "it", "nl", "xx", ""])
AWKWARD = [
    ". ", "! ", "? ", "… ", "。", "！", "？", "।", "؟", "Mr. ", "z. B. ", "1. ", "a) ", "(", "[",
    '"', "“", "”", "«", "'", ",", ", ", ";", "、", "\t", "\r", "\x0b", "\x1c", "\x1f", "\x85",
    "\u2028", "\u3000", "\u200b", "\ufeff", " ", "   ", "word", "Word ", "שלום ", "😀", "👩🏽‍🚀",
    "e\u0301", "∯", "ȸ", "&ᓴ&", "♨",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(AWKWARD) | st.text(max_size=4), max_size=40).map("".join)

# Texts on which pysbd fails: a control character in a numbered list; a bracket in what looks like
# an abbreviation.
FAILURES = [("1. \x1c1. a", "en"), ("b.a b)a", "de")]


def join(pieces):
    return "".join(piece.text + piece.gap for piece in pieces)


def texts(pieces):
    return [piece.text for piece in pieces]


@given(TEXTS, LANGUAGES)
@example(*FAILURES[0])
@example(*FAILURES[1])
@settings(max_examples=300)
def test_pieces_and_gaps_join_to_the_text(text, language):
    assert join(split(text, language)) == text
    assert join(halve(text)) == text


@given(TEXTS.map(str.strip).filter(bool), LANGUAGES)
def test_a_piece_has_no_white_space_at_its_ends_and_is_never_empty(text, language):
    for piece in [*split(text, language), *halve(text)]:
        assert piece.text == piece.text.strip() != ""
        assert piece.gap.strip() == ""


@given(TEXTS, LANGUAGES, st.integers(1, 30))
def test_each_piece_fits_unless_it_is_a_single_character(text, language, max_size):
    def measure(parts):
        return [len(part.encode()) for part in parts]

    pieces = fit(text, language, measure, max_size)
    assert join(pieces) == text
    assert all(len(piece.encode()) <= max_size or len(piece) == 1 for piece in texts(pieces))


@given(TEXTS.map(str.strip).filter(lambda text: len(text) > 1))
def test_a_text_is_halved_into_two(text):
    assert len(halve(text)) == 2


def test_a_single_character_is_not_split():
    assert halve("x") == [Piece("x", "")]
    assert halve("") == [Piece("", "")]
    assert split("", "en") == []


def test_a_text_is_halved_after_a_comma_else_between_words_else_anywhere():
    assert halve("one two three, four five") == [
        Piece("one two three,", " "),
        Piece("four five", ""),
    ]
    assert halve("eins zwei  drei vier") == [Piece("eins zwei", "  "), Piece("drei vier", "")]
    assert halve("一二三四五，六七八九十") == [Piece("一二三四五，", ""), Piece("六七八九十", "")]
    assert halve("abcdef") == [Piece("abc", ""), Piece("def", "")]


@pytest.mark.parametrize("number", ["1,000,000", "10:30", "2019–2021"])
def test_a_number_is_not_split_if_the_text_can_be_split_between_words(number):
    pieces = fit(f"it is {number} or so", "xx", lambda parts: list(map(len, parts)), 12)
    assert any(number in piece for piece in texts(pieces))


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
    assert split("".join(expected), language) == [Piece(sentence, "") for sentence in expected]


def test_a_closing_quote_stays_with_its_sentence():
    assert texts(split("「いい天気。」行こう！", "xx")) == ["「いい天気。」", "行こう！"]
    assert texts(split('He said "No." Then he left.', "xx")) == ['He said "No."', "Then he left."]


@pytest.mark.parametrize("language", ["en", "xx"])
def test_no_sentence_is_split_because_the_text_is_long(language):
    expected = [
        f"Sentence {number} has {'very ' * (number % 30)}many words." for number in range(300)
    ]
    text = " ".join(expected)
    assert len(text) > 5 * sentences._WINDOW
    assert texts(split(text, language)) == expected


def test_a_long_text_without_sentences_is_split_between_words():
    text = " ".join(["word"] * 2000)
    pieces = split(text, "en")
    assert len(pieces) > 1
    assert all(set(piece.split()) == {"word"} for piece in texts(pieces))


@pytest.mark.parametrize(("text", "language"), FAILURES)
def test_the_regular_expression_splits_where_pysbd_fails(text, language):
    segmenter = sentences._segmenter(language)
    with pytest.raises(Exception, match=r"invalid literal|unbalanced"):
        segmenter.processor(text).process()
    assert join(split(text, language)) == text


@pytest.mark.parametrize("unit", ["।", "؟", ":", ";", "1. ", "\x85", "Mr. ", "(", '"', "😀", "a"])
@pytest.mark.parametrize("language", ["ar", "hi", "it"])
def test_no_text_takes_long(unit, language):
    """The search of pysbd for positions is quadratic in the sentences; we do not use it."""
    text = (unit * 4000)[:4000].strip() or "x"
    start = time.perf_counter()
    split(text, language)
    assert time.perf_counter() - start < 5  # Measured: below half a second.


def test_a_space_is_put_between_sentences_if_only_the_target_language_uses_spaces():
    assert gap("zh", "en") == gap("ja-JP", "de") == " "
    assert gap("zh", "ja") == gap("en", "zh") == gap("en", "de") == gap("", "") == ""


def test_pysbd_is_imported_without_warnings():
    """Python warns about some string literals of pysbd when it compiles them."""
    code = "from dragoman.text import sentences; print(sentences.split('A b. C d.', 'en'))"
    done = subprocess.run(
        [sys.executable, "-W", "always", "-X", "pycache_prefix=/nowhere", "-c", code],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert "C d." in done.stdout


def test_the_regular_expression_splits_without_pysbd(monkeypatch):
    monkeypatch.setitem(sys.modules, "pysbd", None)
    sentences._segmenter.cache_clear()
    try:
        assert texts(split("Here it is. There it is.", "en")) == ["Here it is.", "There it is."]
    finally:
        sentences._segmenter.cache_clear()


PARTS = [
    "word", "Word", "a", "b", "A", "I", "1", "2", "10", "1.5", "3.", "1.2.3", "v", "iv", "(", ")",
    "'", '"', "“", "”", "-", ",", ";", ":", ".", "!", "?", "...", "…", "。", "！", "「", "」", "（",
    "）", "|", "।", "؟", "،", "։", "።", "။", " ", " ", "  ", "\t", "\xa0", "Mr", "etc", "e.g",
    "p.m", "[1]", "«", "»", "'s", "é", "日本", "Yahoo!", "•", "⁃", "_", "\x1f", "\x0c", "\u2028",
    "\U000f0000",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(PARTS), max_size=8).map("".join).map(str.strip),
    st.sampled_from(["en", "de", "ru", "ja", "ar", "fa", "hi", "ur", "el", "hy", "my", "mr", "xx"]),
)
@settings(max_examples=300)
def test_the_quick_check_only_finds_texts_that_stay_whole(text, language):
    if text and not sentences._may_be_several(language).search(text):
        assert sentences._split_sentences(text, language) == [text]


def test_the_quick_check_finds_most_sentences():
    text = "The file, which is 1.5 MB large, could not be saved (again): the disk is full."
    assert not sentences._may_be_several("en").search(text)
    assert sentences._may_be_several("en").search(f"{text} {text}")
