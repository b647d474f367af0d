"""Additive, a small network: s(q, k) = vᵀ tanh(W q + U k)  (Bahdanau et al., 2015; seed 002).

One network serves all heads: they differ by the queries and keys that they bring. Every pair
passes through it, so memory grows with T · S · hidden.
"""

from __future__ import annotations

import torch
from pydantic import PositiveInt
from torch import nn

from dragoman.model.parts import Similarity
from dragoman.shapes import Float, Tensor


class Additive(Similarity):
    """A network with one hidden layer; `hidden` is its size, the head's unless said."""

    def __init__(self, size: int, *, hidden: PositiveInt | None = None) -> None:
        super().__init__()
        hidden = hidden or size
        self.query = nn.Linear(size, hidden, bias=False)
        self.key = nn.Linear(size, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> Float[Tensor, "B H T S"]:
        """Score every pair."""
        asked = self.query(queries).unsqueeze(-2)  # B H T 1 hidden
        offered = self.key(keys).unsqueeze(-3)  # B H 1 S hidden
        scores: Tensor = self.score(torch.tanh(asked + offered))
        return scores.squeeze(-1)
