"""Toy tasks for small models: rules from sequences of symbols to sequences of symbols.

Each rule is so simple that the ability it needs is obvious: copy, reverse, look up. Examples are
drawn without end, so a model cannot memorize them.
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
"""The id of the first symbol; smaller ids are the special tokens."""

Draw = Callable[[random.Random, int], tuple[Sequence[int], Sequence[int]]]
"""From a random generator and a length, a source and its target, in symbols from zero."""


class Examples(NamedTuple):
    """A padded batch: the source, the decoder input and the expected output."""

    source: Int[Tensor, "B S"]
    is_real: Bool[Tensor, "B S"]
    target: Int[Tensor, "B T"]
    truth: Int[Tensor, "B T"]
    """Padding where no output is expected."""


@dataclass(frozen=True)
class ToyTask:
    """A rule, its number of symbols, and the range of source lengths."""

    draw: Draw
    symbols: int
    shortest: int
    longest: int

    @property
    def vocabulary(self) -> int:
        """The number of ids, special tokens included."""
        return FIRST + self.symbols

    def examples(self, count: int, rng: random.Random, length: int | None = None) -> Examples:
        """Draw a batch; with `length`, all sources have that length."""
        sources, targets = [], []
        for _ in range(count):
            chosen = rng.randint(self.shortest, self.longest) if length is None else length
            source, target = self.draw(rng, chosen)
            sources.append([FIRST + symbol for symbol in source] + [END])
            targets.append([BEGIN, *(FIRST + symbol for symbol in target), END])
        source_ids, target_ids = _pad(sources), _pad(targets)
        return Examples(source_ids, source_ids != PADDING, target_ids[:, :-1], target_ids[:, 1:])


def _pad(rows: list[list[int]]) -> Int[Tensor, "B T"]:
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [PADDING] * (longest - len(row)) for row in rows])


def _draw_symbols(rng: random.Random, symbols: int, length: int) -> list[int]:
    return [rng.randrange(symbols) for _ in range(length)]


def copy_task(symbols: int, shortest: int, longest: int) -> ToyTask:
    """Output the source."""

    def draw(rng: random.Random, length: int) -> tuple[list[int], list[int]]:
        source = _draw_symbols(rng, symbols, length)
        return source, source

    return ToyTask(draw, symbols, shortest, longest)


def reverse_task(symbols: int, shortest: int, longest: int) -> ToyTask:
    """Output the source in reverse."""

    def draw(rng: random.Random, length: int) -> tuple[list[int], list[int]]:
        source = _draw_symbols(rng, symbols, length)
        return source, source[::-1]

    return ToyTask(draw, symbols, shortest, longest)


def pair_rule_task(symbols: int, length: int, offsets: tuple[int, int], seed: int = 0) -> ToyTask:
    """Look up, at each position, a rule for the pair of symbols at two offsets.

    Each pair of symbols has its own random rule, so neither symbol alone determines the output.
    Beyond an end of the source, the symbol at that end counts.
    """
    rules_rng = random.Random(f"rules {seed}")  # noqa: S311
    rules = [[rules_rng.randrange(symbols) for _ in range(symbols)] for _ in range(symbols)]
    first_offset, second_offset = offsets

    def draw(rng: random.Random, length: int) -> tuple[list[int], list[int]]:
        source = _draw_symbols(rng, symbols, length)
        pairs = zip(_shift(source, first_offset), _shift(source, second_offset), strict=True)
        return source, [rules[first][second] for first, second in pairs]

    return ToyTask(draw, symbols, length, length)


def shift_task(symbols: int, length: int, offset: int) -> ToyTask:
    """Output, at each position, the symbol at an offset; a negative offset looks back."""

    def draw(rng: random.Random, length: int) -> tuple[list[int], list[int]]:
        source = _draw_symbols(rng, symbols, length)
        return source, _shift(source, offset)

    return ToyTask(draw, symbols, length, length)


def _shift(source: list[int], offset: int) -> list[int]:
    """The symbol at an offset from each position, clamped to the ends of the source."""
    last = len(source) - 1
    return [source[min(max(position + offset, 0), last)] for position in range(len(source))]
