"""Into how many micro-batches is an update cut?

`tokens_per_update` decides what is learned; this only decides how it is cut to fit the memory.
Batches of the longest sentences, and of short ones, are sent through the model once while
everything that autograd keeps is counted; it grows with the tokens, so the rest is multiplication.
The answer is stored in the run and never asked again.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from dragoman.recipe import TrainingRecipe
from dragoman.tokenizer.interface import END
from dragoman.training.device import free_memory
from dragoman.training.loss import MicroBatch, Objective

_PROBE_TOKENS = 1024
_COPIES = 4
"""Of the weights, besides themselves: gradients, two moments, and one for an average."""
_SHARE = 0.6
"""Of the free memory: the rest is for what comes and goes, and for others."""


def count_micro_batches(
    objective: Objective, settings: TrainingRecipe, longest: int, ranks: int
) -> int:
    """As few as fit into memory, but one for each rank; a power of two, unless the recipe says."""
    tokens = settings.tokens_per_update
    if settings.micro_batch != "auto":
        return max(-(-tokens // settings.micro_batch), ranks)
    parameters = list(objective.parameters())
    device = parameters[0].device
    # Of a sharded weight, what this rank has of it.
    owned = [each.to_local() if isinstance(each, DTensor) else each for each in parameters]
    weights = sum(each.numel() * each.element_size() for each in owned)
    room = _SHARE * free_memory(device) - _COPIES * weights
    each = max(_bytes_per_token(objective, length, device) for length in (longest, 8))
    count = 1
    while count < ranks or (tokens * each / count > room and tokens // (2 * count) >= longest):
        count *= 2
    return count


def _bytes_per_token(objective: Objective, length: int, device: torch.device) -> float:
    """How much autograd keeps for each place of a batch of sentences of this length."""
    rows = max(1, _PROBE_TOKENS // length)
    words = torch.full((rows, length), END, dtype=torch.long, device=device)
    is_real = torch.ones_like(words, dtype=torch.bool)
    kept: dict[int, int] = {}

    def count(tensor: torch.Tensor) -> torch.Tensor:
        whole = tensor if tensor._base is None else tensor._base
        if not isinstance(whole, nn.Parameter):  # Weights are there anyway.
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        loss = objective(MicroBatch(words, is_real, words, words, is_real))
    del loss
    if isinstance(objective, FSDPModule):
        objective.reshard()  # Going forward alone leaves some weights whole.
    return sum(kept.values()) / words.numel()
