"""Recommends a vocabulary size for a corpus.

Every id must occur often enough for its embedding to be learned, and the more ids there are, the
rarer each one is. Fewer ids make longer sequences of more general pieces. So a small corpus needs a
small vocabulary. The steps below are common practice, rounded:

    Multi30k, tens of thousands of pairs: ten thousand merges (Wu et al., 2021, and earlier work).
    Low resource: a few thousand are best (Sennrich and Zhang, 2019; Ding et al., 2019).
    The Transformer paper, millions of pairs: 37,000 for both languages (Vaswani et al., 2017).
    Rule of thumb: the largest size with most pieces seen a hundred times (Gowda and May, 2020).

All kinds of tokenizers use the same steps, so that compared vocabularies have the same size.
"""

from __future__ import annotations

from typing import NamedTuple

from dragoman.tokenizer.bytes import BYTES
from dragoman.tokenizer.interface import SPECIAL

STEPS = ((10_000, 4_000), (100_000, 8_000), (2_000_000, 16_000))
"""(maximum number of pairs, vocabulary size)."""

LARGEST = 32_000
"""The vocabulary size for larger corpora."""

SMALLEST = 1_000
"""Large enough for the bytes, the special tokens and an alphabet."""


class Advice(NamedTuple):
    """A vocabulary size and the reason for it."""

    vocabulary_size: int
    reason: str


def advise(
    pairs: int, kind: str = "sentencepiece", distinct: int | None = None, languages: int = 2
) -> Advice:
    """Recommend a vocabulary size for a corpus with this number of pairs.

    `distinct` is the number of different words in the text (for the kind characters: of different
    characters). A larger vocabulary would have nothing more to learn.
    """
    if kind == "bytes":
        size = BYTES + len(SPECIAL) + languages
        return Advice(size, "one id per byte for any text; nothing is learned")
    step = next((size for max_pairs, size in STEPS if pairs <= max_pairs), LARGEST)
    if distinct is not None and max(distinct, SMALLEST) < step:
        name = "characters" if kind == "characters" else "words"
        reason = f"the text contains only {distinct:,} different {name}"
        return Advice(max(distinct, SMALLEST), reason)
    return Advice(step, f"for {pairs:,} pairs: a larger corpus supports a larger vocabulary")
