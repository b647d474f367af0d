"""The three ways in which position vectors enter the model.

    added:         x + p                       all lectures
    concatenated:  [x; p]                      [CS182]
    projected:     q + p, k + p, v + p         [CS224N]

Each class is a `Position` that uses one hook for the vectors it holds. In layers above the bottom,
concatenation replaces the position features of the layer below, so the width stays the same.
"""

from __future__ import annotations

import torch

from dragoman.model.parts import Position, PositionVectors
from dragoman.shapes import Float, Tensor


class Added(Position):
    """The vector is added to the input of a layer."""

    def __init__(self, vectors: PositionVectors) -> None:
        super().__init__(0)
        self.vectors = vectors

    def apply_to_input(self, x: Float[Tensor, "B T E"], start: int) -> Float[Tensor, "B T M"]:
        """Add the vectors."""
        output: Tensor = x + self.vectors(start, x.shape[1], x)
        return output


class Concatenated(Position):
    """The vector fills the last features of a layer's input; the word has the first features."""

    def __init__(self, vectors: PositionVectors, word_features: int) -> None:
        super().__init__(0)
        self.vectors = vectors
        self.word_features = word_features

    def apply_to_input(self, x: Float[Tensor, "B T E"], start: int) -> Float[Tensor, "B T M"]:
        """Append the vectors to the word features; replace the vectors of a lower layer."""
        vectors = self.vectors(start, x.shape[1], x)
        expanded = vectors.unsqueeze(0).expand(x.shape[0], -1, -1)
        return torch.cat([x[..., : self.word_features], expanded], dim=-1)


class Projected(Position):
    """The vector, of the size of a head, is added to queries, keys and values of every head."""

    def __init__(self, vectors: PositionVectors) -> None:
        super().__init__(0)
        self.vectors = vectors

    def apply_to_heads(
        self,
        queries: Float[Tensor, "B H T D"],
        keys: Float[Tensor, "B H T D"],
        values: Float[Tensor, "B H T D"],
        start: int,
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B H T D"], Float[Tensor, "B H T D"]]:
        """Add the vectors to all three."""
        vectors = self.vectors(start, queries.shape[-2], queries)
        return queries + vectors, keys + vectors, values + vectors
