"""Dot-product similarity  ([NLU], [CS224N], [NLP10]).

    s(q, k) = qᵀ k

The variance of the scores grows with the head size, and the softmax saturates (claim C9).
"""

from __future__ import annotations

import torch

from dragoman.model.parts import DotProduct, Similarity
from dragoman.shapes import Float, Tensor


class Dot(Similarity):
    """The dot product without a scale."""

    is_linear_in_keys = True

    def __init__(self, size: int) -> None:
        super().__init__()

    def forward(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> Float[Tensor, "B H T S"]:
        """Score every pair of a query and a key."""
        return torch.matmul(queries, keys.transpose(-1, -2))

    def as_dot_product(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> DotProduct:
        """Return the dot product itself."""
        return DotProduct(queries, keys, 1.0)
