"""Parameters and FLOPs of each module of a model.

PyTorch's counter counts the FLOPs of matrix products while one sentence passes through the model
on the meta device: two for each multiplication with its addition. Nothing is really computed, and
any part can be measured, also a part of your own.

Each product is attributed to exactly one module: the innermost one that is running. The costs of a
module are its own plus those of all modules inside it. So children always add up to their parent.
Attention takes its plain path, because the products of a fused kernel belong to no module: the
scores are those of the similarity, the weighted sum is `other`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from dragoman.model.attention import observe_attention
from dragoman.model.build import build_model
from dragoman.model.parts import Heads, Position
from dragoman.recipe.schema import Recipe

OTHER = "other"
"""The name of the entry for everything in a module that is not in a listed child."""


@dataclass(frozen=True, slots=True)
class ModuleCost:
    """A module of the model, its costs, and the modules inside it."""

    name: str
    kind: str
    """The name of its class; empty for the entry `other`."""
    parameters: int
    flops: int
    """For one whole sentence, forward."""
    children: tuple[ModuleCost, ...] = ()
    """They add up to this module."""
    count: int = 1
    """How many equal modules this entry stands for; the costs, and those of its children, are of
    all of them together."""


def measure(recipe: Recipe, source_length: int, target_length: int) -> ModuleCost:
    """Count the parameters and FLOPs of every module, for one sentence of these lengths."""
    size = recipe.tokenizer.vocabulary_size
    with torch.device("meta"):
        model = build_model(recipe.model, size, size).eval().requires_grad_(False)
        source = torch.zeros(1, source_length, dtype=torch.long)
        target = torch.zeros(1, target_length, dtype=torch.long)
        flops = _ModuleFlops(model)
        with flops.counter, observe_attention(lambda observation: None):
            model(source, torch.ones_like(source, dtype=torch.bool), target)
    return _cost("model", model, flops.by_module)


class _ModuleFlops:
    """Counts the FLOPs of each module of a model, without those of the modules inside it."""

    _HEADS_METHODS = ("queries", "keys_values", "project", "join")
    """Attention calls these methods of `Heads` directly: there is no `forward` to hook into."""

    def __init__(self, model: nn.Module) -> None:
        self.counter = FlopCounterMode(display=False)
        self.by_module: Counter[nn.Module] = Counter()
        self._running: list[nn.Module] = []
        self._total = 0
        for module in model.modules():
            module.register_forward_pre_hook(lambda module, _: self._enter(module))
            module.register_forward_hook(lambda *_: self._leave())
            if isinstance(module, Heads):
                for method in self._HEADS_METHODS:
                    setattr(module, method, self._counted(module, getattr(module, method)))

    def _counted(self, module: nn.Module, method: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            self._enter(module)
            try:
                return method(*arguments)
            finally:
                self._leave()

        return run

    def _enter(self, module: nn.Module) -> None:
        self._attribute()
        self._running.append(module)

    def _leave(self) -> None:
        self._attribute()
        self._running.pop()

    def _attribute(self) -> None:
        """Attribute what was counted since the last change to the module that was running."""
        total = self.counter.get_total_flops()
        if self._running:
            self.by_module[self._running[-1]] += total - self._total
        self._total = total


def _cost(name: str, module: nn.Module, flops: Counter[nn.Module]) -> ModuleCost:
    parameters = sum(parameter.numel() for parameter in module.parameters())
    total = sum(flops[inner] for inner in module.modules())
    children = tuple(_children(module, flops))
    if children:
        other = ModuleCost(
            OTHER,
            "",
            parameters - sum(child.parameters for child in children),
            total - sum(child.flops for child in children),
        )
        if other.parameters or other.flops:
            children = (*children, other)
    return ModuleCost(name, type(module).__name__, parameters, total, children)


def _children(module: nn.Module, flops: Counter[nn.Module]) -> Iterator[ModuleCost]:
    """Yield the costs of Dragoman's modules; PyTorch's own modules are not listed."""
    for name, child in module.named_children():
        if isinstance(child, nn.ModuleList):
            yield from _merge_equal(name, [_cost("", item, flops) for item in child])
        elif not _is_hidden(child):
            yield _cost(name, child, flops)


def _is_hidden(module: nn.Module) -> bool:
    is_from_torch = type(module).__module__.startswith("torch.")
    return is_from_torch or isinstance(module, nn.Dropout) or type(module) is Position


def _merge_equal(name: str, items: list[ModuleCost]) -> Iterator[ModuleCost]:
    """Merge neighbors with equal costs into one entry, and leave out positions without effect."""
    first = 1
    for item, equal_items in groupby(items):
        count = len(list(equal_items))
        numbers = f"{first}–{first + count - 1}" if count > 1 else f"{first}"
        if item.kind != Position.__name__:
            yield replace(_times(item, count), name=f"{name} {numbers}", count=count)
        first += count


def _times(module: ModuleCost, count: int) -> ModuleCost:
    """Return the costs of several equal modules together."""
    return replace(
        module,
        parameters=count * module.parameters,
        flops=count * module.flops,
        children=tuple(_times(child, count) for child in module.children),
    )
