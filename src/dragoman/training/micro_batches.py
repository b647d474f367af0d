"""The number of micro-batches of an update.

`tokens_per_update` decides what is learned; the number of micro-batches only makes it fit into
memory. Batches of the longest and of short sentences pass through the model once while the bytes
that autograd keeps are counted. These bytes grow linearly with the tokens. The result is stored in
the run and does not change when the run is resumed.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from dragoman.recipe.schema import TrainingRecipe
from dragoman.tokenizer.interface import END
from dragoman.training.device import free_memory
from dragoman.training.loss import MicroBatch, Objective

_PROBE_TOKENS = 1024
COPIES = 4
"""Copies of the weights besides the model: gradients, two moments, and a moving average."""
SHARE = 0.6
"""Share of the free memory to use; the rest is for temporary tensors and other programs."""


def count_micro_batches(
    objective: Objective, settings: TrainingRecipe, longest: int, world_size: int
) -> int:
    """Return the smallest power of two that fits into memory, at least one for each rank.

    If the recipe sets `micro_batch`, that size decides instead.
    """
    tokens = settings.tokens_per_update
    if settings.micro_batch != "auto":
        return max(-(-tokens // settings.micro_batch), world_size)
    parameters = list(objective.parameters())
    device = parameters[0].device
    # With FSDP a rank has only its shard of each weight.
    local = [value.to_local() if isinstance(value, DTensor) else value for value in parameters]
    weight_bytes = sum(value.numel() * value.element_size() for value in local)
    budget = SHARE * free_memory(device) - COPIES * weight_bytes
    token_bytes = max(_bytes_per_token(objective, length, device) for length in (longest, 8))
    return fitting_micro_batches(tokens, token_bytes, budget, longest, world_size)


def fitting_micro_batches(
    tokens: int, token_bytes: float, budget: float, longest: int, world_size: int
) -> int:
    """Return the smallest power of two of micro-batches that fit into `budget` bytes.

    A rank has at least one, and a micro-batch holds at least the longest sentence.
    """
    count = 1
    while count < world_size or (
        tokens * token_bytes / count > budget and tokens // (2 * count) >= longest
    ):
        count *= 2
    return count


def _bytes_per_token(objective: Objective, length: int, device: torch.device) -> float:
    """Measure how many bytes autograd keeps per token, for sentences of this length."""
    rows = max(1, _PROBE_TOKENS // length)
    tokens = torch.full((rows, length), END, dtype=torch.long, device=device)
    is_real = torch.ones_like(tokens, dtype=torch.bool)
    kept: dict[int, int] = {}

    def count(tensor: torch.Tensor) -> torch.Tensor:
        base = tensor if tensor._base is None else tensor._base
        if not isinstance(base, nn.Parameter):  # Weights are counted separately.
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        loss = objective(MicroBatch(tokens, is_real, tokens, tokens, is_real))
    del loss
    if isinstance(objective, FSDPModule):
        objective.reshard()  # A forward pass without a backward pass leaves weights unsharded.
    return sum(kept.values()) / tokens.numel()
