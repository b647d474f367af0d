"""How does the Transformer turn a source into scores for the next target token?

    memory = encode(source)                        N layers of self-attention and feed-forward
    logits = decode(target, memory)                N layers that also look at the memory
                                                   (Vaswani et al., 2017; seeds 001, 002, 003)

It is a single-device model without files, batches or optimizers. It can be built on the meta
device, materialised, and then given its weights by `initialise`.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from dragoman.errors import Mistake, RecipeError
from dragoman.model.blueprint import Blueprint, draw_blueprint
from dragoman.model.cache import Cache
from dragoman.model.dropout import Dropout
from dragoman.model.embedding import Embedding, Output
from dragoman.model.initialisation import initialise
from dragoman.model.layer import DecoderLayer, EncoderLayer
from dragoman.model.mask import causal_mask, padding_mask
from dragoman.model.parts import Position
from dragoman.recipe import ModelRecipe, Recipe
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

    def forward(
        self, x: Float[Tensor, "B S E"], mask: Bool[Tensor, "B 1 1 S"]
    ) -> tuple[Float[Tensor, "B S M"], ...]:
        """Read through all layers; give the last, or all."""
        heights = []
        for height, (position, layer) in enumerate(zip(self.positions, self.layers, strict=True)):
            assert isinstance(position, Position)
            x = position.enter(x, 0)
            x = layer(self.dropout(x) if height == 0 else x, mask, position)
            heights.append(x)
        return tuple(self.norm(x) for x in (heights if self.keeps_all else heights[-1:]))


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


class Transformer(nn.Module):
    """An encoder, a decoder, and the vocabularies at their ends."""

    def __init__(
        self, settings: ModelRecipe, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__()
        blueprint = draw_blueprint(settings)
        features, scale = blueprint.word_features, settings.width**0.5
        tied = settings.tied_embeddings
        if tied == "all" and source_vocabulary != target_vocabulary:
            what = (
                f"all ties words of {source_vocabulary} and {target_vocabulary} kinds; "
                "choose output or none for two vocabularies"
            )
            raise RecipeError([Mistake("model.tied_embeddings", what)])
        self.source_embedding = Embedding(source_vocabulary, features, scale)
        self.target_embedding = (
            None if tied == "all" else Embedding(target_vocabulary, features, scale)
        )
        self.encoder = Encoder(blueprint)
        self.decoder = Decoder(blueprint)
        self.output = Output(
            settings.width,
            target_vocabulary,
            is_tied=tied != "none",
            has_bias=settings.output_bias,
        )

    @classmethod
    def from_recipe(cls, recipe: Recipe) -> Transformer:
        """Build the model a recipe describes, with its first weights."""
        size = recipe.tokenizer.vocabulary_size
        model = cls(recipe.model, size, size)
        initialise(model, recipe.seed)
        return model

    def encode(self, source: Int[Tensor, "B S"], is_real: Bool[Tensor, "B S"]) -> Memory:
        """Read the source; `is_real` is False where it is padded."""
        mask = padding_mask(is_real)
        return Memory(self.encoder(self.source_embedding(source), mask), mask)

    def decode(
        self, target: Int[Tensor, "N T"], memory: Memory, cache: Cache | None = None
    ) -> tuple[Float[Tensor, "N T V"], Cache]:
        """Score what may follow each target token, given what the cache remembers before it.

        Several rows of the target may share a row of the memory: those that follow each other.
        """
        words = self._target_words
        states, cache = self.decoder(words(target), memory, cache)
        return self.output(states, words.weight), cache

    def forward(
        self,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        target: Int[Tensor, "B T"],
    ) -> Float[Tensor, "B T V"]:
        """Score all target places at once, as in training; the target is shifted to the right."""
        logits, _ = self.decode(target, self.encode(source, is_real))
        return logits

    def factors(
        self,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        target: Int[Tensor, "B T"],
    ) -> tuple[Float[Tensor, "B T E"], Float[Tensor, "V E"]]:
        """Give the two matrices whose product `forward` is.

        The product is the largest thing in training; a loss can take it piece by piece.
        """
        words = self._target_words
        states, _ = self.decoder(words(target), self.encode(source, is_real), None)
        return self.output.factors(states, words.weight)

    @property
    def _target_words(self) -> Embedding:
        return self.source_embedding if self.target_embedding is None else self.target_embedding
