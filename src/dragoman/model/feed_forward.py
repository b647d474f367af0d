"""What happens at each place alone?

    FFN(x) = W₂ σ(W₁ x + b₁) + b₂                  (seeds 000, 001, 003, 004)
    SwiGLU(x) = W₂ (swish(W₁ x) ⊙ W₃ x)            (Shazeer, 2020; not in the lectures)

The same network at every place: a 1 × 1 convolution (C13). It is the one nonlinearity of a
layer besides the softmax (C7).
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model.dropout import Dropout
from dragoman.recipe import ModelRecipe
from dragoman.shapes import Float, Tensor

_NONLINEARITY: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "swish": F.silu,
    "swiglu": F.silu,
}


class FeedForward(nn.Module):
    """Two linear maps with a nonlinearity between them, gated by a third in SwiGLU."""

    def __init__(self, settings: ModelRecipe) -> None:
        super().__init__()
        self.expand = nn.Linear(settings.width, settings.feed_forward_width)
        is_gated = settings.feed_forward == "swiglu"
        self.gate = nn.Linear(settings.width, settings.feed_forward_width) if is_gated else None
        self.contract = nn.Linear(settings.feed_forward_width, settings.width)
        self.nonlinearity = _NONLINEARITY[settings.feed_forward]
        self.dropout = Dropout(settings.feed_forward_dropout)

    def forward(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Widen, bend, narrow."""
        inner = self.nonlinearity(self.expand(x))
        if self.gate is not None:
            inner = inner * self.gate(x)
        contracted: Tensor = self.contract(self.dropout(inner))
        return contracted
