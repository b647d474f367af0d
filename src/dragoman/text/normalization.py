"""Normalize text, so that equal words become equal tokens.

The same word can be encoded in several ways that look alike: composed or decomposed, with a soft
hyphen inside, with a no-break space before it. A model learns each form separately, and duplicates
are not recognized. `normalize_text` therefore applies Unicode normalization form C (Unicode
Standard Annex 15), replaces each run of white space by one space, and removes invisible characters:

- control characters, soft hyphens, byte order marks, tags, and the control characters of
  bidirectional text, which change only the display;
- left-to-right marks, right-to-left marks and Arabic letter marks, unless the text has letters of a
  right-to-left script;
- the zero-width space, unless the text is in a script of Southeast Asia, where it separates words.

The zero-width joiner and the zero-width non-joiner are always kept: Persian, the scripts of India
and emoji need them. Visible format characters, for example the Arabic year sign, are kept as well.

Most texts are already normalized. A quick check finds them, and they are returned unchanged.
Preparation and translation both use this function, because the input of a model must be normalized
like its training text.
"""

from __future__ import annotations

import re
from unicodedata import combining, is_normalized, normalize

_MARKS = "\u061c\u200e\u200f"
_JOINERS = "\u200c\u200d"
_ZERO_WIDTH_SPACE = "\u200b"

_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # control characters, except white space
    "\u00ad\ufeff"  # soft hyphen, byte order mark
    "\u202a-\u202e\u2060-\u2064\u2066-\u206f"  # controls of bidirectional text, word joiner
    "\ufff9-\ufffb\U000e0001\U000e0020-\U000e007f]"  # annotations, tags
)
_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
    "\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_ZERO_WIDTH_SPACE_SCRIPTS = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u1950-\u19df\u19e0-\u19ff\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf]"
)
# `unicodedata.normalize` sorts the combining characters of a letter in quadratic time. Long texts
# are therefore limited to 30 combining characters per letter, more than any language uses (the
# stream-safe format of Annex 15).
_LONG_TEXT = 2000
"""In characters."""
_MAX_COMBINING = 30
_MANY_COMBINING = re.compile(rf"[^\w\s]{{{_MAX_COMBINING},}}")
_DELETE_MARKS = str.maketrans("", "", _MARKS)


def normalize_text(text: str) -> str:
    """Normalize a text; the result is empty if the text has no visible character."""
    # `isprintable` is False for control characters, format characters and all spaces except U+0020.
    is_clean = (
        len(text) <= _LONG_TEXT
        and text.isprintable()
        and "  " not in text
        and text[:1] != " "
        and text[-1:] != " "
        and is_normalized("NFC", text)
    )
    if is_clean:
        return text
    text = _INVISIBLE.sub("", text)
    if not _RIGHT_TO_LEFT.search(text):
        text = text.translate(_DELETE_MARKS)
    if not _ZERO_WIDTH_SPACE_SCRIPTS.search(text):
        text = text.replace(_ZERO_WIDTH_SPACE, "")
    if len(text) > _LONG_TEXT:
        text = _MANY_COMBINING.sub(_limit_combining, text)
    text = normalize("NFC", " ".join(text.split()))
    return text if text.strip(_JOINERS + _MARKS + _ZERO_WIDTH_SPACE + " ") else ""


def _limit_combining(match: re.Match[str]) -> str:
    count, kept = 0, []
    for character in match[0]:
        count = count + 1 if combining(character) else 0
        if count <= _MAX_COMBINING:
            kept.append(character)
    return "".join(kept)
