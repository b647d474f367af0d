"""Translation memories: equal and similar texts, codes and numbers, and files without a memory."""

from __future__ import annotations

import pytest

from dragoman.documents.memory import TranslationMemory
from dragoman.errors import DataError
from dragoman.formats.base.document import Code

BOLD, BOLD_END = Code("<b>", "open", 1), Code("</b>", "close", 1)
ITALIC, ITALIC_END = Code("<i>", "open", 2), Code("</i>", "close", 2)


def test_a_similar_text_with_other_numbers_is_no_match():
    memory = TranslationMemory(threshold=0.8)
    memory.add(("Wait 5 minutes for it.",), ("Warten Sie 5 Minuten.",), "a.tmx:1")
    assert memory.find(("Wait 6 minutes for it.",)) is None
    match = memory.find(("Wait 5 minutes for him.",))
    assert match is not None
    assert match.content == ("Warten Sie 5 Minuten.",)


def test_only_an_equal_text_has_the_score_one():
    memory = TranslationMemory(threshold=0.9)
    memory.add(("a" * 100_000,), ("b",), "a.tmx:1")
    match = memory.find(("a" * 99_999 + "c",))
    assert match is not None
    assert 0.99 < match.score < 1


def test_pairs_that_the_translation_swaps_are_found_again():
    memory = TranslationMemory()
    # A format numbers the pairs of each content from 1.
    target = (
        Code("<i>", "open", 1), "casa", Code("</i>", "close", 1), " ",
        Code("<b>", "open", 2), "roja", Code("</b>", "close", 2),
    )  # fmt: skip
    source = (BOLD, "red", BOLD_END, " ", ITALIC, "house", ITALIC_END)
    memory.add(source, target, "a.tmx:1")
    match = memory.find(source)
    assert match is not None
    assert match.content == (ITALIC, "casa", ITALIC_END, " ", BOLD, "roja", BOLD_END)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.html", "<p>Hello</p>"),
        ("new.po", 'msgid ""\nmsgstr ""\n\nmsgid "a"\nmsgstr ""\n'),
    ],
)
def test_a_file_without_translations_is_no_memory(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=f"{name} has no finished translation from en to de"):
        TranslationMemory.load([path], "en", "de")
    with pytest.raises(DataError, match="there is no file"):
        TranslationMemory.load([tmp_path / "missing.tmx"], "en", "de")


def test_a_memory_of_another_language_is_refused(tmp_path):
    path = tmp_path / "fr.po"
    text = 'msgid ""\nmsgstr "Language: fr\\n"\n\nmsgid "Open"\nmsgstr "Ouvrir"\n'
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"fr\.po names French .* expected German"):
        TranslationMemory.load([path], "en", "de")
    assert len(TranslationMemory.load([path], "en", "fr")) == 1
