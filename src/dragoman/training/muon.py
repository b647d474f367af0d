"""Muon, an optimizer for matrices (Jordan et al., 2024; not in the lectures).

    M ← μ·M + (1 − μ)·G
    U = (1 − μ)·G + μ·M
    W ← W − lr · (0.2 · √max(rows, columns) · O + decay · W),     O = nearest orthogonal matrix to U

Adam scales each number of a matrix separately. Muon gives all directions of a matrix an update of
the same size, so that rare directions learn as fast as common ones. The factor 0.2 · √… makes the
updates as large as those of Adam (Liu et al., 2025), so both use the same learning rate.

O is computed with matrix products alone (five Newton–Schulz iterations). On a GPU they are in
bfloat16, as published; on a CPU in float32, because one without units for bfloat16 takes two to
four times as long with it.
`torch.optim.Muon` updates one matrix after the other and is the definition; here all matrices of
one shape are updated together, which is twice as fast for small matrices.
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
"""The name that `torch.optim.Muon` uses."""
_MOMENTUM_DECAY = 0.95
_UPDATE_SCALE = 0.2
_ITERATIONS = 5
_LINEAR, _CUBIC, _QUINTIC = 3.4445, -4.7750, 2.0315
_EPSILON = 1e-7


class Muon(torch.optim.Optimizer):
    """Updates matrices; other parameters need another optimizer."""

    def __init__(self, matrices: Sequence[nn.Parameter], weight_decay: float) -> None:
        super().__init__(matrices, {"lr": 0.0, "weight_decay": weight_decay})
        for matrix in matrices:
            self.state[matrix] = {MOMENTUM: torch.zeros_like(matrix)}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update each matrix by its gradient."""
        for group in self.param_groups:
            by_shape: defaultdict[tuple[int, ...], list[Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape[tuple(sorted(matrix.shape))].append(matrix)
            for (_, longer), matrices in by_shape.items():
                directions = orthogonal(torch.stack([self._direction(m) for m in matrices]))
                directions *= -group["lr"] * _UPDATE_SCALE * longer**0.5
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
                for matrix, direction in zip(matrices, directions, strict=True):
                    oriented = direction.mT if _is_tall(matrix) else direction
                    matrix.add_(_distributed_like(matrix, oriented))

    def _direction(self, matrix: Tensor) -> Float[Tensor, "R C"]:
        """Return the Nesterov momentum after this gradient, whole and not taller than wide."""
        momentum = self.state[matrix][MOMENTUM]
        momentum.lerp_(matrix.grad, 1 - _MOMENTUM_DECAY)
        ahead = matrix.grad.lerp(momentum, _MOMENTUM_DECAY)  # type: ignore[union-attr]
        whole: Tensor = ahead.full_tensor() if isinstance(ahead, DTensor) else ahead
        return whole.mT if _is_tall(matrix) else whole


def orthogonal(matrices: Float[Tensor, "N R C"]) -> Float[Tensor, "N R C"]:
    """Move all singular values near 1; R ≤ C."""
    working = matrices.bfloat16() if matrices.is_cuda else matrices
    working = working / working.norm(dim=(-2, -1), keepdim=True).clamp(min=_EPSILON)
    # Written again in each iteration: on a CPU, new memory takes as long as a small product.
    squares = working.new_empty(*working.shape[:-1], working.shape[-2])
    mixed, moved = torch.empty_like(squares), torch.empty_like(working)
    for _ in range(_ITERATIONS):
        torch.bmm(working, working.mT, out=squares)
        torch.baddbmm(squares, squares, squares, beta=_CUBIC, alpha=_QUINTIC, out=mixed)
        torch.baddbmm(working, mixed, working, beta=_LINEAR, out=moved)
        working, moved = moved, working
    return working.to(matrices.dtype)


def _is_tall(matrix: Tensor) -> bool:
    return matrix.shape[0] > matrix.shape[1]


def _distributed_like(matrix: Tensor, direction: Tensor) -> Tensor:
    """Return this rank's shard of the direction, if the matrix is sharded."""
    if isinstance(matrix, DTensor):
        # Every rank has computed the same direction, so no communication is necessary.
        return distribute_tensor(
            direction, matrix.device_mesh, matrix.placements, src_data_rank=None
        )
    return direction
