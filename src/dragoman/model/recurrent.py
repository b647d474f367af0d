"""The recurrent network, with or without attention: an architecture to compare with.

    sₜ = cell(sₜ₋₁, xₜ)                            [NLU], [APPLY-DL], [CS182]

    without attention:  the decoder starts from the encoder's last states,
                        and knows nothing else     Sutskever et al., 2014; [NLU]
    with attention:     c = Attention(h⁰, memory, memory)
                                                   Bahdanau et al., 2015; [APPLY-DL], [CS182]
                        hˡ = hˡ⁻¹ + cell([hˡ⁻¹; c])    for the layers above the bottom
                        h = tanh(W [hᴸ; c])        Luong et al., 2015

As in GNMT (Wu et al., 2016), the bottom encoder layer is bidirectional, the layers above the bottom
are residual, and the bottom decoder layer alone attends to the source, for all layers above it. So
each layer processes all positions of a known target before the next layer starts, and attention is
one matrix product. The attention has one head without projections; similarity and attention kind
come from the recipe.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from dragoman.model.attention import Attention
from dragoman.model.cell import RecurrentLayer, State
from dragoman.model.dropout import Dropout
from dragoman.model.encoder_decoder import EncoderDecoder, Stacks
from dragoman.model.mask import padding_mask
from dragoman.model.parts import Position
from dragoman.model.resolve import ResolvedParts, resolve_parts
from dragoman.recipe.parts import Choice
from dragoman.recipe.schema import ModelRecipe
from dragoman.shapes import Bool, Float, Int, Tensor


class RecurrentMemory(NamedTuple):
    """The encoder's last states, and its outputs, which the decoder attends to."""

    final_states: tuple[State, ...]
    """The states after the last token, of each layer from the bottom to the top."""
    states: Float[Tensor, "B S M"]
    mask: Bool[Tensor, "B 1 1 S"]

    def reorder(self, rows: Int[Tensor, " K"]) -> RecurrentMemory:
        """Select these sentences, in this order."""
        return RecurrentMemory(_select(self.final_states, rows), self.states[rows], self.mask[rows])


class RecurrentCache(NamedTuple):
    """The current state of each decoder layer, from the bottom to the top."""

    states: tuple[State, ...]
    length: int
    """How many target tokens have been read."""

    def reorder(
        self, hypotheses: Int[Tensor, " N"], sentences: Int[Tensor, " K"] | None
    ) -> RecurrentCache:
        """Select these hypotheses, in this order; the cache holds nothing of the source."""
        return RecurrentCache(_select(self.states, hypotheses), self.length)


def _select(
    states: tuple[State, ...], rows: Int[Tensor, " K"]
) -> tuple[tuple[Float[Tensor, "K M"], ...], ...]:
    return tuple(tuple(tensor[rows] for tensor in state) for state in states)


class Encoder(nn.Module):
    """The stack of encoder layers."""

    def __init__(self, settings: ModelRecipe) -> None:
        super().__init__()
        options, width = settings.recurrent, settings.width
        self.layers = nn.ModuleList(
            RecurrentLayer(
                options.cell, width, width, bidirectional=options.bidirectional and index == 0
            )
            for index in range(settings.encoder_layers)
        )
        self.dropout = Dropout(settings.dropout)

    def forward(self, x: Float[Tensor, "B S M"], is_real: Bool[Tensor, "B S"]) -> RecurrentMemory:
        """Apply all layers; each row is read up to its own length."""
        # On the meta device there are no values, so no lengths: all tokens count.
        lengths = None if is_real.is_meta else is_real.sum(dim=1).tolist()
        final_states = []
        for index, layer in enumerate(self.layers):
            output, state = layer(self.dropout(x), None, lengths)
            x = x + output if index else output
            final_states.append(state)
        return RecurrentMemory(tuple(final_states), x, padding_mask(is_real))


class Decoder(nn.Module):
    """The stack of decoder layers. It starts from the encoder's last states."""

    def __init__(self, parts: ResolvedParts) -> None:
        super().__init__()
        settings = parts.settings
        options, width = settings.recurrent, settings.width
        upper_inputs = 2 * width if options.attention else width
        self.layers = nn.ModuleList(
            RecurrentLayer(options.cell, upper_inputs if index else width, width)
            for index in range(settings.decoder_layers)
        )
        self.dropout = Dropout(settings.dropout)
        # The attribute's name is part of the names of stored weights.
        self.look = RecurrentAttention(parts) if options.attention else None

    def forward(
        self, x: Float[Tensor, "N T M"], memory: RecurrentMemory, cache: RecurrentCache | None
    ) -> tuple[Float[Tensor, "N T M"], RecurrentCache]:
        """Read the tokens that follow the cache; also return the new cache."""
        states, start = cache or RecurrentCache(self._first_states(memory, len(x)), 0)
        new_states, context = [], None
        for index, (layer, state) in enumerate(zip(self.layers, states, strict=True)):
            output, new_state = layer(self.dropout(_concatenate(x, context)), state)
            x = x + output if index else output
            new_states.append(new_state)
            if self.look is not None and index == 0:
                context = self.look(x, memory, start)
        if self.look is not None:
            x = self.look.join(_concatenate(x, context)).tanh()
        return self.dropout(x), RecurrentCache(tuple(new_states), start + x.shape[1])

    def _first_states(self, memory: RecurrentMemory, rows: int) -> tuple[State, ...]:
        """Return the encoder's last states, matched to decoder layers from the top downwards.

        A decoder that is deeper than the encoder repeats the bottom state. Rows that share a source
        start with the same state.
        """
        depth = len(self.layers)
        bottom, rows_per_source = memory.final_states[0], rows // len(memory.states)
        missing = max(depth - len(memory.final_states), 0)
        states = (bottom,) * missing + memory.final_states[-depth:]
        return tuple(
            tuple(tensor.repeat_interleave(rows_per_source, dim=0) for tensor in state)
            for state in states
        )


class RecurrentAttention(nn.Module):
    """Attention of the bottom decoder layer to the source; all layers above use its output."""

    def __init__(self, parts: ResolvedParts) -> None:
        super().__init__()
        width = parts.settings.width
        self.attention = Attention(parts, "cross")
        self.no_position = Position(width)
        self.join = nn.Linear(2 * width, width)

    def forward(
        self, x: Float[Tensor, "N T M"], memory: RecurrentMemory, start: int
    ) -> Float[Tensor, "N T M"]:
        """Attend to the source from each state."""
        source = memory.states.unsqueeze(1)
        attended: Tensor = self.attention(
            x.unsqueeze(1), source, source, memory.mask, self.no_position, start
        )
        return attended.squeeze(1)


def _concatenate(x: Float[Tensor, "N T M"], context: Tensor | None) -> Float[Tensor, "N T E"]:
    return x if context is None else torch.cat([x, context], dim=-1)


class Recurrent(EncoderDecoder):
    """An encoder-decoder of recurrent layers."""

    @staticmethod
    def build_stacks(settings: ModelRecipe) -> Stacks:
        """Build the stacks. Attention has one bare head: states serve as queries, keys, values."""
        heads = {"head_kind": Choice(name="bare"), "heads": 1}
        # A recurrent network reads in order, so it needs no position part.
        positions = {"position": Choice(name="none"), "position_entry": "added"}
        overrides = heads | positions | {"position_depth": "bottom"}
        parts = resolve_parts(settings.model_copy(update=overrides))
        return Stacks(Encoder(settings), Decoder(parts), settings.width)
