"""How do tokens become vectors, and vectors tokens?

    x = √M · E[token]          logits = W h          W = E when tied     (Vaswani et al., 2017)
                               logits = W h + b      where Marian's models have a bias

A matrix that is tied is passed as an argument, never held twice, so each weight has one name.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.shapes import Float, Int, Tensor


class Embedding(nn.Module):
    """A vector for each token; `scale` makes up for the smallness of its entries."""

    def __init__(self, vocabulary_size: int, features: int, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.weight = nn.Parameter(torch.empty(vocabulary_size, features))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw entries that the scale brings to a variance of one."""
        nn.init.normal_(self.weight, std=1 / self.scale, generator=generator)

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T E"]:
        """Look up."""
        return self.scale * F.embedding(tokens, self.weight)


class Output(nn.Module):
    """A score for each token of the vocabulary, before the softmax."""

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

    def initialise(self, generator: torch.Generator) -> None:
        """Draw it small, so that the first guess is close to even."""
        if self.weight is not None:
            nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5, generator=generator)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def factors(
        self, states: Float[Tensor, "B T M"], tied: Float[Tensor, "V E"]
    ) -> tuple[Float[Tensor, "B T F"], Float[Tensor, "V F"]]:
        """Give what is multiplied: features of the states, and the own matrix or the tied one.

        The bias is the column of a feature that is always one: whoever multiplies need not know.
        """
        features, weight = self._multiplied(states, tied)
        if self.bias is None:
            return features, weight
        one = torch.ones_like(features[..., :1])
        bias = self.bias.unsqueeze(1)
        return torch.cat([features, one], dim=-1), torch.cat([weight, bias], dim=1)

    def forward(
        self, states: Float[Tensor, "B T M"], tied: Float[Tensor, "V E"]
    ) -> Float[Tensor, "B T V"]:
        """Score every token."""
        return F.linear(*self._multiplied(states, tied), self.bias)

    def _multiplied(
        self, states: Float[Tensor, "B T M"], tied: Float[Tensor, "V E"]
    ) -> tuple[Float[Tensor, "B T F"], Float[Tensor, "V F"]]:
        """A tied matrix reads the features that belong to the word; they are all, unless positions
        are concatenated to it.
        """
        weight = tied if self.weight is None else self.weight
        return states[..., : weight.shape[1]], weight
