"""Attention: self-attention and cross-attention.

    Attention(Q, K, V) = weights(scores(Q, K)) V                    [NLP10]
    MultiHead(x, m)    = join(head₁, …, headₕ)                      Vaswani et al., 2017; [APPLY-DL]

Queries come from the input x, keys and values from the memory m. In self-attention, m = x.

Parts of the recipe: `head_kind` computes Q, K, V and `join`, `similarity` computes the scores, and
`attention_kind` computes the weights. `position` can change these steps through hooks.

The plain computation below is the definition. A fused kernel replaces it if the parts allow this
and if the kernel is faster on the device. Both must give the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model.cache import KeysValues
from dragoman.model.dropout import Dropout
from dragoman.model.parts import Position
from dragoman.model.resolve import ResolvedParts
from dragoman.model.role import Role
from dragoman.shapes import Bool, Float, Tensor


@dataclass(frozen=True, slots=True)
class Observation:
    """The intermediate values of one call of `Attention`.

    In a beam search, several rows of queries share the keys of one source. These rows are grouped:
    the T axis contains the positions of all `rows_per_source` rows, one row after the other.
    """

    attention: Attention
    queries: Float[Tensor, "B H T D"]
    keys: Float[Tensor, "B H S D"]
    values: Float[Tensor, "B H S D"]
    scores: Float[Tensor, "B H T S"]
    mask: Bool[Tensor, "#B 1 #T S"]
    weights: Float[Tensor, "B H T S"]
    """Before dropout."""
    rows_per_source: int


Observer = Callable[[Observation], None]

# A context variable, not a hook or an attribute of the module: threads that share a model must not
# observe each other's calls.
_observers: ContextVar[tuple[Observer, ...]] = ContextVar("attention_observers", default=())


@contextmanager
def observe_attention(observer: Observer) -> Iterator[None]:
    """Inside the `with` block, call the observer after each call of `Attention` in this thread.

    Observed attention takes the plain path, because a fused kernel does not return its weights.
    Compiled code is not observed.
    """
    token = _observers.set((*_observers.get(), observer))
    try:
        yield
    finally:
        _observers.reset(token)


class Attention(nn.Module):
    """Score the keys, compute the weights, and sum the weighted values."""

    def __init__(self, parts: ResolvedParts, role: Role) -> None:
        super().__init__()
        self.role = role
        self.similarity = parts.similarity(parts.head_size)
        self.attention_kind = parts.attention_kind()
        self.dropout = Dropout(parts.settings.attention_dropout)

    def forward(
        self,
        queries: Float[Tensor, "N H T D"],
        keys: Float[Tensor, "B H S D"],
        values: Float[Tensor, "B H S D"],
        mask: Bool[Tensor, "#B 1 #T S"],
        position: Position,
        start: int,
    ) -> Float[Tensor, "N H T D"]:
        """Compute the attention output of each query; the first query is at position `start`.

        N is a multiple of B: in a beam search, several rows of queries share the keys of one
        source. Such rows are grouped into one row with more positions, so that no key is copied.
        """
        mask = self.attention_kind.restrict_mask(mask, start, queries.shape[2])
        rows_per_source = queries.shape[0] // keys.shape[0]
        if rows_per_source == 1:
            return self._attend(queries, keys, values, mask, position, start, rows_per_source)
        _, heads, length, size = queries.shape
        mask = mask.expand(-1, -1, length, -1).repeat(1, 1, rows_per_source, 1)
        rows = queries.view(-1, rows_per_source, heads, length, size)
        grouped = rows.transpose(1, 2).flatten(2, 3)
        mixed = self._attend(grouped, keys, values, mask, position, start, rows_per_source)
        return mixed.view(-1, heads, rows_per_source, length, size).transpose(1, 2).flatten(0, 1)

    def _attend(
        self,
        queries: Float[Tensor, "B H T D"],
        keys: Float[Tensor, "B H S D"],
        values: Float[Tensor, "B H S D"],
        mask: Bool[Tensor, "#B 1 #T S"],
        position: Position,
        start: int,
        rows_per_source: int,
    ) -> Float[Tensor, "B H T D"]:
        observers = () if torch.compiler.is_compiling() else _observers.get()
        if not observers and self._can_fuse(queries, position):
            product = self.similarity.as_dot_product(queries, keys)
            if product is not None:
                return F.scaled_dot_product_attention(
                    product.queries,
                    product.keys,
                    values,
                    attn_mask=mask,
                    dropout_p=self.dropout.p if self.training else 0.0,
                    scale=product.scale,
                )
        scores = position.compare(self.similarity, queries, keys, start)
        weights = self.attention_kind(scores, mask)
        mixed = position.mix(self.dropout(weights), values, start)
        for observer in observers:
            observer(
                Observation(self, queries, keys, values, scores, mask, weights, rows_per_source)
            )
        return mixed

    def _can_fuse(self, queries: Tensor, position: Position) -> bool:
        """Return whether a fused kernel gives the same result and is faster on this device."""
        is_allowed = self.attention_kind.is_softmax and not position.acts_on_scores
        return is_allowed and _is_fused_kernel_faster(queries, self.training and self.dropout.p > 0)


def _is_fused_kernel_faster(queries: Tensor, has_dropout: bool) -> bool:
    if queries.device.type != "cpu":
        return True
    # On a CPU, the kernel is faster only for exact float32 without dropout. It is much slower if
    # float32 matrix products are computed in bfloat16 (`set_float32_matmul_precision`). For
    # bfloat16 tensors it is slower than two matrix products. It does not support dropout.
    return queries.dtype == torch.float32 and _is_float32_exact() and not has_dropout


def _is_float32_exact() -> bool:
    return torch.get_float32_matmul_precision() == "highest"


# torch.compile cannot trace this setting, so the result is marked as a constant.
# `torch.compiler.assume_constant_result` sets the same attribute, but it imports torch._dynamo,
# which takes seconds.
_is_float32_exact._dynamo_marked_constant = True  # type: ignore[attr-defined]


class SelfAttention(nn.Module):
    """Attention of a sequence to itself: queries, keys and values come from the same input."""

    def __init__(self, parts: ResolvedParts, role: Role) -> None:
        super().__init__()
        self.heads = parts.build_heads()
        self.attention = Attention(parts, role)

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "#B 1 #T S"],
        position: Position,
        past: KeysValues | None = None,
    ) -> tuple[Float[Tensor, "B T M"], KeysValues]:
        """Attend to the past and to the input; also return the keys and values of both."""
        start = 0 if past is None else past.keys.shape[2]
        queries, keys, values = position.apply_to_heads(*self.heads.project(x), start)
        new = KeysValues(keys, values)
        present = new if past is None else past.append(new)
        mixed = self.attention(queries, present.keys, present.values, mask, position, start)
        return self.heads.join(mixed), present


class CrossAttention(nn.Module):
    """Attention of the target to the source: keys and values come from the encoder output."""

    def __init__(self, parts: ResolvedParts) -> None:
        super().__init__()
        self.heads = parts.build_heads()
        self.attention = Attention(parts, "cross")
        self.no_position = Position(parts.head_size)  # The base class changes nothing.

    def forward(
        self,
        x: Float[Tensor, "N T M"],
        memory: Float[Tensor, "B S M"],
        mask: Bool[Tensor, "#B 1 #T S"],
        start: int,
        cached: KeysValues | None = None,
    ) -> tuple[Float[Tensor, "N T M"], KeysValues]:
        """Attend to the source; also return its keys and values, for `cached` in later calls."""
        source = KeysValues(*self.heads.keys_values(memory)) if cached is None else cached
        queries = self.heads.queries(x)
        mixed = self.attention(queries, source.keys, source.values, mask, self.no_position, start)
        return self.heads.join(mixed), source
