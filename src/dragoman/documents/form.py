"""Keeps the form of short texts: capital letters, and punctuation at the end.

Headings, buttons and menu entries have a form that a model trained on sentences may not keep:
`SAVE FILE` is translated as `Save file` and written in capitals again, a text that begins with a
capital letter stays so, and a text without a full stop does not get one.
"""

from __future__ import annotations

import re

from dragoman.documents.guarding import MARK, Guarded, Item, free_text, items_of, marked_text
from dragoman.text.languages import base_language

_ENDINGS = ("...", *"….!?:;。！？：।۔")
_FULL_STOPS = frozenset(".。।۔")
_MIN_CAPITALS = 5
"""Shorter words in capitals are taken for abbreviations (HTML, JPEG)."""
_TITLE_LANGUAGES = frozenset({"en"})
"""Languages in which titles capitalize every long word."""
_DOTTED_LANGUAGES = frozenset({"az", "tr"})
"""Languages in which İ is the capital letter of i."""


def is_capitals(text: str) -> bool:
    """Whether a text is written in capitals and is more than an abbreviation."""
    if not text.isupper():
        return False
    letters = [character for character in text if character.isalpha()]
    # Letters of a script without capitals are not: HTMLファイル is no heading.
    return len(letters) >= _MIN_CAPITALS and all(map(str.isupper, letters))


def is_title(text: str) -> bool:
    """Whether every long word of a text, which is not a sentence, begins with a capital letter."""
    if text.endswith((".", "!", "?")):
        return False
    words = [word for word in re.findall(r"[^\W\d_]+", text) if len(word) > 3]
    return len(words) > 1 and all(word[0].isupper() for word in words)


def lower_capitals(body: Guarded) -> Guarded:
    """Return a text in capitals as an ordinary sentence, which the model knows better."""
    parts: list[str | Item] = []
    is_start = True
    for part in body:
        if isinstance(part, str):
            lowered = part.lower()
            parts.append(_capitalize(lowered) if is_start else lowered)
            is_start = is_start and not any(map(str.isalpha, part))
        else:
            parts.append(part)
    return tuple(parts)


def formed(body: Guarded, result: Guarded, target_language: str, *, is_alone: bool) -> Guarded:
    """Give the texts of a translation the form of its source; the items stay where they are."""
    source, target = marked_text(body), marked_text(result)
    text = keep_form(source, target, target_language, is_alone=is_alone)
    if text == target or text.count(MARK) != target.count(MARK) or MARK in free_text(result):
        return result
    first, *texts = text.split(MARK)
    parts: list[str | Item] = [first]
    for item, following in zip(items_of(result), texts, strict=True):
        parts += [item, following]
    return tuple(part for part in parts if part != "")


def keep_form(source: str, target: str, target_language: str, *, is_alone: bool) -> str:
    """Give a translation the form of its source; `is_alone`: the only segment of its unit."""
    if not target.strip():
        return target
    language = base_language(target_language)
    is_dotted = language in _DOTTED_LANGUAGES
    if is_capitals(source):
        return (target.replace("i", "İ") if is_dotted else target).upper()
    first = next((character for character in source if character.isalpha()), "")
    if first.isupper():
        target = _capitalize(target, is_dotted=is_dotted)
    if language in _TITLE_LANGUAGES and is_title(source):
        target = re.sub(r"[^\W\d_]{4,}", lambda match: _capitalize(match[0]), target)
    if is_alone:
        target = _keep_ending(source, target)
    return target


def _capitalize(text: str, *, is_dotted: bool = False) -> str:
    for position, character in enumerate(text):
        if character.isalpha():
            # Georgian letters have an upper case, but no sentence begins with it.
            upper = "İ" if is_dotted and character == "i" else character.title()
            return text if len(upper) != 1 else text[:position] + upper + text[position + 1 :]
        if not (character.isspace() or character in "\"'“„«‚(¿¡["):
            return text
    return text


def _keep_ending(source: str, target: str) -> str:
    """Drop a full stop that the source does not have; add a colon or dots that it has."""
    wanted, ending = _ending(source), _ending(target)
    start = len(target.rstrip()) - len(ending)
    if not wanted and ending in _FULL_STOPS:
        return target[:start] + target[start + 1 :]
    if wanted in ("...", "…", ":") and (not ending or ending in _FULL_STOPS):
        return target[:start] + wanted
    return target


def _ending(text: str) -> str:
    """Return the punctuation at the end of a text."""
    stripped = text.rstrip()
    return next((ending for ending in _ENDINGS if stripped.endswith(ending)), "")
