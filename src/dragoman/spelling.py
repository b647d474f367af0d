"""How is a text spelled, so that equal words become equal tokens?

The same word can be written in several ways that look alike: composed or not, with a soft hyphen
inside, with a hard space before. A model learns each way on its own, and duplicates hide from
each other. So a text is rewritten in normal form C (Unicode Standard Annex 15), every kind of
white space becomes one plain space, and what cannot be seen is taken out:

- control characters, soft hyphens, byte order marks, tags, and the brackets of bidirectional
  text, which steer a display and belong to no language;
- left-to-right and right-to-left marks, unless the text has letters that run to the left;
- the space of no width, unless the text is in a script of south-east Asia that parts words by it.

The two joiners stay everywhere: Persian and the scripts of India spell with them, and so do
emoji. Visible format characters, as the Arabic year sign, stay as well.

A text that is clean already is recognised without being rebuilt, for almost every text is.
Preparation and translation spell alike: what a model is asked must look like what it learned.
"""

from __future__ import annotations

import re
from unicodedata import combining, is_normalized, normalize

_MARKS = "\u061c\u200e\u200f"
_JOINERS = "\u200c\u200d"
_SPACE_OF_NO_WIDTH = "\u200b"

_NEVER_SEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # controls, but for those that are white space
    "\u00ad\ufeff"  # soft hyphen, byte order mark
    "\u202a-\u202e\u2060-\u2064\u2066-\u206f"  # brackets of bidirectional text, word joiner
    "\ufff9-\ufffb\U000e0001\U000e0020-\U000e007f]"  # annotations, tags
)
_RUNS_TO_THE_LEFT = re.compile(
    "[\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
    "\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_PARTS_WORDS_UNSEEN = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u1950-\u19df\u19e0-\u19ff\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf]"
)
# Python sorts the accents on one letter by insertion, so that a tower of them takes the square of
# its height: in a text long enough for that to matter, it is cut to what no language exceeds
# (the "stream-safe" format of Annex 15).
_LONG = 2000
_HIGHEST = 30
_TOWER = re.compile(rf"[^\w\s]{{{_HIGHEST},}}")
_DELETE_MARKS = str.maketrans("", "", _MARKS)


def respell(text: str) -> str:
    """Give the text as it should be written; nothing, if nothing in it can be seen."""
    # `isprintable` is false for every control, format character and odd space: one quick look.
    is_clean = (
        len(text) <= _LONG
        and text.isprintable()
        and "  " not in text
        and text[:1] != " "
        and text[-1:] != " "
        and is_normalized("NFC", text)
    )
    if is_clean:
        return text
    text = _NEVER_SEEN.sub("", text)
    if not _RUNS_TO_THE_LEFT.search(text):
        text = text.translate(_DELETE_MARKS)
    if not _PARTS_WORDS_UNSEEN.search(text):
        text = text.replace(_SPACE_OF_NO_WIDTH, "")
    if len(text) > _LONG:
        text = _TOWER.sub(_lower, text)
    text = normalize("NFC", " ".join(text.split()))
    return text if text.strip(_JOINERS + _MARKS + _SPACE_OF_NO_WIDTH + " ") else ""


def _lower(tower: re.Match[str]) -> str:
    height, kept = 0, []
    for character in tower[0]:
        height = height + 1 if combining(character) else 0
        if height <= _HIGHEST:
            kept.append(character)
    return "".join(kept)
