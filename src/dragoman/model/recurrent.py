"""How does a recurrent network translate, with attention and without?

    sₜ = cell(sₜ₋₁, xₜ)                            one place after the other  (seeds 000, 003, 004)

    without:  decoder states begin where the encoder's ended, and that is all
              the decoder knows                    (Sutskever et al., 2014; seed 000)
    with:     c = Attention(h⁰, memory, memory)    (Bahdanau et al., 2015; seeds 000, 003)
              hˡ = hˡ⁻¹ + cell([hˡ⁻¹; c])          for the layers above the bottom
              h = tanh(W [hᴸ; c])                  (Luong et al., 2015)

As in GNMT (Wu et al., 2016), the bottom of the encoder reads both ways, layers above a bottom are
residual, and the bottom of the decoder alone asks the source, for all above it. So each layer runs
through all places of a known target before the next begins, and attention is one product. It has
one head and no projections; similarity and reach are the recipe's.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from dragoman.model.attention import Attention
from dragoman.model.blueprint import Blueprint, draw_blueprint
from dragoman.model.cell import RecurrentLayer, State
from dragoman.model.dropout import Dropout
from dragoman.model.encoder_decoder import EncoderDecoder, Halves
from dragoman.model.mask import padding_mask
from dragoman.model.parts import Position
from dragoman.part import Choice
from dragoman.recipe import ModelRecipe
from dragoman.shapes import Bool, Float, Int, Tensor


class Memory(NamedTuple):
    """How the source ended, and what the decoder may look at."""

    ended: tuple[State, ...]
    """The states after the last token, of each layer from the bottom to the top."""
    states: Float[Tensor, "B S M"]
    mask: Bool[Tensor, "B 1 1 S"]

    def reorder(self, rows: Int[Tensor, " K"]) -> Memory:
        """Take these sentences, in this order; one may be taken often, or never."""
        return Memory(_take(self.ended, rows), self.states[rows], self.mask[rows])


class Cache(NamedTuple):
    """Where each layer of the decoder is, from the bottom to the top."""

    states: tuple[State, ...]
    length: int
    """How many target tokens have been read."""

    def reorder(self, hypotheses: Int[Tensor, " N"], sentences: Int[Tensor, " K"] | None) -> Cache:
        """Take these hypotheses, in this order; nothing here belongs to the source."""
        return Cache(_take(self.states, hypotheses), self.length)


def _take(
    states: tuple[State, ...], rows: Int[Tensor, " K"]
) -> tuple[tuple[Float[Tensor, "K M"], ...], ...]:
    return tuple(tuple(each[rows] for each in state) for state in states)


class Encoder(nn.Module):
    """Reads the source, token by token."""

    def __init__(self, settings: ModelRecipe) -> None:
        super().__init__()
        own, width = settings.recurrent, settings.width
        self.layers = nn.ModuleList(
            RecurrentLayer(own.cell, width, width, both_ways=own.both_ways and height == 0)
            for height in range(settings.encoder_layers)
        )
        self.dropout = Dropout(settings.dropout)

    def forward(self, x: Float[Tensor, "B S M"], is_real: Bool[Tensor, "B S"]) -> Memory:
        """Read through all layers, each row to its own end."""
        # Where nothing is computed, nobody knows a length: all tokens count.
        lengths = None if is_real.is_meta else is_real.sum(dim=1).tolist()
        ended = []
        for height, layer in enumerate(self.layers):
            read, state = layer(self.dropout(x), None, lengths)
            x = x + read if height else read
            ended.append(state)
        return Memory(tuple(ended), x, padding_mask(is_real))


class Decoder(nn.Module):
    """Writes the target from where the source ended, looking at the memory if it attends."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        settings = blueprint.settings
        own, width = settings.recurrent, settings.width
        above = 2 * width if own.attends else width
        self.layers = nn.ModuleList(
            RecurrentLayer(own.cell, above if height else width, width)
            for height in range(settings.decoder_layers)
        )
        self.dropout = Dropout(settings.dropout)
        self.look = Look(blueprint) if own.attends else None

    def forward(
        self, x: Float[Tensor, "N T M"], memory: Memory, cache: Cache | None
    ) -> tuple[Float[Tensor, "N T M"], Cache]:
        """Go on from the cache, or from the end of the source."""
        states, start = cache or Cache(self._first_states(memory, len(x)), 0)
        remembered, context = [], None
        for height, (layer, state) in enumerate(zip(self.layers, states, strict=True)):
            read, kept = layer(self.dropout(_beside(x, context)), state)
            x = x + read if height else read
            remembered.append(kept)
            if self.look is not None and height == 0:
                context = self.look(x, memory, start)
        if self.look is not None:
            x = self.look.join(_beside(x, context)).tanh()
        return self.dropout(x), Cache(tuple(remembered), start + x.shape[1])

    def _first_states(self, memory: Memory, rows: int) -> tuple[State, ...]:
        """The top goes on from the encoder's top, and so on downwards, as far as there are layers.

        Rows that share a source begin with the same state.
        """
        depth = len(self.layers)
        bottom, shares = memory.ended[0], rows // len(memory.states)
        ended = (bottom,) * max(depth - len(memory.ended), 0) + memory.ended[-depth:]
        return tuple(
            tuple(each.repeat_interleave(shares, dim=0) for each in state) for state in ended
        )


class Look(nn.Module):
    """The bottom of the decoder asks the source; what it finds is told to all above."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        width = blueprint.settings.width
        self.attention = Attention(blueprint)
        self.no_position = Position(width)
        self.join = nn.Linear(2 * width, width)

    def forward(
        self, x: Float[Tensor, "N T M"], memory: Memory, start: int
    ) -> Float[Tensor, "N T M"]:
        """Find what each state asks for."""
        source = memory.states.unsqueeze(1)
        found: Tensor = self.attention(
            x.unsqueeze(1), source, source, memory.mask, self.no_position, start
        )
        return found.squeeze(1)


def _beside(x: Float[Tensor, "N T M"], context: Tensor | None) -> Float[Tensor, "N T E"]:
    return x if context is None else torch.cat([x, context], dim=-1)


class Recurrent(EncoderDecoder):
    """States that go from place to place."""

    @staticmethod
    def build_halves(settings: ModelRecipe) -> Halves:
        """Build the stacks; a state as large as the model is asked, and given, as it is."""
        heads = {"heads": Choice(name="bare"), "head_count": 1}
        # Who reads one by one need not be told the places.
        places = {"position": Choice(name="none"), "position_entry": "added"}
        others = heads | places | {"position_depth": "bottom"}
        blueprint = draw_blueprint(settings.model_copy(update=others))
        return Halves(Encoder(settings), Decoder(blueprint), settings.width)
