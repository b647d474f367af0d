"""Learned: a vector for each place, p(t) = the t-th row of a matrix  (seeds 001, 004).

Flexible, and it ends: no vector exists beyond `maximum` places (C6).
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

    def forward(self, start: int, length: int, like: Tensor) -> Float[Tensor, "T P"]:
        """Look the places up."""
        maximum = self.table.num_embeddings
        if start + length > maximum:
            raise LengthError(
                f"a sequence of {start + length} tokens is longer than the {maximum} positions "
                "this model has learned; split the text, or train with a larger "
                "model.position.maximum, or with sinusoidal positions"
            )
        return self.table.weight[start : start + length].to(like.dtype)
