"""The base class of all networks: an encoder, a decoder, and the vocabularies at both ends.

    memory = encode(source)                encode the source
    logits = decode(target, memory)        score what follows each token of the target

Each architecture has its own memory and cache. They are immutable values: they are passed in and
returned, and no module stores them.

The model knows nothing of files, batches, optimizers or several devices. It can be built on the
meta device, materialized, and then given its weights by `initialize`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

from torch import nn

from dragoman.errors import Mistake, RecipeError
from dragoman.model.cache import Cache, Memory
from dragoman.model.embedding import Embedding, Output
from dragoman.model.parts import PositionPart
from dragoman.recipe.schema import ModelRecipe
from dragoman.shapes import Bool, Float, Int, Tensor


class Stacks(NamedTuple):
    """The encoder and the decoder of a network. Both have `layers`, from the bottom to the top."""

    encoder: nn.Module
    """encoder(embedded source, is_real) → memory"""
    decoder: nn.Module
    """decoder(embedded target, memory, cache or None) → states, cache"""
    word_features: int
    """The number of features of the word embeddings."""


class EncoderDecoder(nn.Module, ABC):
    """A network that scores target tokens, given a source sentence."""

    def __init__(
        self, settings: ModelRecipe, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__()
        tied, scale = settings.tied_embeddings, settings.width**0.5
        if tied == "all" and source_vocabulary != target_vocabulary:
            message = (
                f"all needs one vocabulary, but the source has {source_vocabulary} tokens and the "
                f"target has {target_vocabulary}; choose output or none for two vocabularies"
            )
            raise RecipeError([Mistake("model.tied_embeddings", message)])
        encoder, decoder, features = self.build_stacks(settings)
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
    def build_stacks(settings: ModelRecipe) -> Stacks:
        """Build the encoder and the decoder, or raise a RecipeError with all mistakes."""

    def encode(self, source: Int[Tensor, "B S"], is_real: Bool[Tensor, "B S"]) -> Memory:
        """Encode the source; `is_real` is False at padding."""
        memory: Memory = self.encoder(self.source_embedding(source), is_real)
        return memory

    def decode(
        self, target: Int[Tensor, "N T"], memory: Memory, cache: Cache | None = None
    ) -> tuple[Float[Tensor, "N T V"], Cache]:
        """Score what may follow each target token; the cache holds the tokens before the target.

        Neighboring rows of the target may share one row of the memory, as in a beam search.
        """
        embedding = self._decoder_embedding
        states, cache = self.decoder(embedding(target), memory, cache)
        assert cache is not None
        return self.output(states, embedding.weight), cache

    def forward(
        self,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        target: Int[Tensor, "B T"],
    ) -> Float[Tensor, "B T V"]:
        """Score all target positions at once, as in training; the target is shifted right."""
        logits, _ = self.decode(target, self.encode(source, is_real))
        return logits

    def logit_factors(
        self,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        target: Int[Tensor, "B T"],
    ) -> tuple[Float[Tensor, "B T E"], Float[Tensor, "V E"]]:
        """Return two matrices; their product is the output of `forward`.

        The logits are the largest tensor in training. A loss can compute them in chunks.
        """
        embedding = self._decoder_embedding
        states, _ = self.decoder(embedding(target), self.encode(source, is_real), None)
        return self.output.logit_factors(states, embedding.weight)

    @property
    def layers(self) -> Iterator[nn.Module]:
        """The layers of the encoder, then of the decoder, from the bottom to the top."""
        for stack in (self.encoder, self.decoder):
            assert isinstance(stack.layers, nn.ModuleList)
            yield from stack.layers

    def layer_matrices(self) -> list[nn.Parameter]:
        """Return the weight matrices inside layers, which map features to features.

        Biases, norms, embedding tables, single rows (a score vector) and tensors with three axes
        (narrow heads, convolutions) are not among them. An optimizer for matrices, such as Muon,
        takes these; all other parameters need another one.
        """
        return [
            parameter
            for layer in self.layers
            for module in layer.modules()
            if not isinstance(module, nn.Embedding)
            for parameter in module.parameters(recurse=False)
            if parameter.ndim == 2 and min(parameter.shape) > 1
        ]

    @property
    def max_positions(self) -> int | None:
        """The longest sequence that the position parts allow; None where there is no limit."""
        limits = [
            module.max_positions for module in self.modules() if isinstance(module, PositionPart)
        ]
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def _decoder_embedding(self) -> Embedding:
        return self.source_embedding if self.target_embedding is None else self.target_embedding
