"""How does a convolutional network translate?

    block(x) = √½ · (x + GLU(W ∗ x))              W sees `kernel` places at once
                                                  (Gehring et al., 2017; seeds 000, 003)

    x = (word + position) / 10                    as small as theirs are drawn

    encoder   keys z = blocks(x),  values √½ · (z + x) · √S
    decoder   in each layer, between the gate and the sum:
              q = √½ · (Wq h + g)                 g the word that was said last
              h ← √½ · (h + Wc Attention(q, keys, values))

Every layer of the decoder asks the source anew, knowing what those below have found: attention in
several steps. A mean over S values varies less than one of them, which √S makes up for. In the
encoder padding is zero before each convolution, as what lies beyond the ends; the decoder sees
places to its left only. The attention has one head: similarity and reach are the recipe's.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.errors import Mistake, RecipeError
from dragoman.model.attention import Attention
from dragoman.model.blueprint import Blueprint, draw_blueprint
from dragoman.model.dropout import Dropout
from dragoman.model.encoder_decoder import EncoderDecoder, Halves
from dragoman.model.mask import padding_mask
from dragoman.model.parts import Position, PositionVectors
from dragoman.model.position.none import NoPosition
from dragoman.part import Choice
from dragoman.recipe import ModelRecipe
from dragoman.shapes import Bool, Float, Int, Tensor

_HALF = 0.5**0.5
"""Keeps the variance of a sum of two."""
_SMALL = 0.1
"""Of what enters: larger states would choose one key each before anything was learned, and no mean
over S values would be left for √S to make up for."""


class Memory(NamedTuple):
    """What the decoder may look at: what a place is asked by, and what it then gives."""

    keys: Float[Tensor, "B S M"]
    values: Float[Tensor, "B S M"]
    mask: Bool[Tensor, "B 1 1 S"]

    def reorder(self, rows: Int[Tensor, " K"]) -> Memory:
        """Take these sentences, in this order; one may be taken often, or never."""
        return Memory(*(each[rows] for each in self))


class Cache(NamedTuple):
    """What each decoder layer still sees to its left, from the bottom to the top."""

    layers: tuple[Float[Tensor, "N U M"], ...]
    length: int
    """How many target tokens have been read."""

    def reorder(self, hypotheses: Int[Tensor, " N"], sentences: Int[Tensor, " K"] | None) -> Cache:
        """Take these hypotheses, in this order; nothing here belongs to the source."""
        return Cache(tuple(each[hypotheses] for each in self.layers), self.length)


class GatedConvolution(nn.Module):
    """GLU(W ∗ x): one half of what a window says is let through by the other half."""

    def __init__(self, settings: ModelRecipe) -> None:
        super().__init__()
        width, self.kernel = settings.width, settings.convolutional.kernel
        self.stays = 1 - settings.dropout
        self.weight = nn.Parameter(torch.empty(2 * width, width, self.kernel))
        self.bias = nn.Parameter(torch.empty(2 * width))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw so that the variance stays: a gate takes three quarters of it, dropout adds some."""
        inputs = self.weight[0].numel()
        std = (4 * self.stays / inputs) ** 0.5
        nn.init.normal_(self.weight, std=std, generator=generator)
        nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "N U M"]) -> Float[Tensor, "N T M"]:
        """Slide over all places; only whole windows say something."""
        return F.glu(F.conv1d(x.mT, self.weight, self.bias), dim=1).mT


