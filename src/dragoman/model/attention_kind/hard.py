"""Hard attention: only the key with the best score gets a weight  ([NLP10]).

    aᵢ = 1 for i = argmaxⱼ sⱼ, else 0

The choice has no gradient. Training uses the straight-through estimator: the choice in the forward
pass, the softmax in the backward pass (Bengio et al., 2013).
"""

from __future__ import annotations

import torch

from dragoman.model.parts import AttentionKind, masked_softmax
from dragoman.shapes import Bool, Float, Tensor


class Hard(AttentionKind):
    """Selects the best visible key; the first one if several are equal."""

    def forward(
        self, scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "#B 1 #T S"]
    ) -> Float[Tensor, "B H T S"]:
        """Give the best key a weight of one."""
        soft = masked_softmax(scores, mask)
        # Selected by score: in 16 bits two weights can be equal although the scores are not.
        best = scores.masked_fill(~mask, float("-inf")).argmax(dim=-1, keepdim=True)
        choice = torch.zeros_like(soft).scatter(-1, best, 1.0)
        # The bracket is exactly zero, so the weights stay exactly 0 and 1.
        return choice + (soft - soft.detach())
