"""How are features left out while the model learns?

    y = x ⊙ m / (1 − p),   each m is 0 with probability p, else 1     (Srivastava et al., 2014)

On a CPU most of the time goes into drawing. There one draw of 64 bits serves eight features, a
byte for each, and p is rounded to a multiple of 1/256; elsewhere it is PyTorch's own dropout,
which is also the definition.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from dragoman.shapes import Float, Tensor

_LEVELS = 256


class Dropout(nn.Dropout):
    """Leaves features out while training, and scales what stays."""

    def forward(self, x: Float[Tensor, ...]) -> Float[Tensor, ...]:
        """Draw from PyTorch's default generator."""
        # A compiler fuses PyTorch's own with what stands around it.
        is_by_bytes = x.device.type == "cpu" and not torch.compiler.is_compiling()
        if not (self.training and self.p and is_by_bytes):
            return super().forward(x)
        levels = min(round(self.p * _LEVELS), _LEVELS - 1)  # Something must stay, to be scaled.
        dropped: Tensor = _ByteDropout.apply(x, levels)  # type: ignore[no-untyped-call]
        return dropped


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped_levels: int) -> Tensor:
        draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        levels = draws.view(torch.uint8)[: x.numel()].view(x.shape)
        # As numbers, not as booleans: one multiplication forward and one backward. And numbers at
        # once, for turning booleans into them costs more than all the rest.
        stays = torch.ge(levels, dropped_levels, out=torch.empty_like(x))
        scale = stays.mul_(_LEVELS / (_LEVELS - dropped_levels))
        ctx.save_for_backward(scale)
        return x * scale

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (scale,) = ctx.saved_tensors
        return gradient * scale, None
