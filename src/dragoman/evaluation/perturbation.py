"""How is a sentence disturbed?

People shout, forget the full stop and mistype; programs put in numbers, addresses and places for
later. Each function here does one of these to one sentence, and draws from the chance it is given,
so that the same seed disturbs the same sentence in the same way.
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
"""Of the words that are long enough."""

_LONG_ENOUGH = 4
_STOPS = " .!?…。！？।؟"
# Thousands and decimals are parted by any of these, and a translation may change them.
_PARTED_BY = "[.,'’\u00a0\u2009\u202f ]?"
_NUMBER = re.compile(r"\d(?:[.,'’\u00a0\u2009\u202f]?\d)+")


class Charge(NamedTuple):
    """A sentence with something in it that must come out as it is."""

    text: str
    pattern: re.Pattern[str]
    """Finds it, once in the text and once in a good translation."""


def shout(text: str) -> str:
    """Write it in capitals."""
    return text.upper()


def drop_stop(text: str) -> str:
    """Leave out what ends it."""
    return text.rstrip(_STOPS)


def mistype(text: str, chance: Random) -> str:
    """Swap two letters of a word, drop one or double one, in some of the words."""
    return "".join(
        _typo(run, chance)
        if is_word and len(run) >= _LONG_ENOUGH and chance.random() < TYPO_RATE
        else run
        for is_word, run in words_and_gaps(text)
    )


def _typo(word: str, chance: Random) -> str:
    place = chance.randrange(len(word) - 1)
    before, one, two, after = word[:place], word[place], word[place + 1], word[place + 2 :]
    swapped, dropped, doubled = two + one, two, one + one + two
    # Two letters that are the same are swapped for nothing.
    found = {before + middle + after for middle in (swapped, dropped, doubled)} - {word}
    return chance.choice(sorted(found))


def words_and_gaps(text: str) -> Iterator[tuple[bool, str]]:
    """Cut a text into runs of letters, with the marks on them, and what parts them."""
    for is_word, run in groupby(text, lambda each: unicodedata.category(each)[0] in "LM"):
        yield is_word, "".join(run)


def change_number(text: str, chance: Random) -> Charge | None:
    """Change every figure of the first number, if there is one of two figures or more."""
    found = _NUMBER.search(text)
    if not found:
        return None
    # Never the figure that was, and never zero, which may stand or fall at either end of a number.
    figures = (
        str((int(each) + chance.randrange(8)) % 9 + 1) for each in found[0] if each.isdigit()
    )
    number = re.sub(r"\d", lambda _: next(figures), found[0])
    return Charge(text[: found.start()] + number + text[found.end() :], _same_figures(number))


def put_number(text: str, chance: Random) -> Charge:
    """Put in a number."""
    number = "".join(chance.choices("123456789", k=chance.randint(3, 6)))
    return Charge(_put(text, number, chance), _same_figures(number))


def put_web_address(text: str, chance: Random) -> Charge:
    """Put in the address of a page."""
    host, page = (_letters(letters, chance) for letters in (ascii_lowercase, ascii_letters))
    return _put_literal(
        text, f"https://{host}.example.org/{page}?id={chance.randrange(99)}", chance
    )


def put_mail_address(text: str, chance: Random) -> Charge:
    """Put in the address of a person."""
    person, host = (_letters(ascii_lowercase, chance) for _ in range(2))
    return _put_literal(text, f"{person}@{host}.example.org", chance)


def put_format(text: str, chance: Random) -> Charge:
    """Put in a place that `printf` fills."""
    return _put_literal(text, "%s", chance)


def put_name(text: str, chance: Random) -> Charge:
    """Put in a place with a name in braces."""
    return _put_literal(text, "{name}", chance)


def put_tags(text: str, chance: Random) -> Charge:
    """Make a word bold."""
    words = text.split(" ")
    place = chance.randrange(len(words))
    words[place] = f"<b>{words[place]}</b>"
    return Charge(" ".join(words), re.compile(r"<b>[^<>]*\w[^<>]*</b>"))


def _put_literal(text: str, what: str, chance: Random) -> Charge:
    # ASCII: in Chinese, the next word follows without a space.
    pattern = re.compile(rf"(?<!\w){re.escape(what)}(?!\w)", re.ASCII)
    return Charge(_put(text, what, chance), pattern)


def _put(text: str, what: str, chance: Random) -> str:
    """Put it between two words, or behind the only one."""
    words = text.split(" ")
    words.insert(chance.randint(1, max(len(words) - 1, 1)), what)
    return " ".join(words)


def _same_figures(number: str) -> re.Pattern[str]:
    figures = _PARTED_BY.join(each for each in number if each.isdigit())
    return re.compile(rf"(?<!\d){figures}(?!\d)")


def _letters(letters: str, chance: Random) -> str:
    return "".join(chance.choices(letters, k=chance.randint(5, 9)))
