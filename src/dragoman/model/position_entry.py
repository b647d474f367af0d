"""How do the vectors of positions enter the model?

    added:         x + p                       (seeds 000–004)
    concatenated:  [x; p]                      (seed 004)
    projected:     q + p, k + p, v + p         (seed 001)

Each is a position whose door opens for the vectors it holds. At a layer above the bottom,
concatenation renews the features that carry the place: the width of the model stays the same.
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

    def enter(self, x: Float[Tensor, "B T E"], start: int) -> Float[Tensor, "B T M"]:
        """Add."""
        entered: Tensor = x + self.vectors(start, x.shape[1], x)
        return entered


class Concatenated(Position):
    """The vector takes the last features of the input of a layer; words have the first ones."""

    def __init__(self, vectors: PositionVectors, word_features: int) -> None:
        super().__init__(0)
        self.vectors = vectors
        self.word_features = word_features

    def enter(self, x: Float[Tensor, "B T E"], start: int) -> Float[Tensor, "B T M"]:
        """Put it behind the word's features, or in the place of an older one."""
        vectors = self.vectors(start, x.shape[1], x)
        behind = vectors.unsqueeze(0).expand(x.shape[0], -1, -1)
        return torch.cat([x[..., : self.word_features], behind], dim=-1)


class Projected(Position):
    """The vector, as large as a head, is added to queries, keys and values of every head."""

    def __init__(self, vectors: PositionVectors) -> None:
        super().__init__(0)
        self.vectors = vectors

    def place(
        self,
        queries: Float[Tensor, "B H T D"],
        keys: Float[Tensor, "B H T D"],
        values: Float[Tensor, "B H T D"],
        start: int,
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B H T D"], Float[Tensor, "B H T D"]]:
        """Add it to all three."""
        vectors = self.vectors(start, queries.shape[-2], queries)
        return queries + vectors, keys + vectors, values + vectors
