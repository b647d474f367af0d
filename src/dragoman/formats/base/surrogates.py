r"""Characters beyond U+FFFF, which some formats write as two `\uXXXX`: Java, JSON, iOS, Android."""

from __future__ import annotations

import re

_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")


def join_surrogates(text: str) -> str:
    """Make one character of each surrogate pair, and U+FFFD of each half that is alone."""
    return _SURROGATES.sub(_joined, text)


def utf16_escapes(character: str) -> str:
    r"""Return `\uXXXX` for a character, twice if it is beyond U+FFFF.

    Half of a pair is returned as it is: it is refused when the file is encoded.
    """
    if "\ud800" <= character <= "\udfff":
        return character
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def _joined(match: re.Match[str]) -> str:
    if len(match[0]) == 1:
        return "\ufffd"
    return match[0].encode("utf-16", "surrogatepass").decode("utf-16")
