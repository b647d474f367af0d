"""What did each head look at, and what did it compare?

    with record(model) as maps:
        model(source, is_real, target)
    maps[0].weights                                 B H T S, each row sums to one

Every attention of a model is watched from outside while the block lasts: nothing is stored in its
modules, nothing is averaged, and the fused kernel, which shows no weights, is left aside for so
long. What is seen is what the model computed, to the bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from dragoman.model.attention import Attention, SelfAttention
from dragoman.shapes import Bool, Float, Tensor

Kind = Literal["encoder", "decoder", "cross"]


@dataclass(frozen=True, slots=True)
class Map:
    """One look of one attention: of all its heads, at all keys."""

    kind: Kind
    """Who looks at whom: the source at itself, the target at itself, the target at the source."""
    layer: int
    """Counted from the bottom, among attentions of its kind, from zero."""
    name: str
    """Where the attention stands in the model."""
    weights: Float[Tensor, "N H T S"]
    """How much of each value a query takes; before dropout."""
    scores: Float[Tensor, "N H T S"]
    """How like each query is to each key, before anything is hidden."""
    mask: Bool[Tensor, "#N 1 #T S"]
    """True where one may look."""
    queries: Float[Tensor, "N H T D"]
    keys: Float[Tensor, "B H S D"]
    """Of each source; several rows of queries that follow each other may share one."""
    values: Float[Tensor, "B H S D"]


@contextmanager
def record(model: nn.Module) -> Iterator[list[Map]]:
    """Watch every attention of a model: the list grows by one map each time that one looks."""
    maps: list[Map] = []
    with ExitStack() as stack:
        for name, attention, kind, layer in _attentions(model):
            stack.enter_context(_watched(attention, kind, layer, name, maps))
        yield maps


def _attentions(model: nn.Module) -> Iterator[tuple[str, Attention, Kind, int]]:
    """Find the attentions with what they are, from the bottom to the top."""
    counts: Counter[Kind] = Counter()
    for name, module in model.named_modules():
        if not isinstance(module, Attention):
            continue
        is_own = isinstance(model.get_submodule(name.rpartition(".")[0]), SelfAttention)
        is_source = name.split(".")[0] == "encoder"
        kind: Kind = "cross" if not is_own else "encoder" if is_source else "decoder"
        yield name, module, kind, counts[kind]
        counts[kind] += 1


@contextmanager
def _watched(
    attention: Attention, kind: Kind, layer: int, name: str, maps: list[Map]
) -> Iterator[None]:
    weighed: list[tuple[Tensor, Tensor, Tensor]] = []

    def hear_reach(_: nn.Module, given: tuple[Tensor, Tensor], weights: Tensor) -> None:
        weighed.append((*given, weights))

    def hear_attention(_: nn.Module, given: tuple[Any, ...], __: Tensor) -> None:
        queries, keys, values = given[:3]
        scores, mask, weights = weighed.pop()
        shares = queries.shape[0] // keys.shape[0]
        if shares > 1:  # They were asked together, as places of one row.
            mask = mask.expand(keys.shape[0], -1, -1, -1)
        seen = Map(
            kind,
            layer,
            name,
            weights=_apart(weights, shares).detach(),
            scores=_apart(scores, shares).detach(),
            mask=_apart(mask, shares),
            queries=queries.detach(),
            keys=keys.detach(),
            values=values.detach(),
        )
        maps.append(seen)

    was_fusable = attention.is_fusable
    hooks = (
        attention.reach.register_forward_hook(hear_reach),
        attention.register_forward_hook(hear_attention),
    )
    attention.is_fusable = False
    try:
        yield
    finally:
        attention.is_fusable = was_fusable
        for hook in hooks:
            hook.remove()


def _apart(
    together: Float[Tensor, "B H U S"] | Bool[Tensor, "B H U S"], shares: int
) -> Float[Tensor, "N H T S"] | Bool[Tensor, "N H T S"]:
    """Give each row of queries its own row of what was computed for them together."""
    if shares == 1:
        return together
    rows, heads, places, keys = together.shape
    apart = together.reshape(rows, heads, shares, places // shares, keys)
    return apart.transpose(1, 2).flatten(0, 1)
