"""Concatenation: s(q, k) = vᵀ tanh(W [q; k])  (Luong et al., 2015; seed 002).

W [q; k] is the left half of W applied to q plus its right half applied to k, which is how it is
computed: no pair is ever put together. It is the additive similarity, written with one matrix.
"""

from __future__ import annotations

import torch
from pydantic import PositiveInt
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model.parts import Similarity
from dragoman.shapes import Float, Tensor


class Concat(Similarity):
    """A network over query and key side by side; `hidden` is the head's size unless said."""

    def __init__(self, size: int, *, hidden: PositiveInt | None = None) -> None:
        super().__init__()
        hidden = hidden or size
        self.pair = nn.Linear(2 * size, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> Float[Tensor, "B H T S"]:
        """Score every pair."""
        for_query, for_key = self.pair.weight.chunk(2, dim=1)
        asked = F.linear(queries, for_query).unsqueeze(-2)  # B H T 1 hidden
        offered = F.linear(keys, for_key).unsqueeze(-3)  # B H 1 S hidden
        scores: Tensor = self.score(torch.tanh(asked + offered))
        return scores.squeeze(-1)
