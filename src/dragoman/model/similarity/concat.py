"""Concatenation similarity: a small network scores [q; k]  (Luong et al., 2015; [NLP10]).

    s(q, k) = vᵀ tanh(W [q; k])

W [q; k] is computed as the left half of W times q plus the right half times k, so no pair is
concatenated. It is the additive similarity, written with one matrix. [NLP10] names the
concatenation without giving the equation.
"""

from __future__ import annotations

import torch
from pydantic import PositiveInt
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model.parts import Similarity
from dragoman.shapes import Float, Tensor


class Concat(Similarity):
    """A network over [q; k] with a hidden layer of size `hidden`, by default the size of a head."""

    def __init__(self, size: int, *, hidden: PositiveInt | None = None) -> None:
        super().__init__()
        hidden = hidden or size
        self.pair = nn.Linear(2 * size, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> Float[Tensor, "B H T S"]:
        """Score every pair of a query and a key."""
        query_weight, key_weight = self.pair.weight.chunk(2, dim=1)
        hidden_queries = F.linear(queries, query_weight).unsqueeze(-2)  # B H T 1 hidden
        hidden_keys = F.linear(keys, key_weight).unsqueeze(-3)  # B H 1 S hidden
        scores: Tensor = self.score(torch.tanh(hidden_queries + hidden_keys))
        return scores.squeeze(-1)
