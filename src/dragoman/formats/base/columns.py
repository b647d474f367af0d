"""The width of a text in columns, and where Chinese and Japanese text may be broken."""

from __future__ import annotations

import re
import unicodedata

_IDEOGRAPHIC = re.compile(
    "[\u3001-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff]"
)
# Characters that do not begin or end a line in Chinese and Japanese.
_NOT_FIRST = frozenset("、。，．・：；？！」』）】〕〉》ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ％")
_NOT_LAST = frozenset("「『（【〔〈《")


def columns(text: str) -> int:
    """Return the width of a text in a terminal."""
    return len(text) if text.isascii() else sum(map(_width, text))


def is_ideographic(character: str) -> bool:
    """Whether a character belongs to a script that is written without spaces."""
    return _IDEOGRAPHIC.match(character) is not None


def may_break(before: str, after: str) -> bool:
    """Whether a line may end between two characters without a space."""
    if not (is_ideographic(before) and is_ideographic(after)):
        return False
    return after not in _NOT_FIRST and before not in _NOT_LAST


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
