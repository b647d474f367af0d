"""Cosine similarity  ([NLP10], [APPLY-DL]).

    s(q, k) = scale · qᵀ k / (‖q‖ · ‖k‖)

With the scale of one in the lectures, scores are between −1 and 1 and the weights are nearly
uniform. A larger scale allows sharper weights. `recipe/weaknesses.py` warns of a scale of one.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model.parts import DotProduct, Similarity
from dragoman.shapes import Float, Tensor


class Cosine(Similarity):
    """The cosine of the angle between query and key."""

    def __init__(self, size: int, *, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> Float[Tensor, "B H T S"]:
        """Score every pair of a query and a key."""
        unit_queries, unit_keys = F.normalize(queries, dim=-1), F.normalize(keys, dim=-1)
        return torch.matmul(self.scale * unit_queries, unit_keys.transpose(-1, -2))

    def as_dot_product(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> DotProduct:
        """Return the dot product of normalized vectors."""
        return DotProduct(F.normalize(queries, dim=-1), F.normalize(keys, dim=-1), self.scale)
