"""The Transformer: stacks of layers built from attention and feed-forward networks.

    memory = encode(source)            N layers of self-attention and feed-forward
    logits = decode(target, memory)    N layers that also attend to the memory

Vaswani et al., 2017; [CS224N], [NLP10], [APPLY-DL].
"""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from dragoman.model.cache import TransformerCache
from dragoman.model.dropout import Dropout
from dragoman.model.encoder_decoder import EncoderDecoder, Stacks
from dragoman.model.layer import DecoderLayer, EncoderLayer
from dragoman.model.mask import causal_mask, padding_mask
from dragoman.model.parts import Position
from dragoman.model.resolve import ResolvedParts, resolve_parts
from dragoman.recipe.schema import ModelRecipe
from dragoman.shapes import Bool, Float, Int, Tensor


class TransformerMemory(NamedTuple):
    """The encoder outputs that the decoder attends to."""

    layer_outputs: tuple[Float[Tensor, "B S M"], ...]
    """The output of the last encoder layer only, or of all layers from the bottom to the top."""
    mask: Bool[Tensor, "B 1 1 S"]

    def for_layer(self, index: int) -> Float[Tensor, "B S M"]:
        """Return the encoder output that this decoder layer attends to."""
        return self.layer_outputs[index] if len(self.layer_outputs) > 1 else self.layer_outputs[0]

    def reorder(self, rows: Int[Tensor, " K"]) -> TransformerMemory:
        """Select these sentences, in this order."""
        outputs = tuple(states[rows] for states in self.layer_outputs)
        return TransformerMemory(outputs, self.mask[rows])


class Encoder(nn.Module):
    """The stack of encoder layers."""

    def __init__(self, parts: ResolvedParts) -> None:
        super().__init__()
        settings = parts.settings
        layers = range(settings.encoder_layers)
        self.positions = nn.ModuleList(parts.build_position(index) for index in layers)
        self.layers = nn.ModuleList(EncoderLayer(parts) for _ in layers)
        self.dropout = Dropout(settings.dropout)
        self.norm = _final_norm(settings)
        self.keeps_all = settings.cross_attention == "same_layer"

    def forward(self, x: Float[Tensor, "B S E"], is_real: Bool[Tensor, "B S"]) -> TransformerMemory:
        """Apply all layers; return the output of the last one, or of all."""
        mask = padding_mask(is_real)
        outputs = []
        for index, (position, layer) in enumerate(zip(self.positions, self.layers, strict=True)):
            assert isinstance(position, Position)
            x = position.apply_to_input(x, 0)
            x = layer(self.dropout(x) if index == 0 else x, mask, position)
            outputs.append(x)
        kept = outputs if self.keeps_all else outputs[-1:]
        return TransformerMemory(tuple(self.norm(x) for x in kept), mask)


class Decoder(nn.Module):
    """The stack of decoder layers."""

    def __init__(self, parts: ResolvedParts) -> None:
        super().__init__()
        settings = parts.settings
        layers = range(settings.decoder_layers)
        self.positions = nn.ModuleList(parts.build_position(index) for index in layers)
        self.layers = nn.ModuleList(DecoderLayer(parts) for _ in layers)
        self.dropout = Dropout(settings.dropout)
        self.norm = _final_norm(settings)

    def forward(
        self, x: Float[Tensor, "N T E"], memory: TransformerMemory, cache: TransformerCache | None
    ) -> tuple[Float[Tensor, "N T M"], TransformerCache]:
        """Apply all layers to the tokens that follow the cache; also return the new cache."""
        start = 0 if cache is None else cache.length
        mask = causal_mask(start, x.shape[1], x.device)
        layer_caches = []
        for index, (position, layer) in enumerate(zip(self.positions, self.layers, strict=True)):
            assert isinstance(position, Position)
            x = position.apply_to_input(x, start)
            x, layer_cache = layer(
                self.dropout(x) if index == 0 else x,
                mask,
                position,
                memory.for_layer(index),
                memory.mask,
                None if cache is None else cache.layers[index],
            )
            layer_caches.append(layer_cache)
        return self.norm(x), TransformerCache(tuple(layer_caches))


def _final_norm(settings: ModelRecipe) -> nn.Module:
    """With pre-norm, the sum that leaves the last layer is not normalized yet."""
    return nn.LayerNorm(settings.width) if settings.norm == "pre" else nn.Identity()


class Transformer(EncoderDecoder):
    """An encoder-decoder in which only attention moves information between positions."""

    encoder: Encoder
    decoder: Decoder

    @staticmethod
    def build_stacks(settings: ModelRecipe) -> Stacks:
        """Build the encoder and the decoder."""
        parts = resolve_parts(settings)
        return Stacks(Encoder(parts), Decoder(parts), parts.word_features)
