"""How does every weight get its first value?

Matrices are drawn by Glorot's rule, norms start as the identity, biases at zero; a module with
weights of another kind says so in a method `initialise(generator)`.

Each module draws from a generator of its own, made from the seed and the module's name. So a
weight depends on nothing but its name and the seed: not on the modules before it, not on the
device, not on how many ranks share it. That is why it also works on a model that was built on
the meta device and materialised, whole or in shards. Values are drawn in float32 on the CPU,
one module at a time, which is all the memory it needs.
"""

from __future__ import annotations

import copy
import hashlib

import torch
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor


def initialise(model: nn.Module, seed: int) -> None:
    """Give every parameter of the model its first value, in place."""
    for name, module in model.named_modules():
        own = dict(module.named_parameters(recurse=False))
        if not own:
            continue
        draft = _draft(module)
        _draw(draft, name, _generator(seed, name))
        with torch.no_grad():
            for key, parameter in own.items():
                value: torch.Tensor = draft.get_parameter(key)
                if isinstance(parameter, DTensor):
                    # Every rank drew the whole; it keeps its shard without asking the others.
                    value = distribute_tensor(
                        value, parameter.device_mesh, parameter.placements, src_data_rank=None
                    )
                parameter.copy_(value)


def _draft(module: nn.Module) -> nn.Module:
    """Copy one module, without its children, onto the CPU in float32."""
    draft = copy.copy(module)
    draft._modules = {}
    draft._parameters = {
        key: None
        if own is None
        else nn.Parameter(torch.empty(own.shape, dtype=torch.float32, device="cpu"))
        for key, own in module._parameters.items()
    }
    return draft


def _generator(seed: int, name: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little"))


def _draw(module: nn.Module, name: str, generator: torch.Generator) -> None:
    match module:
        case nn.Linear():
            nn.init.xavier_uniform_(module.weight, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        case nn.Embedding():
            std = module.embedding_dim**-0.5
            nn.init.normal_(module.weight, std=std, generator=generator)
        case nn.LayerNorm():
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
        case nn.RNNBase():
            _draw_gates(module, generator)
        case _:
            own_way = getattr(module, "initialise", None)
            if own_way is None:
                raise NotImplementedError(
                    f"{name} ({type(module).__name__}) has weights of its own: give it a method "
                    "initialise(generator) that draws them"
                )
            own_way(generator)


def _draw_gates(cell: nn.RNNBase, generator: torch.Generator) -> None:
    """Gates lie above each other in one matrix; each is drawn as a map of its own."""
    for key, weight in cell.named_parameters(recurse=False):
        gates = weight.chunk(len(weight) // cell.hidden_size)
        for gate in gates:
            if gate.ndim == 2:
                nn.init.xavier_uniform_(gate, generator=generator)
            else:
                nn.init.zeros_(gate)
        if isinstance(cell, nn.LSTM) and key.startswith("bias_ih"):
            nn.init.ones_(gates[1])  # What is remembered at first is not forgotten at once.
