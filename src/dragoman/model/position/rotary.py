"""Rotary positions: queries and keys are rotated by their position  (Su et al., 2021).

    (x[2i], x[2i+1]) at position t is rotated by the angle t / base^(2i/d)

The dot product of a query at t and a key at s then depends on t − s only. Rotary positions are
not in the lectures.
"""

from __future__ import annotations

import torch
from pydantic import PositiveFloat

from dragoman.model.parts import Position
from dragoman.recipe.fitting import pair_errors
from dragoman.shapes import Float, Tensor


class Rotary(Position):
    """Rotates pairs of features; the frequency decreases from pair to pair."""

    def __init__(self, size: int, *, base: PositiveFloat = 10000.0) -> None:
        super().__init__(size)
        self.base = base

    @staticmethod
    def size_errors(size: int) -> list[str]:
        """Check that the features form pairs."""
        return pair_errors(size)

    def apply_to_heads(
        self,
        queries: Float[Tensor, "B H T D"],
        keys: Float[Tensor, "B H T D"],
        values: Float[Tensor, "B H T D"],
        start: int,
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B H T D"], Float[Tensor, "B H T D"]]:
        """Rotate queries and keys; values are unchanged."""
        length, size = queries.shape[-2:]
        device = queries.device
        # In float64, because float32 has too few digits for the angles of distant positions.
        positions = torch.arange(start, start + length, device=device, dtype=torch.float64)
        pairs = torch.arange(0, size, 2, device=device, dtype=torch.float64)
        angles = positions.unsqueeze(-1) * self.base ** (-pairs / size)  # T D/2
        sine, cosine = angles.sin().to(queries.dtype), angles.cos().to(queries.dtype)
        has_complex = device.type == "cpu" and queries.dtype in (torch.float32, torch.float64)
        rotate = rotate_as_complex if has_complex else rotate_pairs
        return rotate(queries, sine, cosine), rotate(keys, sine, cosine), values


def rotate_pairs(x: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """Rotate each pair by the equation."""
    even, odd = x[..., 0::2], x[..., 1::2]
    rotated = torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1)
    return rotated.flatten(-2)


def rotate_as_complex(x: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """Rotate each pair as one complex number.

    On a CPU this is several times faster, because it reads memory in order. GPUs use the plain
    form: compilers do not generate complex code, and bfloat16 has no complex numbers.
    """
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.complex(cosine, sine)).flatten(-2)
