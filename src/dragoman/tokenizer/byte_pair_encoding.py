"""Byte-pair encoding, plain and slow: every merge can be read one by one.

    learn:  split the words into characters; join the most frequent pair of neighbors everywhere;
            repeat                                  Sennrich et al., 2016, algorithm 1; [APPLY-DL]
    split:  split a word into characters; join the neighbors that form the piece that was learned
            first; repeat until no two neighbors form a piece

Real vocabularies are learned and used by the library in `sentencepiece.py`, which gives the same
pieces from the same merges. Like the library, this file marks the beginning of a word (▁ in place
of its space; Sennrich et al. mark the end), joins the leftmost of equal pairs first, and resolves
ties by the length of the piece and then by the alphabet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

SPACE_MARK = "▁"
"""How SentencePiece writes a space and the beginning of a text."""


class Merge(NamedTuple):
    """Two neighbors that are joined from now on."""

    left: str
    right: str
    frequency: int
    """How often they were neighbors in the training text."""


def learn_merges(word_counts: Mapping[str, int], limit: int) -> Iterator[Merge]:
    """Learn at most `limit` merges from the words of a text and their counts; yield each one."""
    words = {word: list(SPACE_MARK + word) for word in word_counts}
    for _ in range(limit):
        counts: Counter[tuple[str, str]] = Counter()
        for word, symbols in words.items():
            for pair in pairwise(symbols):
                counts[pair] += word_counts[word]
        if not counts:
            return
        left, right = min(
            counts, key=lambda pair: (-counts[pair], len("".join(pair)), "".join(pair))
        )
        yield Merge(left, right, counts[left, right])
        for symbols in words.values():
            while (left, right) in pairwise(symbols):
                join_at(symbols, list(pairwise(symbols)).index((left, right)))


def split_word(word: str, ranks: Mapping[str, int]) -> Iterator[list[str]]:
    """Split a word: yield its characters, and then its symbols after each merge.

    `ranks` has a number for each piece; a piece that was learned earlier has a lower one.
    """
    symbols = list(SPACE_MARK + word)
    yield symbols.copy()
    while True:
        formed = [left + right for left, right in pairwise(symbols)]
        known = [piece for piece in formed if piece in ranks]
        if not known:
            return
        join_at(symbols, formed.index(min(known, key=ranks.__getitem__)))
        yield symbols.copy()


def join_at(symbols: list[str], position: int) -> None:
    """Replace the symbol at a position and the next one by the piece that they form."""
    symbols[position : position + 2] = [symbols[position] + symbols[position + 1]]
