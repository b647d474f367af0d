"""Bare heads: the input itself serves as queries, keys and values  ([NLU], [CS224N]).

    q = k = v = x
    yᵢ = Σⱼ wᵢⱼ xⱼ,   wᵢ = softmax(xᵢ · xⱼ)

Nothing is learned. With one head this is the first self-attention of the lectures. With several
heads, each head has its own chunk of the features.
"""

from __future__ import annotations

from dragoman.model.parts import Heads, concatenate_heads, split_heads
from dragoman.recipe.fitting import divisor_errors
from dragoman.shapes import Float, Tensor


class Bare(Heads):
    """Splits the input into heads, without projections."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count = count

    @staticmethod
    def size_errors(width: int, count: int) -> list[str]:
        """Check that the heads divide the width."""
        return divisor_errors(width, count)

    @staticmethod
    def head_size(width: int, count: int) -> int:
        """Return the size of one chunk."""
        return width // count

    def queries(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B H T D"]:
        """Split."""
        return split_heads(x, self.count)

    def keys_values(
        self, memory: Float[Tensor, "B S M"]
    ) -> tuple[Float[Tensor, "B H S D"], Float[Tensor, "B H S D"]]:
        """Split; keys and values are the same."""
        chunks = split_heads(memory, self.count)
        return chunks, chunks

    def join(self, mixed: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T M"]:
        """Concatenate."""
        return concatenate_heads(mixed)
