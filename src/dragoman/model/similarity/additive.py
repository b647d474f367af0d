"""Additive similarity: a small network scores each pair  (Bahdanau et al., 2015; [NLP10]).

    s(q, k) = vᵀ tanh(W q + U k)

All heads share the network. It is applied to every pair, so memory grows with T · S · hidden.
"""

from __future__ import annotations

import torch
from pydantic import PositiveInt
from torch import nn

from dragoman.model.parts import Similarity
from dragoman.shapes import Float, Tensor


class Additive(Similarity):
    """A network with one hidden layer of size `hidden`, by default the size of a head."""

    def __init__(self, size: int, *, hidden: PositiveInt | None = None) -> None:
        super().__init__()
        hidden = hidden or size
        self.query = nn.Linear(size, hidden, bias=False)
        self.key = nn.Linear(size, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> Float[Tensor, "B H T S"]:
        """Score every pair of a query and a key."""
        hidden_queries = self.query(queries).unsqueeze(-2)  # B H T 1 hidden
        hidden_keys = self.key(keys).unsqueeze(-3)  # B H 1 S hidden
        scores: Tensor = self.score(torch.tanh(hidden_queries + hidden_keys))
        return scores.squeeze(-1)
