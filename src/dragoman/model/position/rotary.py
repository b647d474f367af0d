"""Rotary: queries and keys turn with their place  (Su et al., 2021; not in the lectures).

    (x[2i], x[2i+1]) at place t turns by the angle t / base^(2i/d)

The dot product of a query at t and a key at s then depends on t − s alone.
"""

from __future__ import annotations

import torch
from pydantic import PositiveFloat

from dragoman.model.parts import Position
from dragoman.shapes import Float, Tensor


class Rotary(Position):
    """Turns pairs of features, slower from pair to pair."""

    def __init__(self, size: int, *, base: PositiveFloat = 10000.0) -> None:
        super().__init__(size)
        self.base = base

    @staticmethod
    def objections(size: int) -> list[str]:
        """Features turn in pairs."""
        return [f"rotary turns pairs of features, but a head has {size}"] if size % 2 else []

    def place(
        self,
        queries: Float[Tensor, "B H T D"],
        keys: Float[Tensor, "B H T D"],
        values: Float[Tensor, "B H T D"],
        start: int,
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B H T D"], Float[Tensor, "B H T D"]]:
        """Turn queries and keys; values stay."""
        length, size = queries.shape[-2:]
        device = queries.device
        # In float64, for in float32 the angle of a far place has no digits left for its sine.
        places = torch.arange(start, start + length, device=device, dtype=torch.float64)
        pairs = torch.arange(0, size, 2, device=device, dtype=torch.float64)
        angles = places.unsqueeze(-1) * self.base ** (-pairs / size)  # T D/2
        sine, cosine = angles.sin().to(queries.dtype), angles.cos().to(queries.dtype)
        has_complex = device.type == "cpu" and queries.dtype in (torch.float32, torch.float64)
        turn = turn_as_complex if has_complex else turn_plainly
        return turn(queries, sine, cosine), turn(keys, sine, cosine), values


def turn_plainly(x: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """Turn each pair as the equation says."""
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1)
    return turned.flatten(-2)


def turn_as_complex(x: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """The same with each pair as one complex number.

    On a CPU several times as fast, for it reads memory in its order. GPUs stay with the plain form:
    compilers do not write complex code, and bfloat16 has no complex numbers.
    """
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.complex(cosine, sine)).flatten(-2)
