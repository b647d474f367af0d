"""Soft attention: the softmax over all visible keys  (all lectures, for example [NLP10]).

aᵢ = exp(sᵢ) / Σⱼ exp(sⱼ)
"""

from __future__ import annotations

from dragoman.model.parts import AttentionKind, masked_softmax
from dragoman.shapes import Bool, Float, Tensor


class Soft(AttentionKind):
    """A softmax over all visible keys."""

    is_softmax = True

    def forward(
        self, scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "#B 1 #T S"]
    ) -> Float[Tensor, "B H T S"]:
        """Compute the softmax."""
        return masked_softmax(scores, mask)
