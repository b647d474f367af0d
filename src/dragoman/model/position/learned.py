"""Learned positions: one trained vector for each position  ([CS224N], [CS182], [APPLY-DL]).

    p(t) = row t of a table with `maximum` rows

There is no vector beyond the last row (claim C6).
"""

from __future__ import annotations

from pydantic import PositiveInt
from torch import nn

from dragoman.errors import LengthError
from dragoman.model.parts import PositionVectors
from dragoman.shapes import Float, Tensor


class Learned(PositionVectors):
    """A table of `maximum` vectors."""

    def __init__(self, size: int, *, maximum: PositiveInt = 1024) -> None:
        super().__init__()
        self.table = nn.Embedding(maximum, size)

    @property
    def max_positions(self) -> int:
        """The number of rows of the table."""
        return self.table.num_embeddings

    def forward(self, start: int, length: int, like: Tensor) -> Float[Tensor, "T P"]:
        """Look up the vectors of the positions."""
        end = start + length
        if end > self.max_positions:
            raise LengthError(
                f"a sequence of {end} tokens is longer than the {self.max_positions} positions "
                "this model has learned; split the text, or train with a larger "
                "model.position.maximum, or with sinusoidal positions"
            )
        return self.table.weight[start:end].to(like.dtype)
