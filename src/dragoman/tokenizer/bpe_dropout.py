"""BPE-dropout: splits the same text differently in each epoch, and reproducibly.

BPE-dropout (Provilkov et al., 2020, algorithm 1; not in the lectures) trains a model on many
segmentations of a word, so that it learns what pieces are made of. For each word, starting from
characters:

    repeat: find all merges of neighbors that the vocabulary contains
            drop each of them with probability p, in this iteration only
            apply the one that was learned first among the rest, until none is left

With p = 0 this is byte-pair encoding; with p = 1 it splits into characters.

SentencePiece can sample too, but it never tries a dropped merge again, which makes shorter pieces
than the paper at the same p, and its random generator cannot be reset. Here the randomness is a
function of (seed, epoch, sample, side): a run that is resumed, or distributed over other machines,
sees the same segmentations.

Merges are tried one by one, so only the positions of the drops are sampled: the number of merges
before the next drop has a geometric distribution, and most words need no further work.
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
from dragoman.tokenizer.interface import BpeVocabulary

NEVER = sys.maxsize
"""The rank of two neighbors that no merge joins, and the number of merges before the first drop
if nothing is ever dropped."""

TABLE_SIZE = 256
"""The number of tabulated values of the geometric distribution. Beyond them it starts again,
because it is memoryless. A table is used and not a logarithm, whose last bit differs between
machines."""

EIGHT_NUMBERS = Struct("<8Q")
"""A hash of 64 bytes as eight random numbers of 64 bits. It is the same on every machine, and for
each text it is cheaper than a random generator with a state."""

CACHED_WORDS = 1 << 16
"""The maximum number of words in the cache. Frequent words come early, so the cache is never
cleared."""

MAX_CACHED_WORD_LENGTH = 32
"""In characters. Longer words, such as sentences of scripts without spaces, rarely occur again."""


class Word(NamedTuple):
    """What is known about a word before any merge is dropped."""

    symbols: list[int]
    """The ids of the space mark and of its characters, or the bytes of those without a piece."""
    ranks: list[int]
    """The piece that each symbol forms with the next, or NEVER; a lower rank is merged first."""
    ids: list[int]
    """The ids if no merge is dropped."""
    merges: int
    """The number of merges from the symbols to the ids."""


class BpeDropout:
    """Splits texts with a BPE vocabulary, dropping merges at random."""

    def __init__(self, vocabulary: BpeVocabulary, rate: float, seed: int) -> None:
        if not 0 <= rate <= 1:
            raise ValueError(f"found a rate of {rate}, expected a probability")
        self.rate = rate
        self.seed = seed
        self._bytes = vocabulary.byte_ids
        self._space, self._characters, self._merges = _tables(vocabulary)
        none_dropped = accumulate(repeat(1 - rate, TABLE_SIZE), mul)
        self._drop_thresholds = [int((1 - probability) * 2**64) for probability in none_dropped]
        self._words: dict[str, Word] = {}

    def encode(self, text: str, epoch: int, sample: int, side: int) -> list[int]:
        """Split a text into ids; the same arguments always give the same ids."""
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
        """Yield, without end, the number of merges before the next drop."""
        if self.rate == 0:
            yield from repeat(NEVER)
        merges = 0
        for block in count():
            key = f"{self.seed} {epoch} {sample} {side} {block}"
            for number in EIGHT_NUMBERS.unpack(blake2b(key.encode()).digest()):
                more = bisect_right(self._drop_thresholds, number)
                merges += more
                if more < TABLE_SIZE:
                    yield merges
                    merges = 0

    def _merge(
        self, symbols: list[int], ranks: list[int], merges_left: int, drops: Iterator[int]
    ) -> int:
        """Merge symbols in place with random drops; return the merges left before the next drop.

        Lists are scanned from end to end, in C: for words this is faster than a heap in Python.
        """
        while ranks and (best := min(ranks)) != NEVER:
            if merges_left:
                position = ranks.index(best)
            else:
                possible = sorted((rank, at) for at, rank in enumerate(ranks) if rank != NEVER)
                merges_left, dropped = next(drops), 1
                while not merges_left and dropped < len(possible):
                    merges_left, dropped = next(drops), dropped + 1
                if dropped == len(possible):
                    break
                best, position = possible[dropped]
            merges_left -= 1
            symbols[position] = best
            del symbols[position + 1], ranks[position]
            if position:
                ranks[position - 1] = self._merges.get((symbols[position - 1], best), NEVER)
            if position < len(ranks):
                ranks[position] = self._merges.get((best, symbols[position + 1]), NEVER)
        return merges_left

    def _word(self, name: str) -> Word:
        symbols = [self._space]
        for character in name:
            symbol = self._characters.get(character)
            if symbol is None:
                symbols += [self._bytes[byte] for byte in character.encode()]
            else:
                symbols.append(symbol)
        ranks = [self._merges.get(pair, NEVER) for pair in pairwise(symbols)]
        ids = symbols.copy()
        self._merge(ids, ranks.copy(), NEVER, iter(()))
        word = Word(symbols, ranks, ids, len(symbols) - len(ids))
        if len(name) <= MAX_CACHED_WORD_LENGTH and len(self._words) < CACHED_WORDS:
            self._words[name] = word
        return word


def _tables(
    vocabulary: BpeVocabulary,
) -> tuple[int, dict[str, int], dict[tuple[int, int], int]]:
    """Return the id of the space mark, the ids of the characters, and the merges."""
    pieces, merges = vocabulary.pieces, {}
    for piece, number in pieces.items():
        halves = [(piece[:end], piece[end:]) for end in range(1, len(piece))]
        pairs = [
            (pieces[left], pieces[right])
            for left, right in halves
            if left in pieces and right in pieces
        ]
        if vocabulary.space in piece[1:] or (halves and not pairs):
            raise DataError(
                f"the piece {piece!r} is not made of two other pieces inside a word, expected a "
                "vocabulary of byte-pair encoding; prepare the data again, or set "
                "training.bpe_dropout=0"
            )
        merges.update(dict.fromkeys(pairs, number))
    # A ▁ in the text is encoded by its bytes; only a space becomes the space mark.
    characters = {piece: number for piece, number in pieces.items() if len(piece) == 1}
    return characters.pop(vocabulary.space), characters, merges
