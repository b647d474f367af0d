"""What does the decoder remember between two steps?

A value: passed in and returned, never changed, kept by nobody. Its length says at which place
the next token stands, so no layer counts for the others.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from dragoman.shapes import Float, Int, Tensor


class KeysValues(NamedTuple):
    """The keys and values of one attention."""

    keys: Float[Tensor, "B H S D"]
    values: Float[Tensor, "B H S D"]

    def then(self, later: KeysValues) -> KeysValues:
        """These, followed by later ones."""
        return KeysValues(
            torch.cat([self.keys, later.keys], dim=2), torch.cat([self.values, later.values], dim=2)
        )


class LayerCache(NamedTuple):
    """What one decoder layer remembers."""

    target: KeysValues
    """Of the target so far; grows with each step."""
    source: KeysValues
    """Of the source; computed once."""


class Cache(NamedTuple):
    """What all decoder layers remember, from the bottom to the top."""

    layers: tuple[LayerCache, ...]

    @property
    def length(self) -> int:
        """How many target tokens have been read."""
        return self.layers[0].target.keys.shape[2]

    def reorder(self, hypotheses: Int[Tensor, " N"], sentences: Int[Tensor, " K"] | None) -> Cache:
        """Take these hypotheses, in this order; one may be taken often, or never.

        Hypotheses that share a source follow each other. Where sentences are done and leave,
        `sentences` says which stay.
        """
        return Cache(
            tuple(
                LayerCache(
                    KeysValues(*(each[hypotheses] for each in layer.target)),
                    layer.source
                    if sentences is None
                    else KeysValues(*(each[sentences] for each in layer.source)),
                )
                for layer in self.layers
            )
        )
