"""How does one sequence look at another, or at itself?

    Attention(Q, K, V) = weigh(compare(Q, K)) V                     (seed 002)
    MultiHead(x, m)    = join(head₁, …, headₕ)                      (Vaswani et al., 2017)

*Project* and *join* are the heads, *compare* is the similarity, *weigh* is the reach, and
positions have their doors. The plain path below is the definition; the fused kernel is taken
where the parts allow it and the device gains by it, and must give the same.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model.blueprint import Blueprint
from dragoman.model.cache import KeysValues
from dragoman.model.dropout import Dropout
from dragoman.model.parts import Position
from dragoman.shapes import Bool, Float, Tensor


class Attention(nn.Module):
    """Compare, weigh, mix."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        self.similarity = blueprint.similarity(blueprint.head_size)
        self.reach = blueprint.reach()
        self.dropout = Dropout(blueprint.settings.attention_dropout)
        self.is_fusable = True
        """Whoever wants to see the weights sets this to False: a fused kernel shows none."""

    def forward(
        self,
        queries: Float[Tensor, "N H T D"],
        keys: Float[Tensor, "B H S D"],
        values: Float[Tensor, "B H S D"],
        mask: Bool[Tensor, "#B 1 #T S"],
        position: Position,
        start: int,
    ) -> Float[Tensor, "N H T D"]:
        """Give each query the values of the keys that it is like.

        Several rows of queries may share the keys of one source: they are asked together, as if
        they were places of one row, so that no key is copied.
        """
        mask = self.reach.narrow(mask, start, queries.shape[2])
        shares = queries.shape[0] // keys.shape[0]
        if shares > 1:
            mask = mask.expand(-1, -1, queries.shape[2], -1).repeat(1, 1, shares, 1)
            _, heads, length, size = queries.shape
            apart = queries.view(-1, shares, heads, length, size)
            together = apart.transpose(1, 2).flatten(2, 3)
            mixed = self._mix(together, keys, values, mask, position, start)
            return mixed.view(-1, heads, shares, length, size).transpose(1, 2).flatten(0, 1)
        return self._mix(queries, keys, values, mask, position, start)

    def _mix(
        self,
        queries: Float[Tensor, "B H T D"],
        keys: Float[Tensor, "B H S D"],
        values: Float[Tensor, "B H S D"],
        mask: Bool[Tensor, "#B 1 #T S"],
        position: Position,
        start: int,
    ) -> Float[Tensor, "B H T D"]:
        """Compare, weigh, mix, row by row."""
        if self._fuses(queries, position):
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
        weights = self.dropout(self.reach(scores, mask))
        return position.mix(weights, values, start)

    def _fuses(self, queries: Tensor, position: Position) -> bool:
        """Whether one kernel may do all of it, and is worth it on this device."""
        may = self.is_fusable and self.reach.is_softmax and not position.acts_on_scores
        return may and _is_fusing_worth_it(queries, self.training and self.dropout.p > 0)


def _is_fusing_worth_it(queries: Tensor, has_dropout: bool) -> bool:
    if queries.device.type != "cpu":
        return True
    # On a CPU the kernel gains in plain float32 only. It collapses where float32 matmuls run in
    # bfloat16, is slower than two matmuls in bfloat16 itself, and has no dropout of its own.
    return queries.dtype == torch.float32 and _is_float32_plain() and not has_dropout


# The compiler cannot look into the setting itself.
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _is_float32_plain() -> bool:
    return torch.get_float32_matmul_precision() == "highest"


class SelfAttention(nn.Module):
    """A sequence looks at itself; queries, keys and values come from one place."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        self.heads = blueprint.build_heads()
        self.attention = Attention(blueprint)

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "#B 1 #T S"],
        position: Position,
        past: KeysValues | None = None,
    ) -> tuple[Float[Tensor, "B T M"], KeysValues]:
        """Look at what is here and what is past; also give what the next step needs of it."""
        start = 0 if past is None else past.keys.shape[2]
        queries, keys, values = position.place(*self.heads.project(x), start)
        seen = KeysValues(keys, values) if past is None else past.then(KeysValues(keys, values))
        mixed = self.attention(queries, seen.keys, seen.values, mask, position, start)
        return self.heads.join(mixed), seen


class CrossAttention(nn.Module):
    """The target asks, the source answers."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        self.heads = blueprint.build_heads()
        self.attention = Attention(blueprint)
        self.no_position = Position(blueprint.head_size)

    def forward(
        self,
        x: Float[Tensor, "N T M"],
        memory: Float[Tensor, "B S M"],
        mask: Bool[Tensor, "#B 1 #T S"],
        start: int,
        known: KeysValues | None = None,
    ) -> tuple[Float[Tensor, "N T M"], KeysValues]:
        """Look at the source; also give its keys and values, which need computing only once."""
        source = KeysValues(*self.heads.keys_values(memory)) if known is None else known
        queries = self.heads.queries(x)
        mixed = self.attention(queries, source.keys, source.values, mask, self.no_position, start)
        return self.heads.join(mixed), source
