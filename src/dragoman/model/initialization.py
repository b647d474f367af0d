"""Initial values of all weights.

Matrices are drawn by Glorot's rule, layer norms start as the identity, biases at zero. A module
with other weights has a method `initialize(generator)`.

Each module draws from its own generator, which is seeded with the seed and the module's name. So a
weight depends on its name and the seed only: not on other modules, not on the device, and not on
the number of ranks. It therefore also works for a model that was built on the meta device and
materialized, whole or sharded. Values are drawn in float32 on the CPU, one module at a time, so the
memory needed is that of one module.
"""

from __future__ import annotations

import copy
import hashlib

import torch
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor


def initialize(model: nn.Module, seed: int) -> None:
    """Initialize every parameter of the model in place."""
    for name, module in model.named_modules():
        parameters = dict(module.named_parameters(recurse=False))
        if not parameters:
            continue
        draft = _draft(module)
        _draw(draft, name, generator_for(seed, name))
        with torch.no_grad():
            for key, parameter in parameters.items():
                value: torch.Tensor = draft.get_parameter(key)
                if isinstance(parameter, DTensor):
                    # Every rank drew the whole tensor, so it keeps its shard without communication.
                    value = distribute_tensor(
                        value, parameter.device_mesh, parameter.placements, src_data_rank=None
                    )
                parameter.copy_(value)


def _draft(module: nn.Module) -> nn.Module:
    """Copy one module, without its children, to the CPU in float32."""
    draft = copy.copy(module)
    draft._modules = {}
    draft._parameters = {
        key: None
        if parameter is None
        else nn.Parameter(torch.empty(parameter.shape, dtype=torch.float32, device="cpu"))
        for key, parameter in module._parameters.items()
    }
    return draft


def generator_for(seed: int, name: str) -> torch.Generator:
    """Return the generator of the module with this name."""
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
            draw = getattr(module, "initialize", None)
            if draw is None:
                raise NotImplementedError(
                    f"{name} ({type(module).__name__}) has weights of its own: give it a method "
                    "initialize(generator) that draws them"
                )
            draw(generator)


def _draw_gates(cell: nn.RNNBase, generator: torch.Generator) -> None:
    """Draw each gate as a matrix of its own; PyTorch stores all gates in one matrix."""
    for key, weight in cell.named_parameters(recurse=False):
        gates = weight.chunk(len(weight) // cell.hidden_size)
        for gate in gates:
            if gate.ndim == 2:
                nn.init.xavier_uniform_(gate, generator=generator)
            else:
                nn.init.zeros_(gate)
        if isinstance(cell, nn.LSTM) and key.startswith("bias_ih"):
            nn.init.ones_(gates[1])  # The forget gate starts open, so states are kept at first.
