"""The feed-forward network of a layer.

    FFN(x) = W₂ σ(W₁ x + b₁) + b₂              [NLU], [CS224N], [APPLY-DL], [CS182]
    SwiGLU(x) = W₂ (swish(W₁ x + b₁) ⊙ (W₃ x + b₃)) + b₂
                                               Shazeer, 2020, who has no biases; not in the lectures

The same network is applied at every position: it is a 1 × 1 convolution (claim C13). Besides the
softmax and the layer norm it is the only nonlinearity of a layer (claim C7).
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model.dropout import Dropout
from dragoman.recipe.schema import ModelRecipe
from dragoman.shapes import Float, Tensor

_NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "swish": F.silu,
    "swiglu": F.silu,
}


class FeedForward(nn.Module):
    """Two linear maps with a nonlinearity between them; SwiGLU has a third one as a gate."""

    def __init__(self, settings: ModelRecipe) -> None:
        super().__init__()
        self.expand = nn.Linear(settings.width, settings.feed_forward_width)
        is_gated = settings.feed_forward == "swiglu"
        self.gate = nn.Linear(settings.width, settings.feed_forward_width) if is_gated else None
        self.contract = nn.Linear(settings.feed_forward_width, settings.width)
        self.nonlinearity = _NONLINEARITIES[settings.feed_forward]
        self.dropout = Dropout(settings.feed_forward_dropout)

    def forward(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Apply the network to each position."""
        inner = self.nonlinearity(self.expand(x))
        if self.gate is not None:
            inner = inner * self.gate(x)
        output: Tensor = self.contract(self.dropout(inner))
        return output
