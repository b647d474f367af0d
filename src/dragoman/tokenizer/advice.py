"""How large should a vocabulary be?

Every id needs to be seen often enough for its vector to be learned, and the more ids there are,
the rarer each one is; fewer ids make longer sequences of more general pieces. So: small text,
small vocabulary. The steps below are folklore, and round:

    Multi30k, tens of thousands of pairs: ten thousand merges (Wu et al., 2021, and before).
    Low resource: vocabularies of some thousands win (Sennrich and Zhang, 2019; Ding et al., 2019).
    The paper, some millions of pairs: 37,000 for both languages (Vaswani et al., 2017).
    Rule of thumb: the largest for which most pieces are seen a hundred times (Gowda and May, 2020).

The same steps serve all kinds, so that what is compared has the same size.
"""

from __future__ import annotations

from typing import NamedTuple

from dragoman.tokenizer.bytes import BYTES
from dragoman.tokenizer.interface import SPECIAL

STEPS = ((10_000, 4_000), (100_000, 8_000), (2_000_000, 16_000))
"""Up to so many pairs, so large."""

LARGEST = 32_000
"""For all the text beyond."""

SMALLEST = 1_000
"""Bytes, special tokens and an alphabet fit into it."""


class Advice(NamedTuple):
    """A size, and why."""

    vocabulary_size: int
    reason: str


def advise(
    pairs: int, kind: str = "sentencepiece", distinct: int | None = None, languages: int = 2
) -> Advice:
    """Advise a size for a corpus of so many pairs.

    `distinct` is how many different words the text holds, or characters for the kind characters:
    beyond it, there would be nothing left to learn.
    """
    if kind == "bytes":
        size = BYTES + len(SPECIAL) + languages
        return Advice(size, "every byte has its id, whatever the text; nothing is learned")
    step = next((size for most, size in STEPS if pairs <= most), LARGEST)
    if distinct is not None and max(distinct, SMALLEST) < step:
        name = "characters" if kind == "characters" else "words"
        reason = f"the text has no more than {distinct:,} different {name}"
        return Advice(max(distinct, SMALLEST), reason)
    return Advice(step, f"for {pairs:,} pairs: the larger the text, the more pieces it can teach")
