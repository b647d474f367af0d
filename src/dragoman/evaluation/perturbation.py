"""Perturb one sentence: capitals, missing punctuation, typos, inserted numbers and placeholders.

Each function makes one change to one sentence. Functions that need random numbers take them from
the given generator, so the same seed gives the same change.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby
from random import Random
from string import ascii_letters, ascii_lowercase
from typing import NamedTuple

TYPO_RATE = 0.1
"""Share of the words with at least four letters that get a typo."""

_MIN_TYPO_LENGTH = 4
_FINAL_PUNCTUATION = " .!?…。！？।؟"
# A translation may change the separator of thousands and decimals to any of these.
_SEPARATOR = "[.,'’\u00a0\u2009\u202f ]?"
_NUMBER = re.compile(r"\d(?:[.,'’\u00a0\u2009\u202f]?\d)+")


class ProtectedText(NamedTuple):
    """A sentence with a span that a translation must keep unchanged."""

    text: str
    pattern: re.Pattern[str]
    """Matches the span: once in the text and once in a good translation."""


def uppercase(text: str) -> str:
    """Write the sentence in capitals."""
    return text.upper()


def drop_final_punctuation(text: str) -> str:
    """Remove the punctuation at the end."""
    return text.rstrip(_FINAL_PUNCTUATION)


def add_typos(text: str, rng: Random) -> str:
    """Swap, drop or double letters in some of the words."""
    return "".join(
        _typo(run, rng)
        if is_word and len(run) >= _MIN_TYPO_LENGTH and rng.random() < TYPO_RATE
        else run
        for is_word, run in split_words(text)
    )


def _typo(word: str, rng: Random) -> str:
    position = rng.randrange(len(word) - 1)
    before, after = word[:position], word[position + 2 :]
    first, second = word[position], word[position + 1]
    swapped, dropped, doubled = second + first, second, first + first + second
    # Swapping two equal letters changes nothing, so that result is excluded.
    typos = {before + middle + after for middle in (swapped, dropped, doubled)} - {word}
    return rng.choice(sorted(typos))


def split_words(text: str) -> Iterator[tuple[bool, str]]:
    """Split a text into words (letters with their combining marks) and the text between them."""
    for is_word, run in groupby(text, lambda letter: unicodedata.category(letter)[0] in "LM"):
        yield is_word, "".join(run)


def change_number(text: str, rng: Random) -> ProtectedText | None:
    """Change every digit of the first number with two digits or more; None if there is none."""
    match = _NUMBER.search(text)
    if not match:
        return None
    # A new digit differs from the old one. It is never 0: a translation may add or drop zeros at
    # either end of a number.
    digits = (
        str((int(letter) + rng.randrange(8)) % 9 + 1) for letter in match[0] if letter.isdigit()
    )
    number = re.sub(r"\d", lambda _: next(digits), match[0])
    changed = text[: match.start()] + number + text[match.end() :]
    return ProtectedText(changed, _same_digits(number))


def insert_number(text: str, rng: Random) -> ProtectedText:
    """Insert a number."""
    number = "".join(rng.choices("123456789", k=rng.randint(3, 6)))
    return ProtectedText(_insert(text, number, rng), _same_digits(number))


def insert_url(text: str, rng: Random) -> ProtectedText:
    """Insert the address of a web page."""
    host, page = (_random_word(letters, rng) for letters in (ascii_lowercase, ascii_letters))
    return _insert_literal(text, f"https://{host}.example.org/{page}?id={rng.randrange(99)}", rng)


def insert_email(text: str, rng: Random) -> ProtectedText:
    """Insert an email address."""
    person, host = (_random_word(ascii_lowercase, rng) for _ in range(2))
    return _insert_literal(text, f"{person}@{host}.example.org", rng)


def insert_printf_placeholder(text: str, rng: Random) -> ProtectedText:
    """Insert a placeholder of `printf`."""
    return _insert_literal(text, "%s", rng)


def insert_named_placeholder(text: str, rng: Random) -> ProtectedText:
    """Insert a placeholder with a name in braces."""
    return _insert_literal(text, "{name}", rng)


def insert_tags(text: str, rng: Random) -> ProtectedText:
    """Put one word between tags for bold text."""
    words = text.split(" ")
    position = rng.randrange(len(words))
    words[position] = f"<b>{words[position]}</b>"
    return ProtectedText(" ".join(words), re.compile(r"<b>[^<>]*\w[^<>]*</b>"))


def _insert_literal(text: str, literal: str, rng: Random) -> ProtectedText:
    # ASCII word boundaries: in Chinese, the next word follows without a space.
    pattern = re.compile(rf"(?<!\w){re.escape(literal)}(?!\w)", re.ASCII)
    return ProtectedText(_insert(text, literal, rng), pattern)


def _insert(text: str, literal: str, rng: Random) -> str:
    """Insert between two words, or after the only one."""
    words = text.split(" ")
    words.insert(rng.randint(1, max(len(words) - 1, 1)), literal)
    return " ".join(words)


def _same_digits(number: str) -> re.Pattern[str]:
    digits = _SEPARATOR.join(letter for letter in number if letter.isdigit())
    return re.compile(rf"(?<!\d){digits}(?!\d)")


def _random_word(letters: str, rng: Random) -> str:
    return "".join(rng.choices(letters, k=rng.randint(5, 9)))
