"""Sinusoidal: waves of falling frequency  (Vaswani et al., 2017; all seeds).

    p(t)[2i]     = sin(t / base^(2i/d))
    p(t)[2i + 1] = cos(t / base^(2i/d))

The seeds differ in the order of the features, and so do programs; attention does not care, for
its matrices can undo any order. `interleaved` is the equation above (seeds 000, 002; 004 counts i
from 1, which shifts the frequencies by one place), `cosine_first` has the cosine on even and the
sine on odd places (seed 003), `halves` has all sines before all cosines (tensor2tensor, Marian,
CTranslate2).
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveFloat

from dragoman.model.parts import PositionVectors
from dragoman.shapes import Float, Tensor


class Sinusoidal(PositionVectors):
    """Nothing is learned and nothing is stored: the vectors are computed where they are needed."""

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
        """Compute the waves at these places."""
        # In float64, for in float32 the angle of a far place has no digits left for its sine.
        places = torch.arange(start, start + length, device=like.device, dtype=torch.float64)
        # An odd size has a sine more than cosines: the last wave is cut.
        waves = torch.arange(0, self.size, 2, device=like.device, dtype=torch.float64)
        angles = places.unsqueeze(-1) * self.base ** (-waves / self.size)
        sine, cosine = angles.sin(), angles.cos()
        if self.layout == "halves":
            vectors = torch.cat([sine, cosine], dim=-1)
        elif self.layout == "interleaved":
            vectors = torch.stack([sine, cosine], dim=-1).flatten(-2)
        else:
            vectors = torch.stack([cosine, sine], dim=-1).flatten(-2)
        return vectors[:, : self.size].to(like.dtype)
