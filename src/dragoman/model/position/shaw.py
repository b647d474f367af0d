"""Relative positions: keys and values are shifted by their distance  (Shaw et al., 2018; [CS182]).

    s(qₜ, kᵢ + aᵢ₋ₜ)   and   Σᵢ wₜᵢ (vᵢ + bᵢ₋ₜ)

a and b are learned: one vector for each distance, the same for all heads. Distances beyond
`distance` are clamped to it. [CS182] asks for relative positions without giving the equation.
"""

from __future__ import annotations

import torch
from pydantic import PositiveInt
from torch import nn

from dragoman.model.parts import Position, Similarity
from dragoman.shapes import Float, Tensor


class Shaw(Position):
    """Two tables of 2 · `distance` + 1 vectors, in every layer."""

    acts_on_scores = True

    def __init__(self, size: int, *, distance: PositiveInt = 16) -> None:
        super().__init__(size)
        self.distance = distance
        self.keys = nn.Embedding(2 * distance + 1, size)
        self.values = nn.Embedding(2 * distance + 1, size)

    def compare(
        self,
        similarity: Similarity,
        queries: Float[Tensor, "B H T D"],
        keys: Float[Tensor, "B H S D"],
        start: int,
    ) -> Float[Tensor, "B H T S"]:
        """Score each query against the keys, shifted by their distance."""
        batch, heads, length, size = queries.shape
        shifts: Tensor = self.keys(self._distances(start, length, keys))  # T S D
        if similarity.is_linear_in_keys:
            # s(q, k + a) = s(q, k) + s(q, a). The batch shares the shifts of a query position, so
            # positions take the axis of heads, and no shifted key is stored for each pair.
            by_position = queries.permute(2, 0, 1, 3).reshape(1, length, batch * heads, size)
            shifted: Tensor = similarity(by_position, shifts.unsqueeze(0))  # 1 T BH S
            shift_scores = shifted.view(length, batch, heads, -1).permute(1, 2, 0, 3)
            scores: Tensor = similarity(queries, keys)
            return scores + shift_scores
        return compare_shifted(similarity, queries, keys, shifts)

    def mix(
        self,
        weights: Float[Tensor, "B H T S"],
        values: Float[Tensor, "B H S D"],
        start: int,
    ) -> Float[Tensor, "B H T D"]:
        """Sum the weighted values, shifted by their distance."""
        batch, heads, length, _ = weights.shape
        shifts: Tensor = self.values(self._distances(start, length, values))  # T S D
        by_position = weights.permute(2, 0, 1, 3).reshape(length, batch * heads, -1)
        mixed_shifts = torch.matmul(by_position, shifts).view(length, batch, heads, -1)
        return torch.matmul(weights, values) + mixed_shifts.permute(1, 2, 0, 3)

    def _distances(self, start: int, length: int, keys: Tensor) -> Tensor:
        query_positions = torch.arange(start, start + length, device=keys.device).unsqueeze(-1)
        key_positions = torch.arange(keys.shape[-2], device=keys.device)
        return (key_positions - query_positions).clamp(
            -self.distance, self.distance
        ) + self.distance


def compare_shifted(
    similarity: Similarity,
    queries: Float[Tensor, "B H T D"],
    keys: Float[Tensor, "B H S D"],
    shifts: Float[Tensor, "T S D"],
) -> Float[Tensor, "B H T S"]:
    """Score by the definition, with a shifted key for each pair: B · H · T · S keys in all."""
    shifted = (keys.unsqueeze(-3) + shifts).flatten(0, 1)  # BH T S D
    scores: Tensor = similarity(queries.flatten(0, 1).unsqueeze(-2), shifted)  # BH T 1 S
    return scores.view(*queries.shape[:3], keys.shape[2])
