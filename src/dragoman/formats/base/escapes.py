"""Writes characters as a fragment of HTML or XML writes them: as they are, or as references.

Clients escape in different ways: one sends `&quot;` and `&#x27;` and decodes the answer, another
sends `Tom & Jerry` and does not. Text is therefore written in the style of the fragment itself. A
`<` is only written as it is where it cannot begin a tag, and a `&` where it cannot begin a
reference, so that text never becomes markup.
"""

from __future__ import annotations

import html
import re

REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
"""A character reference or an entity."""

_TAG = re.compile(r"<[A-Za-z_/!?][^<>]*>")
_DEFAULTS = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_LONGEST_NAME = 40
_AFTER_AMPERSAND = re.compile(r"[A-Za-z0-9]*+(?![#;])")
_BEFORE_TEXT = re.compile(r"<[\s0-9=]")


class Escapes:
    """The style of one fragment."""

    def __init__(self, markup: str) -> None:
        if "&" not in markup and "<" not in markup and ">" not in markup:
            self._references = _DEFAULTS
            self._bare: set[str] = set()
            self._special = re.compile("[&<>]")
            return
        text = _TAG.sub("", markup)
        references: dict[str, str] = {}
        for match in REFERENCE.finditer(text):
            character = html.unescape(match[0])
            if len(character) == 1:
                references.setdefault(character, match[0])
        self._bare = set(REFERENCE.sub("", text)) & {*references, *_DEFAULTS}
        """Characters that the fragment also writes as they are."""
        self._references = {
            character: reference
            for character, reference in {**_DEFAULTS, **references}.items()
            if character in _DEFAULTS or character not in self._bare
        }
        self._special = re.compile(f"[{re.escape(''.join(self._references))}]")

    def escape(self, text: str) -> str:
        """Return text as the content of an element."""
        return self._special.sub(self._replacement, text)

    def _replacement(self, match: re.Match[str]) -> str:
        character, text, position = match[0], match.string, match.start()
        if character in self._bare and _is_text(character, text, position):
            return character
        return self._references[character]


def _is_text(character: str, text: str, position: int) -> bool:
    """Whether a special character has no special meaning where it is."""
    if character == "<":
        return _BEFORE_TEXT.match(text, position) is not None
    if character == ">":
        return not text.endswith("]]", 0, position)
    name = _AFTER_AMPERSAND.match(text, position + 1, position + _LONGEST_NAME)
    # Some references need no semicolon: `&copy2`.
    return name is not None and html.unescape("&" + name[0]) == "&" + name[0]
