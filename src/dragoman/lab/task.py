"""What can a small model be asked to learn?

A task is a rule from sequences of symbols to sequences of symbols, so plain that one sees at once
which ability it needs: to copy, to turn round, to look something up. Examples are drawn without
end, so what is learned cannot be learned by heart.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from dragoman.shapes import Bool, Int, Tensor
from dragoman.tokenizer.interface import BEGIN, END, PADDING, SPECIAL

FIRST = len(SPECIAL)
"""The id of the first symbol; the ids below it frame and pad."""

Draw = Callable[[random.Random, int], tuple[Sequence[int], Sequence[int]]]
"""From chance and a length, a source and its target, in symbols counted from zero."""


class Examples(NamedTuple):
    """A padded batch: what is read, what was said so far, and what is to be said."""

    source: Int[Tensor, "B S"]
    is_real: Bool[Tensor, "B S"]
    target: Int[Tensor, "B T"]
    truth: Int[Tensor, "B T"]
    """Padding where nothing is to be said."""


@dataclass(frozen=True)
class Task:
    """A rule, its symbols, and how long its sources are."""

    draw: Draw
    symbols: int
    shortest: int
    longest: int

    @property
    def vocabulary(self) -> int:
        """How many ids there are, the special ones included."""
        return FIRST + self.symbols

    def examples(self, count: int, chance: random.Random, length: int | None = None) -> Examples:
        """Draw a batch; of one length, if it is said."""
        sources, targets = [], []
        for _ in range(count):
            chosen = chance.randint(self.shortest, self.longest) if length is None else length
            source, target = self.draw(chance, chosen)
            sources.append([FIRST + each for each in source] + [END])
            targets.append([BEGIN, *(FIRST + each for each in target), END])
        read, framed = _padded(sources), _padded(targets)
        return Examples(read, read != PADDING, framed[:, :-1], framed[:, 1:])


def _padded(rows: list[list[int]]) -> Int[Tensor, "B T"]:
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [PADDING] * (longest - len(row)) for row in rows])


def copying(symbols: int, shortest: int, longest: int) -> Task:
    """Say what was read."""

    def draw(chance: random.Random, length: int) -> tuple[list[int], list[int]]:
        source = [chance.randrange(symbols) for _ in range(length)]
        return source, source

    return Task(draw, symbols, shortest, longest)


def reversing(symbols: int, shortest: int, longest: int) -> Task:
    """Say it backwards."""

    def draw(chance: random.Random, length: int) -> tuple[list[int], list[int]]:
        source = [chance.randrange(symbols) for _ in range(length)]
        return source, source[::-1]

    return Task(draw, symbols, shortest, longest)


def ruling(symbols: int, length: int, places: tuple[int, int], seed: int = 0) -> Task:
    """Say at each place what a book of rules says of the symbols at two places seen from there.

    "If this and that, then so": each pair of symbols has a rule of its own, drawn by chance, so
    that neither symbol alone tells the answer. Beyond an end, the symbol at the end counts.
    """
    chance = random.Random(f"rules {seed}")  # noqa: S311
    rules = [[chance.randrange(symbols) for _ in range(symbols)] for _ in range(symbols)]
    one, other = places

    def draw(chance: random.Random, length: int) -> tuple[list[int], list[int]]:
        source = [chance.randrange(symbols) for _ in range(length)]
        these, those = (_seen_from_each(source, away) for away in (one, other))
        return source, [rules[this][that] for this, that in zip(these, those, strict=True)]

    return Task(draw, symbols, length, length)


def shifting(symbols: int, length: int, away: int) -> Task:
    """Say at each place the symbol so many places further on; before it, if that is negative."""

    def draw(chance: random.Random, length: int) -> tuple[list[int], list[int]]:
        source = [chance.randrange(symbols) for _ in range(length)]
        return source, _seen_from_each(source, away)

    return Task(draw, symbols, length, length)


def _seen_from_each(source: list[int], away: int) -> list[int]:
    """The symbol so far away from each place, or the one at the end that it lies beyond."""
    last = len(source) - 1
    return [source[min(max(place + away, 0), last)] for place in range(len(source))]
