"""Local attention: the softmax over a window of keys  ([NLP10]; Luong et al., 2015).

    aᵢ = exp(sᵢ) / Σⱼ exp(sⱼ)   over the keys with |i − c(t)| ≤ window

The window of the query at position t is centered on c(t) = min(t, n − 1), where n is the number of
real keys. In self-attention this is the query's own position. In cross-attention it is Luong's
monotonic alignment, limited to the last source token, so every query has at least one key.
"""

from __future__ import annotations

import torch
from pydantic import NonNegativeInt

from dragoman.model.parts import AttentionKind, masked_softmax
from dragoman.shapes import Bool, Float, Tensor


class Local(AttentionKind):
    """A softmax over the keys at most `window` positions away."""

    is_softmax = True

    def __init__(self, *, window: NonNegativeInt = 8) -> None:
        super().__init__()
        self.window = window

    def restrict_mask(
        self, mask: Bool[Tensor, "#B 1 #T S"], start: int, length: int
    ) -> Bool[Tensor, "#B 1 #T S"]:
        """Hide the keys outside the window."""
        last = mask.any(dim=-2, keepdim=True).sum(dim=-1, keepdim=True) - 1  # B 1 1 1
        positions = torch.arange(start, start + length, device=mask.device).view(1, 1, length, 1)
        keys = torch.arange(mask.shape[-1], device=mask.device)
        distance = keys - torch.minimum(positions, last)  # B 1 T S
        return mask & (distance.abs() <= self.window)

    def forward(
        self, scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "#B 1 #T S"]
    ) -> Float[Tensor, "B H T S"]:
        """Compute the softmax over the window."""
        return masked_softmax(scores, mask)
