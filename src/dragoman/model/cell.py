"""How does a state remember what went by?

    LSTM    i, f, g, o = Wx + b + Uh + d               (Hochreiter and Schmidhuber, 1997)
            c ← σ(f) ⊙ c + σ(i) ⊙ tanh(g)
            h ← σ(o) ⊙ tanh(c)

    GRU     r, z = σ(Wx + b + Uh + d)                  (Cho et al., 2014)
            n = tanh(Wₙx + bₙ + r ⊙ (Uₙh + dₙ))
            h ← (1 − z) ⊙ n + z ⊙ h

The lectures speak of recurrent networks and name no cell (seeds 000, 001, 003, 004). What an LSTM
forgets and what it takes in are two gates, in a GRU they are one. `read_plainly` is the
definition, one place after the other; PyTorch's kernels are the fast twin, and must give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dragoman.shapes import Float, Tensor

State = tuple[Float[Tensor, "N M"], ...]
"""h and c of an LSTM, h alone of a GRU."""


class RecurrentLayer(nn.Module):
    """A cell that reads from left to right, or two halves of it that read both ways."""

    def __init__(
        self, kind: Literal["lstm", "gru"], inputs: int, width: int, *, both_ways: bool = False
    ) -> None:
        super().__init__()
        features = width // 2 if both_ways else width
        cell = nn.LSTM if kind == "lstm" else nn.GRU
        self.cell = cell(inputs, features, batch_first=True, bidirectional=both_ways)

    def forward(
        self,
        x: Float[Tensor, "N T E"],
        state: State | None = None,
        lengths: Sequence[int] | None = None,
    ) -> tuple[Float[Tensor, "N T M"], State]:
        """Read on from a state, or from nothing; also give the state after the last token.

        Where `lengths` are given, no row is read beyond its own: reading backwards begins there,
        and what stands behind it is zero.
        """
        if lengths is None:
            outputs, ended = self.cell(x, self._for_torch(state))
        else:
            packed = pack_padded_sequence(x, list(lengths), batch_first=True, enforce_sorted=False)
            packed, ended = self.cell(packed, self._for_torch(state))
            outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        states = ended if isinstance(ended, tuple) else (ended,)
        # Both directions side by side, as in the outputs.
        return outputs, tuple(each.transpose(0, 1).flatten(1) for each in states)

    def _for_torch(self, state: State | None) -> Tensor | tuple[Tensor, ...] | None:
        """PyTorch has the directions in front, and a GRU's state alone."""
        if state is None:
            return None
        directions = 2 if self.cell.bidirectional else 1
        apart = tuple(
            each.view(len(each), directions, -1).transpose(0, 1).contiguous() for each in state
        )
        return apart if isinstance(self.cell, nn.LSTM) else apart[0]


def read_plainly(
    cell: nn.RNNBase, x: Float[Tensor, "N T E"], state: State
) -> tuple[Float[Tensor, "N T M"], State]:
    """Read from left to right by the equations, with the weights of PyTorch's cell."""
    weight, bias, of_state, of_state_bias = (
        cell.get_parameter(f"{name}_l0")
        for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    )
    step = _lstm if isinstance(cell, nn.LSTM) else _gru
    said = []
    for token in x.unbind(dim=1):
        asked = F.linear(token, weight, bias)
        state = step(asked, F.linear(state[0], of_state, of_state_bias), state)
        said.append(state[0])
    return torch.stack(said, dim=1), state


def _lstm(of_x: Float[Tensor, "N F"], of_h: Float[Tensor, "N F"], state: State) -> State:
    _, c = state
    i, f, g, o = (of_x + of_h).chunk(4, dim=1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(of_x: Float[Tensor, "N F"], of_h: Float[Tensor, "N F"], state: State) -> State:
    (h,) = state
    r_x, z_x, n_x = of_x.chunk(3, dim=1)
    r_h, z_h, n_h = of_h.chunk(3, dim=1)
    r, z = (r_x + r_h).sigmoid(), (z_x + z_h).sigmoid()
    n = (n_x + r * n_h).tanh()
    return ((1 - z) * n + z * h,)
