"""Naive: the index itself, p(t) = scale · (t, t, …, t)  (seed 004).

It grows without bound and drowns the word; a scale below one delays that. A LayerNorm takes the
mean of the features away, and this with it: added to words under pre-norm, it says nothing at all.
"""

from __future__ import annotations

import torch

from dragoman.model.parts import PositionVectors
from dragoman.shapes import Float, Tensor


class Naive(PositionVectors):
    """The number of the place, in every feature."""

    def __init__(self, size: int, *, scale: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.scale = scale

    def forward(self, start: int, length: int, like: Tensor) -> Float[Tensor, "T P"]:
        """Count."""
        places = torch.arange(start, start + length, device=like.device, dtype=torch.float32)
        return (self.scale * places).to(like.dtype).unsqueeze(-1).expand(length, self.size)
