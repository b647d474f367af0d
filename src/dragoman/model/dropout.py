"""Dropout.

    y = x ⊙ m / (1 − p),   each m is 0 with probability p, else 1     Srivastava et al., 2014

On a CPU, drawing random numbers takes most of the time. There, one draw of 64 bits serves eight
features, one byte for each, and p is rounded to a multiple of 1/256. On other devices PyTorch's own
dropout is used, which is also the definition.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from dragoman.shapes import Float, Tensor

_LEVELS = 256


class Dropout(nn.Dropout):
    """Sets random features to zero in training, and scales the others."""

    def forward(self, x: Float[Tensor, ...]) -> Float[Tensor, ...]:
        """Apply dropout with PyTorch's default generator."""
        # A compiler fuses PyTorch's own dropout with the operations around it.
        uses_bytes = x.device.type == "cpu" and not torch.compiler.is_compiling()
        if not (self.training and self.p and uses_bytes):
            return super().forward(x)
        # At least one level must remain, because the remaining features are scaled.
        levels = min(round(self.p * _LEVELS), _LEVELS - 1)
        output: Tensor = _ByteDropout.apply(x, levels)  # type: ignore[no-untyped-call]
        return output


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped_levels: int) -> Tensor:
        draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        levels = draws.view(torch.uint8)[: x.numel()].view(x.shape)
        # The comparison writes numbers, not booleans: converting booleans would take longer than
        # everything else. One multiplication forward and one backward remain.
        kept = torch.ge(levels, dropped_levels, out=torch.empty_like(x))
        scale = kept.mul_(_LEVELS / (_LEVELS - dropped_levels))
        ctx.save_for_backward(scale)
        return x * scale

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (scale,) = ctx.saved_tensors
        return gradient * scale, None
