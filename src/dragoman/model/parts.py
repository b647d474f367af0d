"""What must a part of the model be able to do?

Attention has four moments, and each is a part: *project* and *join* (`Heads`), *compare*
(`Similarity`), *weigh* (`Reach`). Positions enter through doors (`Position`), or as vectors
(`PositionVectors`) that `position_entry.py` brings in through one of those doors.

A class here is an interface; a class in a folder beside it is final. Arguments before `*` come
from the model, those after it from the recipe. A part whose given sizes may be impossible says
so in `objections`, before any weight exists.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.shapes import Bool, Float, Tensor


class DotProduct(NamedTuple):
    """A similarity written as `scale · query · key`, which fused kernels can compute."""

    queries: Float[Tensor, "B H T D"]
    keys: Float[Tensor, "B H S D"]
    scale: float


class Heads(nn.Module, ABC):
    """Cuts a sequence into heads, and joins the heads again: `Heads(width, count)`."""

    @staticmethod
    def objections(width: int, count: int) -> list[str]:
        """Say why these sizes cannot be built; nothing when they can."""
        return []

    @staticmethod
    @abstractmethod
    def head_size(width: int, count: int) -> int:
        """How many features one head has."""

    @abstractmethod
    def queries(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B H T D"]:
        """Ask, from each place."""

    @abstractmethod
    def keys_values(
        self, memory: Float[Tensor, "B S M"]
    ) -> tuple[Float[Tensor, "B H S D"], Float[Tensor, "B H S D"]]:
        """Offer, at each place, what can be asked for and what is then given."""

    def project(
        self, x: Float[Tensor, "B T M"]
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B H T D"], Float[Tensor, "B H T D"]]:
        """Ask and offer at once, where a sequence looks at itself; a kind may do it faster."""
        return self.queries(x), *self.keys_values(x)

    @abstractmethod
    def join(self, mixed: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T M"]:
        """Concatenate the heads and bring them back to the width of the model."""


class Similarity(nn.Module, ABC):
    """Compares each query with each key: `Similarity(size)`.

    The score of a pair depends on that query and that key alone.
    """

    is_linear_in_keys: ClassVar[bool] = False
    """s(q, k + a) = s(q, k) + s(q, a): relative positions need then no key for each pair."""

    @staticmethod
    def objections(size: int) -> list[str]:
        """Say why this head size cannot be built; nothing when it can."""
        return []

    @abstractmethod
    def forward(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> Float[Tensor, "B H T S"]:
        """Score every pair."""

    def as_dot_product(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> DotProduct | None:
        """Rewrite the similarity as a dot product, where it is one."""
        return None


class Reach(nn.Module, ABC):
    """Turns scores into weights that sum to one over the keys within reach: `Reach()`."""

    is_softmax: ClassVar[bool] = False
    """The weights are the softmax over the narrowed mask, so a fused kernel may compute them."""

    def narrow(
        self, mask: Bool[Tensor, "#B 1 #T S"], start: int, length: int
    ) -> Bool[Tensor, "#B 1 #T S"]:
        """Take keys out of sight for `length` queries, of which the first stands at `start`."""
        return mask

    @abstractmethod
    def forward(
        self, scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "#B 1 #T S"]
    ) -> Float[Tensor, "B H T S"]:
        """Weigh the keys that the mask lets one see; the others weigh exactly nothing."""


class PositionPart(nn.Module):
    """Tells where a token stands: through doors, or as vectors."""

    @staticmethod
    def objections(size: int) -> list[str]:
        """Say why this size cannot be built; nothing when it can."""
        return []


class Position(PositionPart):
    """Four doors through which a place can be told: `Position(size)`.

    Each door is the identity until a part opens it. `start` is the place of the first query;
    keys begin at place 0. Doors act in self-attention only: a source and a target place are not
    on one line.
    """

    acts_on_scores: ClassVar[bool] = False
    """`compare` or `mix` are not the identity, so no fused kernel can stand in for them."""

    def __init__(self, size: int) -> None:
        super().__init__()

    def enter(self, x: Float[Tensor, "B T E"], start: int) -> Float[Tensor, "B T M"]:
        """Tell the place to the input of a layer."""
        return x

    def place(
        self,
        queries: Float[Tensor, "B H T D"],
        keys: Float[Tensor, "B H T D"],
        values: Float[Tensor, "B H T D"],
        start: int,
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B H T D"], Float[Tensor, "B H T D"]]:
        """Tell the place to queries, keys and values, before they meet."""
        return queries, keys, values

    def compare(
        self,
        similarity: Similarity,
        queries: Float[Tensor, "B H T D"],
        keys: Float[Tensor, "B H S D"],
        start: int,
    ) -> Float[Tensor, "B H T S"]:
        """Score the pairs, knowing how far apart they are."""
        scores: Tensor = similarity(queries, keys)
        return scores

    def mix(
        self,
        weights: Float[Tensor, "B H T S"],
        values: Float[Tensor, "B H S D"],
        start: int,
    ) -> Float[Tensor, "B H T D"]:
        """Sum the values by their weights, knowing how far away they are."""
        return weights @ values


class PositionVectors(PositionPart, ABC):
    """Gives each place a vector: `PositionVectors(size)`."""

    @abstractmethod
    def forward(self, start: int, length: int, like: Tensor) -> Float[Tensor, "T P"]:
        """Give the vectors of the places from `start` on, of the type and device of `like`."""


def masked_softmax(
    scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "#B 1 #T S"]
) -> Float[Tensor, "B H T S"]:
    """softmax over the visible keys: −∞ before, exactly zero after (seeds 001, 003, 004).

    In float32 at least: the sum of many small weights is lost in 16 bits.
    """
    # Added, not filled in: the sum needs no work backward, and a mask is small beside the scores.
    hidden = scores + torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, float("-inf"))
    exact = torch.promote_types(scores.dtype, torch.float32)
    return torch.softmax(hidden, dim=-1, dtype=exact).to(scores.dtype)


def cut_heads(x: Float[Tensor, "B T N"], count: int) -> Float[Tensor, "B H T D"]:
    """Cut the features into `count` heads."""
    batch, length, _ = x.shape
    return x.view(batch, length, count, -1).transpose(1, 2)


def project_at_once(
    x: Float[Tensor, "B T M"], count: int, *maps: nn.Linear
) -> tuple[Float[Tensor, "B H T D"], ...]:
    """Project by several maps, and cut each into heads: one large product instead of small ones."""
    weight = torch.cat([each.weight for each in maps])
    bias = torch.cat([each.bias for each in maps])
    projected = F.linear(x, weight, bias).view(*x.shape[:2], len(maps), count, -1)
    return projected.permute(2, 0, 3, 1, 4).unbind(0)


def concatenate_heads(x: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T N"]:
    """Lay the features of all heads side by side again."""
    return x.transpose(1, 2).flatten(-2)
