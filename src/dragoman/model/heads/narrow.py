"""Narrow heads: the input is cut, and each head sees only its own chunk  (seed 000).

    qʰ = Wqʰ xʰ,  kʰ = Wkʰ xʰ,  vʰ = Wvʰ xʰ,   W of size k/h × k/h
    y  = Wo [y¹; …; yʰ]

The matrices of the standard heads with all blocks off the diagonal left out.
"""

from __future__ import annotations

import torch
from torch import nn

from dragoman.model.parts import Heads, concatenate_heads, cut_heads
from dragoman.shapes import Float, Tensor


class BlockLinear(nn.Module):
    """One small linear map for each head."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, size, size))
        self.bias = nn.Parameter(torch.empty(count, 1, size))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw each block as a linear map of its own size is drawn."""
        for block in self.weight:
            nn.init.xavier_uniform_(block, generator=generator)
        nn.init.zeros_(self.bias)

    def forward(self, chunks: Float[Tensor, "B H T D"]) -> Float[Tensor, "B H T D"]:
        """Map each chunk by its own matrix."""
        return chunks @ self.weight.mT + self.bias


class Narrow(Heads):
    """Heads that share no input: a fraction 1/h of the matrices of the standard ones."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.query = BlockLinear(count, width // count)
        self.key = BlockLinear(count, width // count)
        self.value = BlockLinear(count, width // count)
        self.output = nn.Linear(width, width)

    @staticmethod
    def objections(width: int, count: int) -> list[str]:
        """The width is cut into chunks."""
        return [f"the width {width} cannot be cut into {count} heads"] if width % count else []

    @staticmethod
    def head_size(width: int, count: int) -> int:
        """One chunk."""
        return width // count

    def queries(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B H T D"]:
        """Cut, then project."""
        projected: Tensor = self.query(cut_heads(x, self.count))
        return projected

    def keys_values(
        self, memory: Float[Tensor, "B S M"]
    ) -> tuple[Float[Tensor, "B H S D"], Float[Tensor, "B H S D"]]:
        """Cut, then project."""
        chunks = cut_heads(memory, self.count)
        return self.key(chunks), self.value(chunks)

    def join(self, mixed: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T M"]:
        """Concatenate, then project."""
        joined: Tensor = self.output(concatenate_heads(mixed))
        return joined
