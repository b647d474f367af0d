"""Wide heads: each projects the whole input to the whole width  (seed 000).

    qʰ = Wqʰ x,  kʰ = Wkʰ x,  vʰ = Wvʰ x,   W of size k × k
    y  = Wo [y¹; …; yʰ],                    Wo of size k × hk

The matrices of all heads lie above each other in one.
"""

from __future__ import annotations

from torch import nn

from dragoman.model.parts import Heads, concatenate_heads, cut_heads, project_at_once
from dragoman.shapes import Float, Tensor


class Wide(Heads):
    """Heads as large as the model: h times the matrices of the standard ones."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.query = nn.Linear(width, count * width)
        self.key = nn.Linear(width, count * width)
        self.value = nn.Linear(width, count * width)
        self.output = nn.Linear(count * width, width)

    @staticmethod
    def head_size(width: int, count: int) -> int:
        """The whole width."""
        return width

    def queries(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B H T D"]:
        """Project, then cut."""
        return cut_heads(self.query(x), self.count)

    def keys_values(
        self, memory: Float[Tensor, "B S M"]
    ) -> tuple[Float[Tensor, "B H S D"], Float[Tensor, "B H S D"]]:
        """Project, then cut."""
        keys, values = project_at_once(memory, self.count, self.key, self.value)
        return keys, values

    def project(
        self, x: Float[Tensor, "B T M"]
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B H T D"], Float[Tensor, "B H T D"]]:
        """Project by all three matrices at once."""
        queries, keys, values = project_at_once(x, self.count, self.query, self.key, self.value)
        return queries, keys, values

    def join(self, mixed: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T M"]:
        """Concatenate, then project."""
        joined: Tensor = self.output(concatenate_heads(mixed))
        return joined
