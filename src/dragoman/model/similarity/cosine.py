"""Cosine: s(q, k) = scale · qᵀ k / (‖q‖ · ‖k‖)  (seeds 002, 003).

With the lecture's scale of one, scores lie between −1 and 1 and the weights are nearly even;
a larger scale lets a head make up its mind.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model.parts import DotProduct, Similarity
from dragoman.shapes import Float, Tensor


class Cosine(Similarity):
    """The angle between query and key."""

    def __init__(self, size: int, *, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> Float[Tensor, "B H T S"]:
        """Score every pair."""
        asked, offered = F.normalize(queries, dim=-1), F.normalize(keys, dim=-1)
        return torch.matmul(self.scale * asked, offered.transpose(-1, -2))

    def as_dot_product(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> DotProduct:
        """It is one, of vectors of length one."""
        return DotProduct(F.normalize(queries, dim=-1), F.normalize(keys, dim=-1), self.scale)
