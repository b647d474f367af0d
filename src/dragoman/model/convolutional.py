"""The convolutional network: an architecture to compare the Transformer with.

    block(x) = √½ · (x + GLU(W ∗ x))              W covers `kernel_size` positions
                                                  Gehring et al., 2017; [APPLY-DL]

    x = (word + position) / 10                    as small as their initial embeddings

    encoder   keys z = blocks(x),  values √½ · (z + x) · √S
    decoder   in each layer, between the GLU and the residual sum:
              q = √½ · (Wq h + g)                 g is x, of the previous target word
              h ← √½ · (h + Wc Attention(q, keys, values))

Every decoder layer attends to the source. A mean over S values has a smaller variance than one
value; the factor √S compensates for this. In the encoder, padding is zero before each convolution,
like everything outside the sentence. The decoder sees positions to the left only. The attention has
one head; similarity and attention kind come from the recipe.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.errors import Mistake, RecipeError
from dragoman.model.attention import Attention
from dragoman.model.dropout import Dropout
from dragoman.model.encoder_decoder import EncoderDecoder, Stacks
from dragoman.model.mask import padding_mask
from dragoman.model.parts import Position, PositionVectors
from dragoman.model.position.none import NoPosition
from dragoman.model.resolve import ResolvedParts, resolve_parts
from dragoman.recipe.parts import Choice
from dragoman.recipe.schema import ModelRecipe
from dragoman.shapes import Bool, Float, Int, Tensor

_SQRT_HALF = 0.5**0.5
"""Keeps the variance of a sum of two terms."""
_INPUT_SCALE = 0.1
"""Larger states would give nearly all weight to one key before training, and √S would then
compensate for a mean that is none."""


class ConvolutionalMemory(NamedTuple):
    """The keys and values of the source."""

    keys: Float[Tensor, "B S M"]
    values: Float[Tensor, "B S M"]
    mask: Bool[Tensor, "B 1 1 S"]

    def reorder(self, rows: Int[Tensor, " K"]) -> ConvolutionalMemory:
        """Select these sentences, in this order."""
        return ConvolutionalMemory(self.keys[rows], self.values[rows], self.mask[rows])


class ConvolutionalCache(NamedTuple):
    """The inputs to the left that the next step still needs, for each layer from the bottom."""

    layers: tuple[Float[Tensor, "N U M"], ...]
    length: int
    """How many target tokens have been read."""

    def reorder(
        self, hypotheses: Int[Tensor, " N"], sentences: Int[Tensor, " K"] | None
    ) -> ConvolutionalCache:
        """Select these hypotheses, in this order; the cache holds nothing of the source."""
        return ConvolutionalCache(tuple(past[hypotheses] for past in self.layers), self.length)


class GatedConvolution(nn.Module):
    """GLU(W ∗ x): one half of the convolution's output gates the other half."""

    def __init__(self, settings: ModelRecipe) -> None:
        super().__init__()
        width, self.kernel = settings.width, settings.convolutional.kernel_size
        self.keep_probability = 1 - settings.dropout
        self.weight = nn.Parameter(torch.empty(2 * width, width, self.kernel))
        self.bias = nn.Parameter(torch.empty(2 * width))

    def initialize(self, generator: torch.Generator) -> None:
        """Draw weights that keep the variance: the gate removes 3/4 of it, dropout adds some."""
        inputs = self.weight[0].numel()
        std = (4 * self.keep_probability / inputs) ** 0.5
        nn.init.normal_(self.weight, std=std, generator=generator)
        nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "N U M"]) -> Float[Tensor, "N T M"]:
        """Convolve all positions, without padding."""
        return F.glu(F.conv1d(x.mT, self.weight, self.bias), dim=1).mT


