"""What is one layer, and where do its norms stand?

    post:  x ← LayerNorm(x + sublayer(x))          (Vaswani et al., 2017; seeds 000, 001, 003, 004)
    pre:   x ← x + sublayer(LayerNorm(x))          (today's practice)

The norm looks at the features of one token only: neither at the batch nor at the neighbours.
"""

from __future__ import annotations

from torch import nn

from dragoman.model.attention import CrossAttention, SelfAttention
from dragoman.model.blueprint import Blueprint
from dragoman.model.cache import LayerCache
from dragoman.model.dropout import Dropout
from dragoman.model.feed_forward import FeedForward
from dragoman.model.parts import Position
from dragoman.recipe import ModelRecipe
from dragoman.shapes import Bool, Float, Tensor


class PostNorm(nn.Module):
    """Add, then norm."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def before(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Prepare what the sublayer reads."""
        return x

    def after(
        self, x: Float[Tensor, "B T M"], change: Float[Tensor, "B T M"]
    ) -> Float[Tensor, "B T M"]:
        """Add what the sublayer says."""
        normed: Tensor = self.norm(x + self.dropout(change))
        return normed


class PreNorm(nn.Module):
    """Norm what the sublayer reads; the sum itself is never normed."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def before(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Prepare what the sublayer reads."""
        normed: Tensor = self.norm(x)
        return normed

    def after(
        self, x: Float[Tensor, "B T M"], change: Float[Tensor, "B T M"]
    ) -> Float[Tensor, "B T M"]:
        """Add what the sublayer says."""
        added: Tensor = x + self.dropout(change)
        return added


def _residual(settings: ModelRecipe) -> PostNorm | PreNorm:
    kind = PostNorm if settings.norm == "post" else PreNorm
    return kind(settings.width, settings.dropout)


class FeedForwardSublayer(nn.Module):
    """The feed-forward network with its residual."""

    def __init__(self, settings: ModelRecipe) -> None:
        super().__init__()
        self.network = FeedForward(settings)
        self.residual = _residual(settings)

    def forward(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Change each place by itself."""
        return self.residual.after(x, self.network(self.residual.before(x)))


def _feed_forward(settings: ModelRecipe) -> nn.Module:
    """Build the sublayer, or nothing in its place (C7)."""
    return nn.Identity() if settings.feed_forward == "none" else FeedForwardSublayer(settings)


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        self.self_attention = SelfAttention(blueprint)
        self.self_residual = _residual(blueprint.settings)
        self.feed_forward = _feed_forward(blueprint.settings)

    def forward(
        self,
        x: Float[Tensor, "B S M"],
        mask: Bool[Tensor, "B 1 1 S"],
        position: Position,
    ) -> Float[Tensor, "B S M"]:
        """Look round, then think."""
        change, _ = self.self_attention(self.self_residual.before(x), mask, position)
        thought: Tensor = self.feed_forward(self.self_residual.after(x, change))
        return thought


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the source, then the feed-forward network."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        self.self_attention = SelfAttention(blueprint)
        self.self_residual = _residual(blueprint.settings)
        self.cross_attention = CrossAttention(blueprint)
        self.cross_residual = _residual(blueprint.settings)
        self.feed_forward = _feed_forward(blueprint.settings)

    def forward(
        self,
        x: Float[Tensor, "N T M"],
        mask: Bool[Tensor, "1 1 T U"],
        position: Position,
        memory: Float[Tensor, "B S M"],
        memory_mask: Bool[Tensor, "B 1 1 S"],
        cache: LayerCache | None,
    ) -> tuple[Float[Tensor, "N T M"], LayerCache]:
        """Look back, look at the source, then think; also give what the next step needs."""
        past, known = (None, None) if cache is None else cache
        start = mask.shape[-1] - mask.shape[-2]
        change, target = self.self_attention(self.self_residual.before(x), mask, position, past)
        x = self.self_residual.after(x, change)
        change, source = self.cross_attention(
            self.cross_residual.before(x), memory, memory_mask, start, known
        )
        x = self.cross_residual.after(x, change)
        return self.feed_forward(x), LayerCache(target, source)
