"""The two things that a corpus reader yields: rows and rejects.

A `Row` is one pair of texts with its number in the file. A `Reject` stands for a position in the
file where no row could be read, with a short reason that can be counted. A reader yields nothing
else, so that rows read = rows kept + rows dropped, by reason.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A pair of texts; `number` counts from 1 in its file."""

    number: int
    source: str
    target: str


class Reject(NamedTuple):
    """A position in a file where no row could be read."""

    number: int
    reason: str
    """A few fixed words, such as `not UTF-8`, so that rejects can be counted by reason. It never
    contains text of the file."""


NO_TRANSLATION = "no translation"
"""The reason for an entry whose source exists but whose target is empty or marked as a draft."""
