"""How does BPE-dropout cut the same text differently each time, and the same way again?

BPE-dropout (Provilkov et al., 2020, algorithm 1; not in the lectures) trains a model on many
spellings of a word, so that it learns what pieces are made of. For each word, of characters:

    repeat: find all merges of neighbours that the vocabulary knows
            drop each of them with probability p, in this step only
            do the earliest learned of those that are left, until none is left

With p = 0 this is byte-pair encoding, with p = 1 it spells by characters.

SentencePiece can sample too, but it never tries a dropped merge again, which cuts finer than the
paper at the same p; and its chance cannot be set back. Here chance is a function of (seed, epoch,
sample, side): a run that is resumed, or divided over other machines, sees the same cuts.

Merges are tried one by one, so only the places of the drops are drawn: with "how many merges are
done before the next drop" from the geometric distribution, most words pass without any work.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterator
from hashlib import blake2b
from itertools import accumulate, count, pairwise, repeat
from operator import mul
from struct import Struct
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.tokenizer.sentencepiece import SPACE_MARK, SentencePiece, byte_piece

NEVER = sys.maxsize
"""The rank of two neighbours that no merge joins, and the number of merges before the first drop
when nothing is ever dropped."""

STEPS_TABLED = 256
"""How far the geometric distribution is written down; beyond, it begins anew, for it is
memoryless. By table and not by logarithm, whose last bit differs between machines."""

EIGHT_NUMBERS = Struct("<8Q")
"""Of 64 bits each: a hash, read as chance. It is the same on every machine, and cheaper to set
up for each text than a generator with a state."""

WORDS_KEPT = 1 << 16
"""Frequent words come early, so when so many are known, no more are kept."""

LONGEST_KEPT = 32
"""In characters; longer ones, as sentences of scripts without spaces, hardly come again."""


class Word(NamedTuple):
    """What is known of a word before chance has a say."""

    symbols: list[int]
    """The space mark, then its characters, or the bytes of those without a piece."""
    ranks: list[int]
    """The piece that each symbol would make with the next, or NEVER; a lower one goes first."""
    ids: list[int]
    """With no merge dropped."""
    merges: int
    """How many it takes to get there."""


class Dropout:
    """Cuts texts with a SentencePiece vocabulary and some chance."""

    def __init__(self, tokenizer: SentencePiece, rate: float, seed: int) -> None:
        if not 0 <= rate <= 1:
            raise ValueError(f"found a rate of {rate}, expected a probability")
        self.rate = rate
        self.seed = seed
        self._bytes = [tokenizer.id_of(byte_piece(byte)) for byte in range(256)]
        self._space, self._characters, self._merges = _tables(tokenizer.learned())
        none_yet = accumulate(repeat(1 - rate, STEPS_TABLED), mul)
        self._drops_by = [int((1 - each) * 2**64) for each in none_yet]
        self._words: dict[str, Word] = {}

    def encode(self, text: str, epoch: int, sample: int, side: int) -> list[int]:
        """Cut a text into ids; the same arguments always give the same cut."""
        if not text:
            return []
        drops = self._drops(epoch, sample, side)
        merges_left, ids = next(drops), []
        for name in text.split(" "):
            word = self._words.get(name) or self._word(name)
            if word.merges <= merges_left:
                merges_left -= word.merges
                ids += word.ids
            else:
                symbols = word.symbols.copy()
                merges_left = self._merge(symbols, word.ranks.copy(), merges_left, drops)
                ids += symbols
        return ids

    def _drops(self, epoch: int, sample: int, side: int) -> Iterator[int]:
        """Say again and again how many merges are done before the next drop."""
        if self.rate == 0:
            yield from repeat(NEVER)
        merges = 0
        for block in count():
            key = f"{self.seed} {epoch} {sample} {side} {block}"
            for number in EIGHT_NUMBERS.unpack(blake2b(key.encode()).digest()):
                more = bisect_right(self._drops_by, number)
                merges += more
                if more < STEPS_TABLED:
                    yield merges
                    merges = 0

    def _merge(
        self, symbols: list[int], ranks: list[int], merges_left: int, drops: Iterator[int]
    ) -> int:
        """Merge symbols in place, dropping by chance; give the merges left before the next drop.

        Lists are scanned from end to end, in C: for words that is faster than a heap in Python.
        """
        while ranks and (best := min(ranks)) != NEVER:
            if merges_left:
                place = ranks.index(best)
            else:
                known = sorted((rank, at) for at, rank in enumerate(ranks) if rank != NEVER)
                merges_left, dropped = next(drops), 1
                while not merges_left and dropped < len(known):
                    merges_left, dropped = next(drops), dropped + 1
                if dropped == len(known):
                    break
                best, place = known[dropped]
            merges_left -= 1
            symbols[place] = best
            del symbols[place + 1], ranks[place]
            if place:
                ranks[place - 1] = self._merges.get((symbols[place - 1], best), NEVER)
            if place < len(ranks):
                ranks[place] = self._merges.get((best, symbols[place + 1]), NEVER)
        return merges_left

    def _word(self, name: str) -> Word:
        symbols = [self._space]
        for character in name:
            known = self._characters.get(character)
            if known is None:
                symbols += [self._bytes[byte] for byte in character.encode()]
            else:
                symbols.append(known)
        ranks = [self._merges.get(pair, NEVER) for pair in pairwise(symbols)]
        ids = symbols.copy()
        self._merge(ids, ranks.copy(), NEVER, iter(()))
        word = Word(symbols, ranks, ids, len(symbols) - len(ids))
        if len(name) <= LONGEST_KEPT and len(self._words) < WORDS_KEPT:
            self._words[name] = word
        return word


def _tables(learned: dict[str, int]) -> tuple[int, dict[str, int], dict[tuple[int, int], int]]:
    """The space mark; the characters that text may hold; and which two pieces make a third."""
    merges = {}
    for piece, number in learned.items():
        halves = [(piece[:place], piece[place:]) for place in range(1, len(piece))]
        pairs = [
            (learned[left], learned[right])
            for left, right in halves
            if left in learned and right in learned
        ]
        if SPACE_MARK in piece[1:] or (halves and not pairs):
            raise DataError(
                f"the piece {piece!r} is not made of two others inside a word, so this vocabulary "
                "is not one of byte-pair encoding; prepare the data again, or turn dropout off"
            )
        merges.update(dict.fromkeys(pairs, number))
    # ▁ in a text is a sign that is spelled by its bytes; only a space becomes the space mark.
    characters = {piece: number for piece, number in learned.items() if len(piece) == 1}
    return characters.pop(SPACE_MARK), characters, merges
