"""How may a matrix move as a whole?

    M ← μ·M + (1 − μ)·G
    U = (1 − μ)·G + μ·M
    W ← W − lr · (0.2 · √max(rows, columns) · O + decay · W),      O the orthogonal matrix nearest U

Muon (Jordan et al., 2024), not in the lectures. Adam gives each number its own step; Muon gives
every direction of a layer's matrix the same, so that rare directions learn as fast as common ones.
The factor makes its steps as long as Adam's (Liu et al., 2025), so both take the same rate.

O is found by products of matrices alone (five turns of Newton and Schulz, in bfloat16 as
published). PyTorch's own `torch.optim.Muon` takes one matrix after the other, and is the
definition; here all of one shape go together, which is twice as fast on small matrices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor

from dragoman.shapes import Float, Tensor

MOMENTUM = "momentum_buffer"
"""What PyTorch's Muon calls it."""
_MEMORY = 0.95
_LENGTH = 0.2
_TURNS = 5
_LINEAR, _CUBIC, _QUINTIC = 3.4445, -4.7750, 2.0315
_SMALLEST = 1e-7


class Muon(torch.optim.Optimizer):
    """Moves matrices; all else is left to another optimizer."""

    def __init__(self, matrices: Sequence[nn.Parameter], weight_decay: float) -> None:
        super().__init__(matrices, {"lr": 0.0, "weight_decay": weight_decay})
        for matrix in matrices:
            self.state[matrix] = {MOMENTUM: torch.zeros_like(matrix)}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move each matrix against its momentum."""
        for group in self.param_groups:
            alike: defaultdict[tuple[int, ...], list[Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    alike[tuple(sorted(matrix.shape))].append(matrix)
            for (_, longer), matrices in alike.items():
                directions = orthogonal(torch.stack([self._towards(each) for each in matrices]))
                directions *= -group["lr"] * _LENGTH * longer**0.5
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
                for matrix, direction in zip(matrices, directions, strict=True):
                    matrix.add_(_as(matrix, direction.mT if _is_tall(matrix) else direction))

    def _towards(self, matrix: Tensor) -> Float[Tensor, "R C"]:
        """The momentum after this gradient, looking one step ahead; wide, and whole."""
        momentum = self.state[matrix][MOMENTUM]
        momentum.lerp_(matrix.grad, 1 - _MEMORY)
        ahead = matrix.grad.lerp(momentum, _MEMORY)  # type: ignore[union-attr]
        whole: Tensor = ahead.full_tensor() if isinstance(ahead, DTensor) else ahead
        return whole.mT if _is_tall(matrix) else whole


def orthogonal(matrices: Float[Tensor, "N R C"]) -> Float[Tensor, "N R C"]:
    """Bring all singular values near 1, with R ≤ C."""
    low = matrices.bfloat16()
    low = low / low.norm(dim=(-2, -1), keepdim=True).clamp(min=_SMALLEST)
    for _ in range(_TURNS):
        squares = low @ low.mT
        mixed = torch.baddbmm(squares, squares, squares, beta=_CUBIC, alpha=_QUINTIC)
        low = torch.baddbmm(low, mixed, low, beta=_LINEAR)
    return low.to(matrices.dtype)


def _is_tall(matrix: Tensor) -> bool:
    return matrix.shape[0] > matrix.shape[1]


def _as(matrix: Tensor, direction: Tensor) -> Tensor:
    """Give a rank its share, where matrices are in shards."""
    if isinstance(matrix, DTensor):
        # Every rank has found the same, so nobody need be asked.
        return distribute_tensor(
            direction, matrix.device_mesh, matrix.placements, src_data_rank=None
        )
    return direction
