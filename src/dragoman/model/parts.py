"""Interfaces of the model's exchangeable parts.

    Attention(Q, K, V) = weights(scores(Q, K)) V

Four kinds of parts make up attention. `Heads` projects the input to queries, keys and values, and
joins the heads again. `Similarity` scores each query against each key. `AttentionKind` turns scores
into weights. A position part adds information about the order of the tokens: `Position` changes
attention through hooks; `PositionVectors` computes a vector for each position, and
`position_entry.py` passes these vectors to one of the hooks.

The classes here are interfaces. Each implementation is one file in the folder of its kind.
Constructor arguments before `*` come from the model, arguments after `*` from the recipe. A part
that does not support every size reports this in `size_errors`, before any weight is created.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.shapes import Bool, Float, Tensor


class DotProduct(NamedTuple):
    """A similarity in the form `scale · query · key`, which fused kernels can compute."""

    queries: Float[Tensor, "B H T D"]
    keys: Float[Tensor, "B H S D"]
    scale: float


class Heads(nn.Module, ABC):
    """Projects to queries, keys and values, and joins the heads again: `Heads(width, count)`."""

    @staticmethod
    def size_errors(width: int, count: int) -> list[str]:
        """Return the reasons why these sizes are impossible; empty if they are possible."""
        return []

    @staticmethod
    @abstractmethod
    def head_size(width: int, count: int) -> int:
        """Return the number of features of one head."""

    @abstractmethod
    def queries(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B H T D"]:
        """Project the input to queries."""

    @abstractmethod
    def keys_values(
        self, memory: Float[Tensor, "B S M"]
    ) -> tuple[Float[Tensor, "B H S D"], Float[Tensor, "B H S D"]]:
        """Project the memory to keys and values."""

    def project(
        self, x: Float[Tensor, "B T M"]
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B H T D"], Float[Tensor, "B H T D"]]:
        """Project one input to queries, keys and values, for self-attention.

        A subclass may override this with a faster computation of the same values.
        """
        return self.queries(x), *self.keys_values(x)

    @abstractmethod
    def join(self, mixed: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T M"]:
        """Concatenate the heads and project them to the width of the model."""


class Similarity(nn.Module, ABC):
    """Scores each query against each key: `Similarity(size)`.

    The score of a pair depends on that query and that key only.
    """

    is_linear_in_keys: ClassVar[bool] = False
    """True if s(q, k + a) = s(q, k) + s(q, a). Relative positions are then cheaper to compute."""

    @staticmethod
    def size_errors(size: int) -> list[str]:
        """Return the reasons why this head size is impossible; empty if it is possible."""
        return []

    @abstractmethod
    def forward(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> Float[Tensor, "B H T S"]:
        """Score every pair of a query and a key."""

    def as_dot_product(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> DotProduct | None:
        """Return the similarity as a scaled dot product, or None if it is not one."""
        return None


class AttentionKind(nn.Module, ABC):
    """Turns scores into weights that sum to one over the visible keys: `AttentionKind()`."""

    is_softmax: ClassVar[bool] = False
    """True if the weights are the softmax of the scores over the visible keys, as fused kernels
    compute it."""

    def restrict_mask(
        self, mask: Bool[Tensor, "#B 1 #T S"], start: int, length: int
    ) -> Bool[Tensor, "#B 1 #T S"]:
        """Hide more keys; the mask is for `length` queries, the first one at position `start`."""
        return mask

    @abstractmethod
    def forward(
        self, scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "#B 1 #T S"]
    ) -> Float[Tensor, "B H T S"]:
        """Compute the weights; keys that the mask hides get a weight of exactly zero."""


class PositionPart(nn.Module):
    """Base class of all position parts: those with hooks and those with vectors."""

    @staticmethod
    def size_errors(size: int) -> list[str]:
        """Return the reasons why this size is impossible; empty if it is possible."""
        return []

    @property
    def max_positions(self) -> int | None:
        """The number of positions that the part can represent; None if there is no limit."""
        return None


class Position(PositionPart):
    """Four hooks that let positions change the computation: `Position(size)`.

    Each hook is the identity unless a subclass overrides it. `start` is the position of the first
    query; keys start at position 0. The hooks act in self-attention only, because positions of the
    source and of the target are not comparable.
    """

    acts_on_scores: ClassVar[bool] = False
    """True if `compare` or `mix` is overridden. Fused kernels cannot be used then."""

    def __init__(self, size: int) -> None:
        super().__init__()

    def apply_to_input(self, x: Float[Tensor, "B T E"], start: int) -> Float[Tensor, "B T M"]:
        """Change the input of a layer."""
        return x

    def apply_to_heads(
        self,
        queries: Float[Tensor, "B H T D"],
        keys: Float[Tensor, "B H T D"],
        values: Float[Tensor, "B H T D"],
        start: int,
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B H T D"], Float[Tensor, "B H T D"]]:
        """Change queries, keys and values before they are compared."""
        return queries, keys, values

    def compare(
        self,
        similarity: Similarity,
        queries: Float[Tensor, "B H T D"],
        keys: Float[Tensor, "B H S D"],
        start: int,
    ) -> Float[Tensor, "B H T S"]:
        """Score every pair; a subclass can use the distance between query and key."""
        scores: Tensor = similarity(queries, keys)
        return scores

    def mix(
        self,
        weights: Float[Tensor, "B H T S"],
        values: Float[Tensor, "B H S D"],
        start: int,
    ) -> Float[Tensor, "B H T D"]:
        """Sum the weighted values; a subclass can use the distance between query and key."""
        return weights @ values


class PositionVectors(PositionPart, ABC):
    """Gives each position a vector: `PositionVectors(size)`."""

    @abstractmethod
    def forward(self, start: int, length: int, like: Tensor) -> Float[Tensor, "T P"]:
        """Return `length` vectors from position `start`, with the dtype and device of `like`."""


def masked_softmax(
    scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "#B 1 #T S"]
) -> Float[Tensor, "B H T S"]:
    """Compute the softmax over the visible keys  ([CS224N], [APPLY-DL], [CS182]).

    Hidden keys get −∞ before the softmax and exactly zero after it. The softmax is computed in
    float32 at least, because a sum of many small weights is inexact in 16 bits.
    """
    # Adding −∞ is cheaper than `scores.masked_fill`: an addition has no work in the backward pass.
    masked_scores = scores + torch.zeros_like(mask, dtype=scores.dtype).masked_fill(
        ~mask, float("-inf")
    )
    dtype = torch.promote_types(scores.dtype, torch.float32)
    return torch.softmax(masked_scores, dim=-1, dtype=dtype).to(scores.dtype)


def split_heads(x: Float[Tensor, "B T N"], count: int) -> Float[Tensor, "B H T D"]:
    """Split the features into `count` heads."""
    batch, length, _ = x.shape
    return x.view(batch, length, count, -1).transpose(1, 2)


def concatenate_heads(x: Float[Tensor, "B H T D"]) -> Float[Tensor, "B T N"]:
    """Concatenate the features of all heads: the inverse of `split_heads`."""
    return x.transpose(1, 2).flatten(-2)


def project_together(
    x: Float[Tensor, "B T M"], count: int, *projections: nn.Linear
) -> tuple[Float[Tensor, "B H T D"], ...]:
    """Apply several projections as one large matrix product, and split each result into heads."""
    weight = torch.cat([projection.weight for projection in projections])
    bias = torch.cat([projection.bias for projection in projections])
    projected = F.linear(x, weight, bias).view(*x.shape[:2], len(projections), count, -1)
    return projected.permute(2, 0, 3, 1, 4).unbind(0)
