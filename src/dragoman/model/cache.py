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

    def reorder(self, rows: Int[Tensor, " K"]) -> Cache:
        """Take these sentences, in this order; one may be taken often, or never."""
        return Cache(
            tuple(
                LayerCache(*(KeysValues(each.keys[rows], each.values[rows]) for each in layer))
                for layer in self.layers
            )
        )
