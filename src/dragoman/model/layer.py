"""Transformer layers, with the layer norm before or after each sublayer.

    post:  x ← LayerNorm(x + sublayer(x))     Vaswani et al., 2017; [NLU], [CS224N], [APPLY-DL],
                                              [CS182]
    pre:   x ← x + sublayer(LayerNorm(x))     common practice today

The norm uses the features of one token only: not the batch, and not the other positions.
"""

from __future__ import annotations

from torch import nn

from dragoman.model.attention import CrossAttention, SelfAttention
from dragoman.model.cache import LayerCache
from dragoman.model.dropout import Dropout
from dragoman.model.feed_forward import FeedForward
from dragoman.model.parts import Position
from dragoman.model.resolve import ResolvedParts
from dragoman.recipe.schema import ModelRecipe
from dragoman.shapes import Bool, Float, Tensor


class PostNorm(nn.Module):
    """Residual connection with the norm after the sum."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def before(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Return the input of the sublayer."""
        return x

    def after(
        self, x: Float[Tensor, "B T M"], change: Float[Tensor, "B T M"]
    ) -> Float[Tensor, "B T M"]:
        """Add the output of the sublayer, and normalize the sum."""
        normalized: Tensor = self.norm(x + self.dropout(change))
        return normalized


class PreNorm(nn.Module):
    """Residual connection with the norm before the sublayer. The sum is not normalized."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def before(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Return the input of the sublayer."""
        normalized: Tensor = self.norm(x)
        return normalized

    def after(
        self, x: Float[Tensor, "B T M"], change: Float[Tensor, "B T M"]
    ) -> Float[Tensor, "B T M"]:
        """Add the output of the sublayer."""
        added: Tensor = x + self.dropout(change)
        return added


def _residual(settings: ModelRecipe) -> PostNorm | PreNorm:
    kind = PostNorm if settings.norm == "post" else PreNorm
    return kind(settings.width, settings.dropout)


class FeedForwardSublayer(nn.Module):
    """The feed-forward network with its residual connection."""

    def __init__(self, settings: ModelRecipe) -> None:
        super().__init__()
        self.network = FeedForward(settings)
        self.residual = _residual(settings)

    def forward(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Change each position independently of the others."""
        return self.residual.after(x, self.network(self.residual.before(x)))


def _feed_forward(settings: ModelRecipe) -> nn.Module:
    """Build the sublayer, or an identity where the recipe has none (claim C7)."""
    return nn.Identity() if settings.feed_forward == "none" else FeedForwardSublayer(settings)


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(self, parts: ResolvedParts) -> None:
        super().__init__()
        self.self_attention = SelfAttention(parts, "encoder")
        self.self_residual = _residual(parts.settings)
        self.feed_forward = _feed_forward(parts.settings)

    def forward(
        self,
        x: Float[Tensor, "B S M"],
        mask: Bool[Tensor, "B 1 1 S"],
        position: Position,
    ) -> Float[Tensor, "B S M"]:
        """Apply both sublayers."""
        change, _ = self.self_attention(self.self_residual.before(x), mask, position)
        output: Tensor = self.feed_forward(self.self_residual.after(x, change))
        return output


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention to the source, then the feed-forward network."""

    def __init__(self, parts: ResolvedParts) -> None:
        super().__init__()
        self.self_attention = SelfAttention(parts, "decoder")
        self.self_residual = _residual(parts.settings)
        self.cross_attention = CrossAttention(parts)
        self.cross_residual = _residual(parts.settings)
        self.feed_forward = _feed_forward(parts.settings)

    def forward(
        self,
        x: Float[Tensor, "N T M"],
        mask: Bool[Tensor, "1 1 T U"],
        position: Position,
        memory: Float[Tensor, "B S M"],
        memory_mask: Bool[Tensor, "B 1 1 S"],
        cache: LayerCache | None,
    ) -> tuple[Float[Tensor, "N T M"], LayerCache]:
        """Apply the three sublayers; also return the cache for the next step."""
        past, cached = (None, None) if cache is None else cache
        start = mask.shape[-1] - mask.shape[-2]
        change, target = self.self_attention(self.self_residual.before(x), mask, position, past)
        x = self.self_residual.after(x, change)
        change, source = self.cross_attention(
            self.cross_residual.before(x), memory, memory_mask, start, cached
        )
        x = self.cross_residual.after(x, change)
        return self.feed_forward(x), LayerCache(target, source)