class EncoderLayer(nn.Module):
    """A convolution that sees both sides."""

    def __init__(self, settings: ModelRecipe) -> None:
        super().__init__()
        self.convolution = GatedConvolution(settings)
        self.dropout = Dropout(settings.dropout)

    def forward(
        self, x: Float[Tensor, "B S M"], is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S M"]:
        """Look round, at as many places on the left as on the right."""
        outside = self.convolution.kernel - 1
        real = self.dropout(x).masked_fill(~is_real.unsqueeze(-1), 0.0)
        padded = F.pad(real, (0, 0, outside // 2, outside - outside // 2))
        said: Tensor = _HALF * (x + self.convolution(padded))
        return said


class DecoderLayer(nn.Module):
    """A convolution that sees the left side, and a look at the source."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        settings = blueprint.settings
        width = settings.width
        self.convolution = GatedConvolution(settings)
        self.dropout = Dropout(settings.dropout)
        self.query = nn.Linear(width, width)
        self.attention = Attention(blueprint)
        self.context = nn.Linear(width, width)
        self.no_position = Position(width)

    def forward(
        self,
        x: Float[Tensor, "N T M"],
        words: Float[Tensor, "N T M"],
        memory: Memory,
        past: Float[Tensor, "N U M"] | None,
        start: int,
    ) -> tuple[Float[Tensor, "N T M"], Float[Tensor, "N U M"]]:
        """Look back, then at the source; also give what the next step still sees."""
        behind = self.convolution.kernel - 1
        entered = self.dropout(x)
        past = x.new_zeros(len(x), behind, x.shape[2]) if past is None else past
        seen = torch.cat([past, entered], dim=1)
        said = self.convolution(seen)
        queries = _HALF * (self.query(said) + words)
        found = self.attention(
            queries.unsqueeze(1),
            memory.keys.unsqueeze(1),
            memory.values.unsqueeze(1),
            memory.mask,
            self.no_position,
            start,
        ).squeeze(1)
        said = _HALF * (said + self.context(found))
        return _HALF * (x + said), seen[:, seen.shape[1] - behind :]


class Encoder(nn.Module):
    """Reads the source, all windows at once."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        settings = blueprint.settings
        self.position = blueprint.build_position(0)
        self.layers = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.encoder_layers))
        self.dropout = Dropout(settings.dropout)

    def forward(self, x: Float[Tensor, "B S M"], is_real: Bool[Tensor, "B S"]) -> Memory:
        """Read through all layers."""
        words = x = self.dropout(_SMALL * self.position.enter(x, 0))
        for layer in self.layers:
            x = layer(x, is_real)
        count = is_real.sum(dim=1).view(-1, 1, 1).to(x.dtype)
        return Memory(x, _HALF * (x + words) * count.sqrt(), padding_mask(is_real))


class Decoder(nn.Module):
    """Writes the target; every layer looks at the memory."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        settings = blueprint.settings
        self.position = blueprint.build_position(0)
        self.layers = nn.ModuleList(DecoderLayer(blueprint) for _ in range(settings.decoder_layers))
        self.dropout = Dropout(settings.dropout)

    def forward(
        self, x: Float[Tensor, "N T M"], memory: Memory, cache: Cache | None
    ) -> tuple[Float[Tensor, "N T M"], Cache]:
        """Go on from the cache, through all layers."""
        start = 0 if cache is None else cache.length
        pasts = (None,) * len(self.layers) if cache is None else cache.layers
        words = x = self.dropout(_SMALL * self.position.enter(x, start))
        remembered = []
        for layer, past in zip(self.layers, pasts, strict=True):
            x, kept = layer(x, words, memory, past, start)
            remembered.append(kept)
        return self.dropout(x), Cache(tuple(remembered), start + x.shape[1])


class Convolutional(EncoderDecoder):
    """Windows that see their neighbours."""

    @staticmethod
    def build_halves(settings: ModelRecipe) -> Halves:
        """Build the stacks; attention has one head, which the layers themselves project."""
        heads = {"heads": Choice(name="bare"), "head_count": 1}
        places = {"position_entry": "added", "position_depth": "bottom"}
        blueprint = draw_blueprint(settings.model_copy(update=heads | places))
        if not issubclass(blueprint.position.cls, PositionVectors | NoPosition):
            what = (
                f"{settings.position.name} acts inside self-attention, which a convolutional "
                "network has not; choose sinusoidal, learned, naive or none"
            )
            raise RecipeError([Mistake("model.position", what)])
        return Halves(Encoder(blueprint), Decoder(blueprint), settings.width)
