"""Dot product: s(q, k) = qᵀ k  (seeds 000, 001, 002).

Its variance grows with the size of the heads, and the softmax saturates: claim C9.
"""

from __future__ import annotations

import torch

from dragoman.model.parts import DotProduct, Similarity
from dragoman.shapes import Float, Tensor


class Dot(Similarity):
    """The plain dot product."""

    is_linear_in_keys = True

    def __init__(self, size: int) -> None:
        super().__init__()

    def forward(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> Float[Tensor, "B H T S"]:
        """Score every pair."""
        return torch.matmul(queries, keys.transpose(-1, -2))

    def as_dot_product(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> DotProduct:
        """It is one."""
        return DotProduct(queries, keys, 1.0)
