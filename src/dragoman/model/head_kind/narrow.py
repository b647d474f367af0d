"""Narrow heads: each head projects its own chunk of the input  ([NLU]).

    qʰ = Wqʰ xʰ,  kʰ = Wkʰ xʰ,  vʰ = Wvʰ xʰ,   W of size M/H × M/H
    y  = Wo [y¹; …; yᴴ]

These are the matrices of the standard heads without the blocks off the diagonal.
"""

from __future__ import annotations

import torch
from torch import nn

from dragoman.model.parts import Heads, concatenate_heads, split_heads
from dragoman.recipe.fitting import divisor_errors
from dragoman.shapes import Float, Tensor


class BlockLinear(nn.Module):
    """One small linear map for each head: a block-diagonal matrix."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, size, size))
        self.bias = nn.Parameter(torch.empty(count, 1, size))

    def initialize(self, generator: torch.Generator) -> None:
        """Draw each block like a linear map of its size."""
        for block in self.weight:
            nn.init.xavier_uniform_(block, generator=generator)
        nn.init.zeros_(self.bias)

    def forward(self, chunks: Float[Tensor, "B H T D"]) -> Float[Tensor, "B H T D"]:
        """Apply the matrix of each head to its chunk."""
        return chunks @ self.weight.mT + self.bias


class Narrow(Heads):
    """Heads with separate inputs: their matrices have 1/H of the standard parameters."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.query = BlockLinear(count, width // count)
        self.key = BlockLinear(count, width // count)
        self.value = BlockLinear(count, width // count)
        self.output = nn.Linear(width, width)

    @staticmethod
    def size_errors(width: int, count: int) -> list[str]:
        """Check that the heads divide the width."""
        return divisor_errors(width, count)

    @staticmethod
    def head_size(width: int, count: int) -> int:
        """Return the size of one chunk."""
        return width // count

    def queries(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B H T D"]:
        """Split, then project."""
        projected: Tensor = self.query(split_heads(x, self.count))
        return projected

    def keys_values(
        self, memory: Float[Tensor, "B S M"]
    ) -> tuple[Float[Tensor, "B H S D"], Float[Tensor, "B H S D"]]:
        """Split, then project."""
        chunks = split_heads(memory, self.count)
        return self.key(chunks), self.value(chunks)

    def join(self, mixed: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T M"]:
        """Concatenate, then project."""
        joined: Tensor = self.output(concatenate_heads(mixed))
        return joined
