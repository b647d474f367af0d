"""Memory of one rank while it trains.

    weights, gradients, moments, moving average    a multiple of the parameters
    partial sums of gradients                      with several micro-batches per update
    activations                                    bytes per token × tokens of a micro-batch
    the loss                                       logits of a chunk, gradient of the output matrix
    bfloat16 matrix products on a CPU              kernels, compiled for each shape and kept

The activations per token are counted on the meta device: the model runs without memory, and the
tensors that autograd keeps are added up, as `training/micro_batches.py` does with real ones. The
meta device has no fused attention, so the count is for sentences of mean length, where the
attention weights are small.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from dragoman.model.build import build_model
from dragoman.planning.machines import Machines
from dragoman.planning.sizes import ModelSize
from dragoman.recipe.schema import Recipe
from dragoman.training.device import choose_precision
from dragoman.training.loss import CHUNK
from dragoman.training.micro_batches import COPIES, SHARE, fitting_micro_batches
from dragoman.training.parallel import checkpoint_activations

_PROBE_ROWS, _PROBE_LENGTH = (32, 64), 32
_BFLOAT16_SHARE = 0.5
"""Activations with autocast, compared with float32."""
PROCESS_BYTES = {False: 0.45e9, True: 1.2e9}
"""Python with PyTorch on a CPU; on a GPU, its context and the buffers of libraries."""
_CPU_BFLOAT16_BYTES = 3e9
"""More than float32 needs on a CPU: oneDNN compiles a kernel for each shape of a product and keeps
1,024 of them, and attention is not fused. Measured with AMX: 2.4 GB (base, 10 updates), 4.0 GB
(small, 80 updates)."""
_TEMPORARY = 1.15
"""Peak of activations and their gradients, compared with what autograd keeps."""


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Bytes of one rank."""

    state: float
    """Weights, gradients, moments, moving average."""
    token_bytes: float
    """Activations of one token of a micro-batch."""
    largest_micro_batch: int
    """Tokens that fit in memory together; at most those of an update."""
    micro_batches: int
    """Per update, over all ranks."""
    micro_batch: int
    """Tokens of one of them."""
    process: float

    @property
    def peak(self) -> float:
        """All of it, at the end of a forward pass."""
        return self.process + self.state + _TEMPORARY * self.token_bytes * self.micro_batch


def rank_memory(model: ModelSize, machines: Machines, longest: int) -> RankMemory:
    """Return the memory of a rank, with as few micro-batches as fit."""
    recipe = model.recipe
    settings, world_size = recipe.training, machines.world_size
    token_bytes = activation_bytes(recipe) * (2 if settings.r_drop else 1)
    if machines.is_gpu and machines.device.peak_bfloat16 and settings.precision != "float32":
        token_bytes *= _BFLOAT16_SHARE
    shards = world_size if settings.parallel == "fsdp" else 1
    weight_bytes = 4 * model.parameters / shards
    budget = SHARE * machines.memory - COPIES * weight_bytes
    tokens = settings.tokens_per_update
    if settings.micro_batch == "auto":
        count = fitting_micro_batches(tokens, token_bytes, budget, longest, world_size)
    else:
        count = max(-(-tokens // settings.micro_batch), world_size)
    fits = max(0, int(budget / token_bytes))
    per_rank = -(-count // world_size)
    process = PROCESS_BYTES[machines.is_gpu]
    if not machines.is_gpu:
        precision = choose_precision(settings, torch.device("cpu"), recipe.model.width)
        process += _CPU_BFLOAT16_BYTES if precision == "bfloat16" else 0.0
    return RankMemory(
        state=_state_bytes(model, per_rank, shards),
        token_bytes=token_bytes,
        largest_micro_batch=min(fits, tokens),
        micro_batches=count,
        micro_batch=tokens // count,
        process=process,
    )


def checkpoint_bytes(model: ModelSize) -> float:
    """Return the size of a checkpoint: weights, moments, and the moving average."""
    copies = 1 + _moments(model) + bool(model.recipe.training.ema_decay)
    return 4 * model.parameters * copies


def _state_bytes(model: ModelSize, micro_batches: int, shards: int) -> float:
    settings, tokenizer = model.recipe.training, model.recipe.tokenizer
    # The sum over 2^k micro-batches holds up to k partial sums.
    partial_sums = (micro_batches - 1).bit_length()
    copies = 2 + _moments(model) + bool(settings.ema_decay) + partial_sums
    rows = tokenizer.vocabulary_size
    loss = 4 * rows * (model.recipe.model.width + CHUNK)
    # One layer is gathered while it is computed.
    gathered = 4 * model.parameters / 8 if shards > 1 else 0
    return 4 * model.parameters * copies / shards + loss + gathered


def _moments(model: ModelSize) -> float:
    """Return the moments per parameter: Adam has two; Muon has one, of the layers' matrices."""
    if model.recipe.training.optimizer == "adam":
        return 2.0
    matrices = _layer_matrix_parameters(model.recipe)
    return 2.0 - matrices / model.parameters


def _layer_matrix_parameters(recipe: Recipe) -> int:
    size = recipe.tokenizer.vocabulary_size
    with torch.device("meta"):
        model = build_model(recipe.model, size, size)
        return sum(matrix.numel() for matrix in model.layer_matrices())


def activation_bytes(recipe: Recipe) -> float:
    """Count the bytes that autograd keeps per token, on the meta device, in float32."""
    size = recipe.tokenizer.vocabulary_size
    with torch.device("meta"):
        model = build_model(recipe.model, size, size).train()
        if recipe.training.activation_checkpointing:
            checkpoint_activations(model)
        few, many = (_kept_bytes(model, rows) for rows in _PROBE_ROWS)
    tokens = (_PROBE_ROWS[1] - _PROBE_ROWS[0]) * _PROBE_LENGTH
    # The loss also keeps the states before the output matrix and their gradients.
    return (many - few) / tokens + 2 * 4 * recipe.model.width


def _kept_bytes(model: nn.Module, rows: int) -> int:
    tokens = torch.zeros(rows, _PROBE_LENGTH, dtype=torch.long)
    is_real = torch.ones_like(tokens, dtype=torch.bool)
    kept: dict[int, int] = {}

    def count(tensor: torch.Tensor) -> torch.Tensor:
        base = tensor if tensor._base is None else tensor._base
        if not isinstance(base, nn.Parameter):
            storage = tensor.untyped_storage()
            kept[storage._cdata] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        states = model.logit_factors(tokens, is_real, tokens)  # type: ignore[operator]
    del states
    return sum(kept.values())
