"""Naive positions: the index itself in every feature  ([CS182]).

    p(t) = scale · (t, t, …, t)

The values grow without limit and soon exceed those of the word; a scale below one delays this. A
layer norm removes the mean of the features and the position with it. So added positions have no
effect at all under pre-norm.
"""

from __future__ import annotations

import torch

from dragoman.model.parts import PositionVectors
from dragoman.shapes import Float, Tensor


class Naive(PositionVectors):
    """The index of the position, in every feature."""

    def __init__(self, size: int, *, scale: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.scale = scale

    def forward(self, start: int, length: int, like: Tensor) -> Float[Tensor, "T P"]:
        """Return the scaled indices."""
        positions = torch.arange(start, start + length, device=like.device, dtype=torch.float32)
        return (self.scale * positions).to(like.dtype).unsqueeze(-1).expand(length, self.size)
