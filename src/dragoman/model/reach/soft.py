"""Soft: every visible key weighs, aᵢ = exp(sᵢ) / Σⱼ exp(sⱼ)  (all seeds)."""

from __future__ import annotations

from dragoman.model.parts import Reach, masked_softmax
from dragoman.shapes import Bool, Float, Tensor


class Soft(Reach):
    """The softmax over all visible keys."""

    is_softmax = True

    def forward(
        self, scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "#B 1 #T S"]
    ) -> Float[Tensor, "B H T S"]:
        """Weigh the visible keys."""
        return masked_softmax(scores, mask)
