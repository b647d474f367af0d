"""Sinusoidal positions: waves of decreasing frequency  (Vaswani et al., 2017; all lectures).

    p(t)[2i]     = sin(t / base^(2i/d))
    p(t)[2i + 1] = cos(t / base^(2i/d))

The lectures and programs order the features differently. Attention works with any order, because
its matrices can permute them.

- `interleaved` is the equation above ([NLU], [NLP10]). [CS182] counts i from 1, which shifts the
  frequencies by one.
- `cosine_first` has the cosine on even and the sine on odd features ([APPLY-DL]).
- `halves` has all sines before all cosines (tensor2tensor, Marian, CTranslate2).
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveFloat

from dragoman.model.parts import PositionVectors
from dragoman.shapes import Float, Tensor


class Sinusoidal(PositionVectors):
    """Position vectors that are computed on demand; nothing is learned or stored."""

    def __init__(
        self,
        size: int,
        *,
        base: PositiveFloat = 10000.0,
        layout: Literal["interleaved", "cosine_first", "halves"] = "interleaved",
    ) -> None:
        super().__init__()
        self.size = size
        self.base = base
        self.layout = layout

    def forward(self, start: int, length: int, like: Tensor) -> Float[Tensor, "T P"]:
        """Compute the waves at these positions."""
        # In float64, because float32 has too few digits for the angles of distant positions.
        positions = torch.arange(start, start + length, device=like.device, dtype=torch.float64)
        # An odd size has one sine more than cosines: the last cosine is cut off below.
        waves = torch.arange(0, self.size, 2, device=like.device, dtype=torch.float64)
        angles = positions.unsqueeze(-1) * self.base ** (-waves / self.size)
        sine, cosine = angles.sin(), angles.cos()
        if self.layout == "halves":
            vectors = torch.cat([sine, cosine], dim=-1)
        elif self.layout == "interleaved":
            vectors = torch.stack([sine, cosine], dim=-1).flatten(-2)
        else:
            vectors = torch.stack([cosine, sine], dim=-1).flatten(-2)
        return vectors[:, : self.size].to(like.dtype)
