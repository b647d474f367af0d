"""Codes of clients are matched with the languages of models, and have English names."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.language_names import ALIASES, LANGUAGES
from dragoman.text.languages import language_name, match_code

ISO_CODES = Path("/usr/share/iso-codes/json/iso_639-2.json")


@pytest.mark.parametrize(
    ("wanted", "available", "match"),
    [
        ("DE", ["en", "de"], "de"),
        ("de", ["EN", "DE"], "DE"),
        ("EN-GB", ["en", "de"], "en"),
        ("en_US", ["de", "en"], "en"),
        ("EN-GB", ["en", "en-GB"], "en-GB"),
        ("en", ["en-GB", "en-US"], "en-US"),
        ("en", ["en-GB", "en-AU"], "en-GB"),
        ("pt", ["pt-BR", "pt-PT"], "pt-PT"),
        ("pt", ["pt-BR"], "pt-BR"),
        ("PT-PT", ["pt"], "pt"),
        ("pt-PT", ["pt-BR"], None),
        ("pb", ["pt", "pt-BR"], "pt-BR"),
        ("pb", ["pt"], "pt"),
        ("pt-BR", ["pb"], "pb"),
        ("zh", ["zh-Hans"], "zh-Hans"),
        ("zh", ["zh-Hant"], "zh-Hant"),
        ("zh", ["zh-Hant", "zh-Hans"], "zh-Hans"),
        ("zh-HANS", ["zh"], "zh"),
        ("zh-Hans", ["zh-Hant", "zh-Hans"], "zh-Hans"),
        ("zh-Hant", ["zh"], None),
        ("zt", ["zh", "zh-Hant"], "zh-Hant"),
        ("zt", ["zh-Hans"], None),
        ("zh_TW", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("zh-CN", ["zh-Hans", "zh-Hant"], "zh-Hans"),
        ("zh-Hant-HK", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("zh-Hant", ["zh-CN", "zh-TW"], "zh-TW"),
        ("iw", ["he"], "he"),
        ("he", ["iw"], "iw"),
        ("no", ["nb"], "nb"),
        ("nb", ["no"], "no"),
        ("nb", ["no", "nb"], "nb"),
        ("no", ["nn"], None),
        ("eng", ["en"], "en"),
        ("ger", ["de"], "de"),
        ("en", ["eng"], "eng"),
        ("sr@latin", ["sr", "sr-Latn"], "sr-Latn"),
        ("sr-Latn", ["sr"], None),
        ("sr", ["sr-Latn"], "sr-Latn"),
        ("en-Latn", ["en"], "en"),
        ("es-419", ["es"], "es"),
        ("de-1996", ["de"], "de"),
        ("fil", ["tl"], "tl"),
        ("auto", ["en", "de"], None),
        ("", ["en"], None),
        ("e", ["en"], None),
        ("en", [], None),
    ],
)
def test_the_language_that_a_client_means_is_found(wanted, available, match):
    assert match_code(wanted, available) == match


@given(
    st.lists(st.sampled_from(sorted(LANGUAGES)), min_size=1, unique=True),
    st.data(),
)
def test_a_code_that_is_available_always_matches_itself(available, data):
    wanted = data.draw(st.sampled_from(available))
    assert match_code(wanted, available) == wanted
    assert match_code(wanted.upper(), iter(available)) == wanted


@given(st.text(max_size=12), st.lists(st.text(max_size=12), max_size=4))
def test_any_text_may_be_asked_for(wanted, available):
    match = match_code(wanted, available)
    assert match is None or match in available
    assert isinstance(language_name(wanted), str)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("de", "German"),
        ("DE", "German"),
        ("deu", "German"),
        ("zh", "Chinese"),
        ("zh-Hans", "Chinese (Simplified)"),
        ("zh_TW", "Chinese (Traditional)"),
        ("zt", "Chinese (Traditional)"),
        ("pt-BR", "Portuguese (Brazil)"),
        ("pb", "Portuguese (Brazil)"),
        ("en-GB", "English (United Kingdom)"),
        ("es-419", "Spanish (Latin America)"),
        ("sr-Latn-RS", "Serbian (Latin, Serbia)"),
        ("en-XX", "English (XX)"),
        ("no", "Norwegian"),
        ("iw", "Hebrew"),
        ("fil", "Filipino"),
        ("tlh", "tlh"),
        ("", ""),
    ],
)
def test_a_code_has_an_english_name(code, name):
    assert language_name(code) == name


@pytest.mark.skipif(not ISO_CODES.exists(), reason="needs the Debian package iso-codes")
def test_the_table_is_that_of_the_standard():
    entries = json.loads(ISO_CODES.read_text(encoding="utf-8"))["639-2"]
    standard = {entry["alpha_2"]: entry for entry in entries if "alpha_2" in entry}
    # Serbo-Croatian was withdrawn.
    assert {code for code in LANGUAGES if len(code) == 2} - {"sh"} == set(standard)
    for code, entry in standard.items():
        assert ALIASES[entry["alpha_3"]] == code
        assert ALIASES[entry.get("bibliographic", entry["alpha_3"])] == code
