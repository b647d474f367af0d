"""State that a decoder keeps between two steps of a search.

`Memory` is what the encoder computed from the source. `Cache` is what the decoder keeps of the
target so far. Both are immutable values: they are passed in and returned, and no module stores
them. Searches need only `reorder`, so each architecture has its own classes.

The Transformer's cache holds keys and values. Its length is the position of the next token.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import torch

from dragoman.shapes import Float, Int, Tensor


@runtime_checkable
class Memory(Protocol):
    """An encoded source batch."""

    def reorder(self, rows: Int[Tensor, " K"]) -> Memory:
        """Select these sentences, in this order; a sentence may occur several times or never."""


@runtime_checkable
class Cache(Protocol):
    """The state of the decoder after the target tokens so far."""

    def reorder(self, hypotheses: Int[Tensor, " N"], sentences: Int[Tensor, " K"] | None) -> Cache:
        """Select these hypotheses, in this order; one may occur several times or never.

        Hypotheses of one sentence are neighbors. `sentences` names the sentences that remain;
        None means that all remain.
        """


class KeysValues(NamedTuple):
    """The keys and values of one attention module."""

    keys: Float[Tensor, "B H S D"]
    values: Float[Tensor, "B H S D"]

    def append(self, later: KeysValues) -> KeysValues:
        """Return these keys and values, followed by later ones."""
        return KeysValues(
            torch.cat([self.keys, later.keys], dim=2), torch.cat([self.values, later.values], dim=2)
        )

    def select(self, rows: Int[Tensor, " K"]) -> KeysValues:
        """Return these rows, in this order."""
        return KeysValues(self.keys[rows], self.values[rows])


class LayerCache(NamedTuple):
    """The cache of one decoder layer."""

    target: KeysValues
    """Of the target so far. It grows by one position with each step."""
    source: KeysValues
    """Of the source. It is computed once."""


class TransformerCache(NamedTuple):
    """The caches of all decoder layers, from the bottom to the top."""

    layers: tuple[LayerCache, ...]

    @property
    def length(self) -> int:
        """How many target tokens have been read."""
        return self.layers[0].target.keys.shape[2]

    def reorder(
        self, hypotheses: Int[Tensor, " N"], sentences: Int[Tensor, " K"] | None
    ) -> TransformerCache:
        """Select hypotheses for the target part and sentences for the source part."""
        return TransformerCache(
            tuple(
                LayerCache(
                    layer.target.select(hypotheses),
                    layer.source if sentences is None else layer.source.select(sentences),
                )
                for layer in self.layers
            )
        )
