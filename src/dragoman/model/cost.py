"""What does each room of a model cost?

Parameters are counted; FLOPs are those of the matrix products, two for each multiplication with
its addition, as PyTorch's own counter finds them while one sentence passes through the model on
the meta device. So any part is measured, ours or yours, and nothing is really computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from dragoman.model.build import build_model
from dragoman.model.parts import Position
from dragoman.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Room:
    """A module of the model, what it costs, and the rooms inside it."""

    name: str
    kind: str
    """The name of its class."""
    parameters: int
    flops: int
    """For one whole sentence, forward."""
    rooms: tuple[Room, ...]
    count: int = 1
    """How many of the same stand above each other; the costs are of one."""


def measure(recipe: Recipe, source_length: int, target_length: int) -> Room:
    """Count the parameters and FLOPs of every room, for one sentence of these lengths."""
    size = recipe.tokenizer.vocabulary_size
    with torch.device("meta"):
        model = build_model(recipe.model, size, size).eval().requires_grad_(False)
        source = torch.zeros(1, source_length, dtype=torch.long)
        target = torch.zeros(1, target_length, dtype=torch.long)
        counter = FlopCounterMode(display=False)
        with counter:
            model(source, torch.ones_like(source, dtype=torch.bool), target)
    flops = {name: sum(counts.values()) for name, counts in counter.get_flop_counts().items()}
    return _room("model", model, type(model).__name__, flops)


def _room(name: str, module: nn.Module, path: str, flops: dict[str, int]) -> Room:
    parameters = sum(parameter.numel() for parameter in module.parameters())
    rooms = tuple(_rooms_in(module, path, flops))
    return Room(name, type(module).__name__, parameters, _flops(module, path, flops), rooms)


def _flops(module: nn.Module, path: str, flops: dict[str, int]) -> int:
    """Look up what was counted; a module that is never called itself costs what it holds."""
    if path in flops:
        return flops[path]
    return sum(_flops(child, f"{path}.{name}", flops) for name, child in module.named_children())


def _rooms_in(module: nn.Module, path: str, flops: dict[str, int]) -> Iterator[Room]:
    """Find the rooms of our own making; what PyTorch ships is furniture."""
    for name, child in module.named_children():
        below = f"{path}.{name}"
        if isinstance(child, nn.ModuleList):
            items = [_room("", item, f"{below}.{index}", flops) for index, item in enumerate(child)]
            yield from _stack(name, items)
        elif not _is_furniture(child):
            yield _room(name, child, below, flops)


def _is_furniture(module: nn.Module) -> bool:
    is_foreign = type(module).__module__.startswith("torch.")
    return is_foreign or isinstance(module, nn.Dropout) or type(module) is Position


def _stack(name: str, items: list[Room]) -> Iterator[Room]:
    """Show neighbours that are the same as one, and leave out positions that tell nothing."""
    first = 1
    for item, same in groupby(items):
        count = len(list(same))
        span = f"{first}–{first + count - 1}" if count > 1 else f"{first}"
        if item.kind != Position.__name__:
            yield replace(item, name=f"{name} {span}", count=count)
        first += count
