"""What do all our networks share?

    memory = encode(source)                read the source
    logits = decode(target, memory)        score what follows each token of the target

The vocabularies stand at the ends, an encoder and a decoder between them. What these remember is
their own affair: the memory of a source and the cache of a target are values, passed in and
returned, never changed, and kept by nobody.

It is a single-device model without files, batches or optimizers. It can be built on the meta
device, materialised, and then given its weights by `initialise`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import nn

from dragoman.errors import Mistake, RecipeError
from dragoman.model.embedding import Embedding, Output
from dragoman.recipe import ModelRecipe
from dragoman.shapes import Bool, Float, Int, Tensor


class Halves(NamedTuple):
    """What stands between the vocabularies; both have `layers`, from the bottom to the top."""

    encoder: nn.Module
    """encoder(words, is_real) → memory"""
    decoder: nn.Module
    """decoder(words, memory, cache or None) → states, cache"""
    word_features: int
    """How many features of the width belong to the word."""


class EncoderDecoder(nn.Module, ABC):
    """An encoder, a decoder, and the vocabularies at their ends."""

    def __init__(
        self, settings: ModelRecipe, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__()
        tied, scale = settings.tied_embeddings, settings.width**0.5
        if tied == "all" and source_vocabulary != target_vocabulary:
            what = (
                f"all ties words of {source_vocabulary} and {target_vocabulary} kinds; "
                "choose output or none for two vocabularies"
            )
            raise RecipeError([Mistake("model.tied_embeddings", what)])
        encoder, decoder, features = self.build_halves(settings)
        self.source_embedding = Embedding(source_vocabulary, features, scale)
        self.target_embedding = (
            None if tied == "all" else Embedding(target_vocabulary, features, scale)
        )
        self.encoder = encoder
        self.decoder = decoder
        self.output = Output(
            settings.width,
            target_vocabulary,
            is_tied=tied != "none",
            has_bias=settings.output_bias,
        )

    @staticmethod
    @abstractmethod
    def build_halves(settings: ModelRecipe) -> Halves:
        """Build what stands between the vocabularies, or say what stands against it."""

    def encode(self, source: Int[Tensor, "B S"], is_real: Bool[Tensor, "B S"]) -> Any:
        """Read the source; `is_real` is False where it is padded."""
        return self.encoder(self.source_embedding(source), is_real)

    def decode(
        self, target: Int[Tensor, "N T"], memory: Any, cache: Any = None
    ) -> tuple[Float[Tensor, "N T V"], Any]:
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
    def layers(self) -> Iterator[nn.Module]:
        """Those of the encoder, then those of the decoder, from the bottom to the top."""
        for side in (self.encoder, self.decoder):
            assert isinstance(side.layers, nn.ModuleList)
            yield from side.layers

    @property
    def _target_words(self) -> Embedding:
        return self.source_embedding if self.target_embedding is None else self.target_embedding
