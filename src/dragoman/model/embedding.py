"""Word embeddings and the output layer.

    x = √M · E[token]          logits = W h          W = E when tied     Vaswani et al., 2017
                               logits = W h + b      with a bias, as in Marian's models

A tied matrix is passed as an argument and never stored twice, so each weight has one name.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.shapes import Float, Int, Tensor


class Embedding(nn.Module):
    """A vector for each token, multiplied by `scale` because its entries are small."""

    def __init__(self, vocabulary_size: int, features: int, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.weight = nn.Parameter(torch.empty(vocabulary_size, features))

    def initialize(self, generator: torch.Generator) -> None:
        """Draw entries that have a variance of one after scaling."""
        nn.init.normal_(self.weight, std=1 / self.scale, generator=generator)

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T E"]:
        """Look up the vectors of the tokens."""
        return self.scale * F.embedding(tokens, self.weight)


class Output(nn.Module):
    """The logit of each token of the vocabulary."""

    def __init__(
        self, width: int, vocabulary_size: int, *, is_tied: bool, has_bias: bool = False
    ) -> None:
        super().__init__()
        self.weight: nn.Parameter | None
        self.bias: nn.Parameter | None
        weight = None if is_tied else nn.Parameter(torch.empty(vocabulary_size, width))
        self.register_parameter("weight", weight)
        bias = nn.Parameter(torch.empty(vocabulary_size)) if has_bias else None
        self.register_parameter("bias", bias)

    def initialize(self, generator: torch.Generator) -> None:
        """Draw small weights, so that the first predictions are close to uniform."""
        if self.weight is not None:
            nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5, generator=generator)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def logit_factors(
        self, states: Float[Tensor, "B T M"], tied: Float[Tensor, "V E"]
    ) -> tuple[Float[Tensor, "B T F"], Float[Tensor, "V F"]]:
        """Return two matrices whose product is the logits.

        A bias becomes one more column of the matrix, with a feature that is always one. So the
        caller needs no special case for it.
        """
        features, weight = self._factors(states, tied)
        if self.bias is None:
            return features, weight
        one = torch.ones_like(features[..., :1])
        bias = self.bias.unsqueeze(1)
        return torch.cat([features, one], dim=-1), torch.cat([weight, bias], dim=1)

    def forward(
        self, states: Float[Tensor, "B T M"], tied: Float[Tensor, "V E"]
    ) -> Float[Tensor, "B T V"]:
        """Compute the logit of every token."""
        return F.linear(*self._factors(states, tied), self.bias)

    def _factors(
        self, states: Float[Tensor, "B T M"], tied: Float[Tensor, "V E"]
    ) -> tuple[Float[Tensor, "B T F"], Float[Tensor, "V F"]]:
        """Select the matrix, and the features of the states that it reads.

        A tied matrix reads the word features: all features, unless positions are concatenated.
        """
        weight = tied if self.weight is None else self.weight
        return states[..., : weight.shape[1]], weight
