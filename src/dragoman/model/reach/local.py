"""Local: the softmax over a window of keys, |i − c(t)| ≤ window  (seed 002; Luong et al., 2015).

The window of the query at place t is centred on c(t) = min(t, n − 1), where n is the number of
real keys. In self-attention that is the place itself; in cross-attention it is Luong's monotonic
alignment, held at the end of the source, so no query is ever left without a key.
"""

from __future__ import annotations

import torch
from pydantic import NonNegativeInt

from dragoman.model.parts import Reach, masked_softmax
from dragoman.shapes import Bool, Float, Tensor


class Local(Reach):
    """A softmax over the keys at most `window` places away."""

    is_softmax = True

    def __init__(self, *, window: NonNegativeInt = 8) -> None:
        super().__init__()
        self.window = window

    def narrow(
        self, mask: Bool[Tensor, "#B 1 #T S"], start: int, length: int
    ) -> Bool[Tensor, "#B 1 #T S"]:
        """Leave only the window in sight."""
        last = mask.any(dim=-2, keepdim=True).sum(dim=-1, keepdim=True) - 1  # B 1 1 1
        places = torch.arange(start, start + length, device=mask.device).view(1, 1, length, 1)
        keys = torch.arange(mask.shape[-1], device=mask.device)
        distance = keys - torch.minimum(places, last)  # B 1 T S
        return mask & (distance.abs() <= self.window)

    def forward(
        self, scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "#B 1 #T S"]
    ) -> Float[Tensor, "B H T S"]:
        """Weigh the keys of the window."""
        return masked_softmax(scores, mask)
