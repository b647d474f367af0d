"""Recording of what each attention module computes.

    with record(model) as records:
        model(source, is_real, target)
    records[0].weights                              B H T S, each row sums to one

The records hold every head and every position; nothing is averaged. While a model is recorded it
takes the plain path instead of the fused kernel, and the records hold exactly what it computed.
Recording is local to the thread: other threads can use the same model at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import nn

from dragoman.model.attention import Attention, Observation, observe_attention
from dragoman.model.role import Role
from dragoman.shapes import Bool, Float, Tensor


@dataclass(frozen=True, slots=True)
class AttentionRecord:
    """One call of one attention module, with all its heads."""

    role: Role
    """What attends to what; see `Role`."""
    layer: int
    """The index among attention modules of this role, from zero at the bottom."""
    name: str
    """The name of the attention module in the model."""
    weights: Float[Tensor, "N H T S"]
    """The share of each value in the output of a query; before dropout."""
    scores: Float[Tensor, "N H T S"]
    """The similarity of each query and each key, before the mask is applied."""
    mask: Bool[Tensor, "#N 1 #T S"]
    """True where the query may attend to the key."""
    queries: Float[Tensor, "N H T D"]
    keys: Float[Tensor, "B H S D"]
    """One row for each source; neighboring rows of queries may share it."""
    values: Float[Tensor, "B H S D"]


@contextmanager
def record(model: nn.Module) -> Iterator[list[AttentionRecord]]:
    """Record every attention module of a model: each call appends one record to the list."""
    records: list[AttentionRecord] = []
    modules = dict(_attention_modules(model))

    def observe(observation: Observation) -> None:
        if observation.attention in modules:
            records.append(_to_record(observation, *modules[observation.attention]))

    with observe_attention(observe):
        yield records


def _attention_modules(model: nn.Module) -> Iterator[tuple[Attention, tuple[str, int]]]:
    """Yield each attention module with its name and its index among those of the same role."""
    counts: Counter[Role] = Counter()
    for name, module in model.named_modules():
        if isinstance(module, Attention):
            yield module, (name, counts[module.role])
            counts[module.role] += 1


def _to_record(observation: Observation, name: str, layer: int) -> AttentionRecord:
    rows = observation.rows_per_source
    mask = observation.mask
    if rows > 1:
        mask = mask.expand(observation.keys.shape[0], -1, -1, -1)
    return AttentionRecord(
        observation.attention.role,
        layer,
        name,
        weights=_ungroup(observation.weights, rows).detach(),
        scores=_ungroup(observation.scores, rows).detach(),
        mask=_ungroup(mask, rows),
        queries=_ungroup(observation.queries, rows).detach(),
        keys=observation.keys.detach(),
        values=observation.values.detach(),
    )


def _ungroup(
    grouped: Float[Tensor, "B H U S"] | Bool[Tensor, "B H U S"], rows_per_source: int
) -> Float[Tensor, "N H T S"] | Bool[Tensor, "N H T S"]:
    """Give each row of queries its own row again."""
    if rows_per_source == 1:
        return grouped
    batch, heads, positions, features = grouped.shape
    rows = grouped.reshape(batch, heads, rows_per_source, positions // rows_per_source, features)
    return rows.transpose(1, 2).flatten(0, 1)
