"""Scaled dot product: s(q, k) = qᵀ k / √d  (Vaswani et al., 2017; seeds 001, 002, 003).

Here d is the size of one head, so that scores keep a variance near one.
"""

from __future__ import annotations

import torch

from dragoman.model.parts import DotProduct, Similarity
from dragoman.shapes import Float, Tensor


class ScaledDot(Similarity):
    """The paper's similarity."""

    is_linear_in_keys = True

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale = size**-0.5

    def forward(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> Float[Tensor, "B H T S"]:
        """Score every pair."""
        return torch.matmul(queries * self.scale, keys.transpose(-1, -2))

    def as_dot_product(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> DotProduct:
        """It is one, with its scale."""
        return DotProduct(queries, keys, self.scale)
