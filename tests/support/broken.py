"""A similarity that gives NaN in some forward passes of one rank; else the scaled dot product."""

import math
import os

import torch

from dragoman.model.parts import Similarity


class Broken(Similarity):
    """Makes the scores, or their gradient, not finite from pass `first` to pass `last`."""

    def __init__(
        self, size: int, *, rank: int = 0, first: int = 1, last: int = 0, spoils: str = "forward"
    ) -> None:
        super().__init__()
        self.scale = 1 / math.sqrt(size)
        self.first, self.last, self.spoils = first, last, spoils
        self.is_this_rank = int(os.environ.get("RANK", "0")) == rank
        self.passes = 0

    def forward(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        scores = self.scale * torch.matmul(queries, keys.transpose(-1, -2))
        if not self.training:
            return scores
        self.passes += 1
        if self.is_this_rank and self.first <= self.passes <= self.last:
            if self.spoils == "forward":
                return scores * float("nan")
            scores.register_hook(lambda gradient: gradient * float("inf"))
        return scores
