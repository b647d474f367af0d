"""Hard: only the best key weighs, aᵢ = 1 for i = argmaxⱼ sⱼ, else 0  (seed 002).

A choice has no gradient. Training goes straight through it: forward the choice, backward the
softmax it was made from (Bengio et al., 2013).
"""

from __future__ import annotations

import torch

from dragoman.model.parts import Reach, masked_softmax
from dragoman.shapes import Bool, Float, Tensor


class Hard(Reach):
    """The best visible key alone; the first of several equals."""

    def forward(
        self, scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "#B 1 #T S"]
    ) -> Float[Tensor, "B H T S"]:
        """Weigh the best key with one."""
        soft = masked_softmax(scores, mask)
        # Chosen by score: in 16 bits two weights can be equal where the scores are not.
        best = scores.masked_fill(~mask, float("-inf")).argmax(dim=-1, keepdim=True)
        choice = torch.zeros_like(soft).scatter(-1, best, 1.0)
        # The bracket is exactly zero, so the weights stay exactly 0 and 1.
        return choice + (soft - soft.detach())
