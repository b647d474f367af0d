"""Standard heads: each head projects the whole input to its share of the width.

    qʰ = Wqʰ x,  kʰ = Wkʰ x,  vʰ = Wvʰ x,   W of size M/H × M
    y  = Wo [y¹; …; yᴴ]                     Vaswani et al., 2017; [NLP10], [APPLY-DL], [CS182]

The matrices of all heads are stacked into one matrix.
"""

from __future__ import annotations

from torch import nn

from dragoman.model.parts import Heads, concatenate_heads, project_together, split_heads
from dragoman.recipe.fitting import divisor_errors
from dragoman.shapes import Float, Tensor


class Standard(Heads):
    """The heads of Vaswani et al., 2017."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    @staticmethod
    def size_errors(width: int, count: int) -> list[str]:
        """Check that the heads divide the width."""
        return divisor_errors(width, count)

    @staticmethod
    def head_size(width: int, count: int) -> int:
        """Return one head's share of the width."""
        return width // count

    def queries(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B H T D"]:
        """Project, then split."""
        return split_heads(self.query(x), self.count)

    def keys_values(
        self, memory: Float[Tensor, "B S M"]
    ) -> tuple[Float[Tensor, "B H S D"], Float[Tensor, "B H S D"]]:
        """Project, then split."""
        keys, values = project_together(memory, self.count, self.key, self.value)
        return keys, values

    def project(
        self, x: Float[Tensor, "B T M"]
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B H T D"], Float[Tensor, "B H T D"]]:
        """Apply all three projections as one matrix product."""
        queries, keys, values = project_together(x, self.count, self.query, self.key, self.value)
        return queries, keys, values

    def join(self, mixed: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T M"]:
        """Concatenate, then project."""
        joined: Tensor = self.output(concatenate_heads(mixed))
        return joined
