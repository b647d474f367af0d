"""Bare heads: nothing is learned, q = k = v = x  (seeds 000, 001).

    yᵢ = Σⱼ wᵢⱼ xⱼ,   wᵢ = softmax(xᵢ · xⱼ)

With one head this is the lectures' first self-attention; with more, each sees its own chunk.
"""

from __future__ import annotations

from dragoman.model.parts import Heads, concatenate_heads, cut_heads
from dragoman.shapes import Float, Tensor


class Bare(Heads):
    """The input itself, cut."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count = count

    @staticmethod
    def objections(width: int, count: int) -> list[str]:
        """The width is cut into chunks."""
        return [f"the width {width} cannot be cut into {count} heads"] if width % count else []

    @staticmethod
    def head_size(width: int, count: int) -> int:
        """One chunk."""
        return width // count

    def queries(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B H T D"]:
        """Cut."""
        return cut_heads(x, self.count)

    def keys_values(
        self, memory: Float[Tensor, "B S M"]
    ) -> tuple[Float[Tensor, "B H S D"], Float[Tensor, "B H S D"]]:
        """Cut; what can be asked for is what is given."""
        chunks = cut_heads(memory, self.count)
        return chunks, chunks

    def join(self, mixed: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T M"]:
        """Concatenate."""
        return concatenate_heads(mixed)
