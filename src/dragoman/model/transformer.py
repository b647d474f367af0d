"""How does the Transformer turn a source into scores for the next target token?

memory = encode(source)                        N layers of self-attention and feed-forward
logits = decode(target, memory)                N layers that also look at the memory
                                               (Vaswani et al., 2017; seeds 001, 002, 003)
"""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from dragoman.model.blueprint import Blueprint, draw_blueprint
from dragoman.model.cache import Cache
from dragoman.model.dropout import Dropout
from dragoman.model.encoder_decoder import EncoderDecoder, Halves
from dragoman.model.layer import DecoderLayer, EncoderLayer
from dragoman.model.mask import causal_mask, padding_mask
from dragoman.model.parts import Position
from dragoman.recipe import ModelRecipe
from dragoman.shapes import Bool, Float, Int, Tensor


class Memory(NamedTuple):
    """What the decoder may look at."""

    heights: tuple[Float[Tensor, "B S M"], ...]
    """The encoder's last layer, or all its layers from the bottom to the top."""
    mask: Bool[Tensor, "B 1 1 S"]

    def at(self, height: int) -> Float[Tensor, "B S M"]:
        """What the decoder layer at this height looks at."""
        return self.heights[height] if len(self.heights) > 1 else self.heights[0]

    def reorder(self, rows: Int[Tensor, " K"]) -> Memory:
        """Take these sentences, in this order; one may be taken often, or never."""
        return Memory(tuple(states[rows] for states in self.heights), self.mask[rows])


class Encoder(nn.Module):
    """Reads the source."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        settings = blueprint.settings
        heights = range(settings.encoder_layers)
        self.positions = nn.ModuleList(blueprint.build_position(height) for height in heights)
        self.layers = nn.ModuleList(EncoderLayer(blueprint) for _ in heights)
        self.dropout = Dropout(settings.dropout)
        self.norm = _final_norm(settings)
        self.keeps_all = settings.cross_attention == "same_height"

    def forward(self, x: Float[Tensor, "B S E"], is_real: Bool[Tensor, "B S"]) -> Memory:
        """Read through all layers; keep the last, or all."""
        mask = padding_mask(is_real)
        heights = []
        for height, (position, layer) in enumerate(zip(self.positions, self.layers, strict=True)):
            assert isinstance(position, Position)
            x = position.enter(x, 0)
            x = layer(self.dropout(x) if height == 0 else x, mask, position)
            heights.append(x)
        kept = heights if self.keeps_all else heights[-1:]
        return Memory(tuple(self.norm(x) for x in kept), mask)


class Decoder(nn.Module):
    """Writes the target, looking at the memory."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        settings = blueprint.settings
        heights = range(settings.decoder_layers)
        self.positions = nn.ModuleList(blueprint.build_position(height) for height in heights)
        self.layers = nn.ModuleList(DecoderLayer(blueprint) for _ in heights)
        self.dropout = Dropout(settings.dropout)
        self.norm = _final_norm(settings)

    def forward(
        self, x: Float[Tensor, "N T E"], memory: Memory, cache: Cache | None
    ) -> tuple[Float[Tensor, "N T M"], Cache]:
        """Go on from the cache, through all layers."""
        start = 0 if cache is None else cache.length
        mask = causal_mask(start, x.shape[1], x.device)
        remembered = []
        for height, (position, layer) in enumerate(zip(self.positions, self.layers, strict=True)):
            assert isinstance(position, Position)
            x = position.enter(x, start)
            x, kept = layer(
                self.dropout(x) if height == 0 else x,
                mask,
                position,
                memory.at(height),
                memory.mask,
                None if cache is None else cache.layers[height],
            )
            remembered.append(kept)
        return self.norm(x), Cache(tuple(remembered))


def _final_norm(settings: ModelRecipe) -> nn.Module:
    """With pre-norm the sum leaves the last layer unnormed."""
    return nn.LayerNorm(settings.width) if settings.norm == "pre" else nn.Identity()


class Transformer(EncoderDecoder):
    """Attention, and nothing else that goes from place to place."""

    encoder: Encoder
    decoder: Decoder

    @staticmethod
    def build_halves(settings: ModelRecipe) -> Halves:
        """Build the stacks."""
        blueprint = draw_blueprint(settings)
        return Halves(Encoder(blueprint), Decoder(blueprint), blueprint.word_features)