class EncoderLayer(nn.Module):
    """A convolution over both sides of each position."""

    def __init__(self, settings: ModelRecipe) -> None:
        super().__init__()
        self.convolution = GatedConvolution(settings)
        self.dropout = Dropout(settings.dropout)

    def forward(
        self, x: Float[Tensor, "B S M"], is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S M"]:
        """Apply the block; the window covers as many positions on the left as on the right."""
        outside = self.convolution.kernel - 1
        real = self.dropout(x).masked_fill(~is_real.unsqueeze(-1), 0.0)
        padded = F.pad(real, (0, 0, outside // 2, outside - outside // 2))
        output: Tensor = _SQRT_HALF * (x + self.convolution(padded))
        return output


class DecoderLayer(nn.Module):
    """A convolution over the left side of each position, and attention to the source."""

    def __init__(self, parts: ResolvedParts) -> None:
        super().__init__()
        settings = parts.settings
        width = settings.width
        self.convolution = GatedConvolution(settings)
        self.dropout = Dropout(settings.dropout)
        self.query = nn.Linear(width, width)
        self.attention = Attention(parts, "cross")
        self.context = nn.Linear(width, width)
        self.no_position = Position(width)

    def forward(
        self,
        x: Float[Tensor, "N T M"],
        words: Float[Tensor, "N T M"],
        memory: ConvolutionalMemory,
        past: Float[Tensor, "N U M"] | None,
        start: int,
    ) -> tuple[Float[Tensor, "N T M"], Float[Tensor, "N U M"]]:
        """Apply the block; also return the inputs that the next step still needs."""
        window = self.convolution.kernel - 1
        present = self.dropout(x)
        past = x.new_zeros(len(x), window, x.shape[2]) if past is None else past
        inputs = torch.cat([past, present], dim=1)
        output = self.convolution(inputs)
        queries = _SQRT_HALF * (self.query(output) + words)
        attended = self.attention(
            queries.unsqueeze(1),
            memory.keys.unsqueeze(1),
            memory.values.unsqueeze(1),
            memory.mask,
            self.no_position,
            start,
        ).squeeze(1)
        output = _SQRT_HALF * (output + self.context(attended))
        return _SQRT_HALF * (x + output), inputs[:, inputs.shape[1] - window :]


class Encoder(nn.Module):
    """The stack of encoder layers."""

    def __init__(self, parts: ResolvedParts) -> None:
        super().__init__()
        settings = parts.settings
        self.position = parts.build_position(0)
        self.layers = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.encoder_layers))
        self.dropout = Dropout(settings.dropout)

    def forward(
        self, x: Float[Tensor, "B S M"], is_real: Bool[Tensor, "B S"]
    ) -> ConvolutionalMemory:
        """Apply all layers."""
        words = x = self.dropout(_INPUT_SCALE * self.position.apply_to_input(x, 0))
        for layer in self.layers:
            x = layer(x, is_real)
        count = is_real.sum(dim=1).view(-1, 1, 1).to(x.dtype)
        values = _SQRT_HALF * (x + words) * count.sqrt()
        return ConvolutionalMemory(x, values, padding_mask(is_real))


class Decoder(nn.Module):
    """The stack of decoder layers. Every layer attends to the memory."""

    def __init__(self, parts: ResolvedParts) -> None:
        super().__init__()
        settings = parts.settings
        self.position = parts.build_position(0)
        self.layers = nn.ModuleList(DecoderLayer(parts) for _ in range(settings.decoder_layers))
        self.dropout = Dropout(settings.dropout)

    def forward(
        self,
        x: Float[Tensor, "N T M"],
        memory: ConvolutionalMemory,
        cache: ConvolutionalCache | None,
    ) -> tuple[Float[Tensor, "N T M"], ConvolutionalCache]:
        """Apply all layers to the tokens that follow the cache; also return the new cache."""
        start = 0 if cache is None else cache.length
        pasts = (None,) * len(self.layers) if cache is None else cache.layers
        words = x = self.dropout(_INPUT_SCALE * self.position.apply_to_input(x, start))
        layer_caches = []
        for layer, past in zip(self.layers, pasts, strict=True):
            x, layer_cache = layer(x, words, memory, past, start)
            layer_caches.append(layer_cache)
        return self.dropout(x), ConvolutionalCache(tuple(layer_caches), start + x.shape[1])


class Convolutional(EncoderDecoder):
    """An encoder-decoder of convolutions with attention to the source."""

    @staticmethod
    def build_stacks(settings: ModelRecipe) -> Stacks:
        """Build the stacks. Attention has one bare head; the layers themselves project."""
        heads = {"head_kind": Choice(name="bare"), "heads": 1}
        positions = {"position_entry": "added", "position_depth": "bottom"}
        parts = resolve_parts(settings.model_copy(update=heads | positions))
        if not issubclass(parts.position.cls, PositionVectors | NoPosition):
            message = (
                f"{settings.position.name} acts inside self-attention, which a convolutional "
                "network does not have; choose sinusoidal, learned, naive or none"
            )
            raise RecipeError([Mistake("model.position", message)])
        return Stacks(Encoder(parts), Decoder(parts), settings.width)
