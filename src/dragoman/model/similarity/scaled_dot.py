"""Scaled dot-product similarity  (Vaswani et al., 2017; [CS224N], [NLP10], [APPLY-DL]).

    s(q, k) = qᵀ k / √d

d is the size of one head. The scale keeps the variance of the scores near one.
"""

from __future__ import annotations

import torch

from dragoman.model.parts import DotProduct, Similarity
from dragoman.shapes import Float, Tensor


class ScaledDot(Similarity):
    """The similarity of Vaswani et al., 2017."""

    is_linear_in_keys = True

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale = size**-0.5

    def forward(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> Float[Tensor, "B H T S"]:
        """Score every pair of a query and a key."""
        return torch.matmul(queries * self.scale, keys.transpose(-1, -2))

    def as_dot_product(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> DotProduct:
        """Return the dot product with its scale."""
        return DotProduct(queries, keys, self.scale)
