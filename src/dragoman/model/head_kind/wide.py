"""Wide heads: each head projects the whole input to the whole width  ([NLU]).

    qʰ = Wqʰ x,  kʰ = Wkʰ x,  vʰ = Wvʰ x,   W of size M × M
    y  = Wo [y¹; …; yᴴ],                    Wo of size M × HM

The matrices of all heads are stacked into one matrix.
"""

from __future__ import annotations

from torch import nn

from dragoman.model.parts import Heads, concatenate_heads, project_together, split_heads
from dragoman.shapes import Float, Tensor


class Wide(Heads):
    """Heads as wide as the model: their matrices have H times the standard parameters."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.query = nn.Linear(width, count * width)
        self.key = nn.Linear(width, count * width)
        self.value = nn.Linear(width, count * width)
        self.output = nn.Linear(count * width, width)

    @staticmethod
    def head_size(width: int, count: int) -> int:
        """Return the whole width."""
        return width

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
