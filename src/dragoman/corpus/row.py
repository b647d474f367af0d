"""What flows through the corpus?

A row is one pair of texts with its number in the file it came from. What cannot be a row is a
reject, with a reason short enough to be counted. Nothing else comes out of a reader, so that
rows in = rows kept + rows dropped, by reason.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A pair of texts; `number` counts from 1 in its file."""

    number: int
    source: str
    target: str


class Reject(NamedTuple):
    """A place in a file where no row could be read."""

    number: int
    reason: str
    """A few fixed words for counting, as `not UTF-8`; never the text itself."""
