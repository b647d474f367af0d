"""Recurrent cells: LSTM and GRU.

    LSTM    i, f, g, o = Wx + b + Uh + d               Hochreiter and Schmidhuber, 1997
            c ← σ(f) ⊙ c + σ(i) ⊙ tanh(g)
            h ← σ(o) ⊙ tanh(c)

    GRU     r, z = σ(Wx + b + Uh + d)                  Cho et al., 2014
            n = tanh(Wₙx + bₙ + r ⊙ (Uₙh + dₙ))
            h ← (1 − z) ⊙ n + z ⊙ h

The lectures speak of recurrent networks without naming a cell ([NLU], [CS224N], [APPLY-DL],
[CS182]). An LSTM has separate gates for forgetting and for input; a GRU uses one gate for both.
`reference_cell` is the definition, one position after the other. PyTorch's kernels are the fast
version and must give the same result.
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
"""(h, c) of an LSTM, (h,) of a GRU."""


class RecurrentLayer(nn.Module):
    """One recurrent layer. If bidirectional, each direction has half of the width."""

    def __init__(
        self, kind: Literal["lstm", "gru"], inputs: int, width: int, *, bidirectional: bool = False
    ) -> None:
        super().__init__()
        features = width // 2 if bidirectional else width
        cell = nn.LSTM if kind == "lstm" else nn.GRU
        self.cell = cell(inputs, features, batch_first=True, bidirectional=bidirectional)

    def forward(
        self,
        x: Float[Tensor, "N T E"],
        state: State | None = None,
        lengths: Sequence[int] | None = None,
    ) -> tuple[Float[Tensor, "N T M"], State]:
        """Read the input from a state, or from zero; also return the state after the last token.

        With `lengths`, each row is read up to its own length: the backward direction starts there,
        and the outputs behind it are zero.
        """
        if lengths is None:
            outputs, final = self.cell(x, self._to_torch(state))
        else:
            packed = pack_padded_sequence(x, list(lengths), batch_first=True, enforce_sorted=False)
            packed, final = self.cell(packed, self._to_torch(state))
            outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        states = final if isinstance(final, tuple) else (final,)
        # Both directions side by side, as in the outputs.
        return outputs, tuple(tensor.transpose(0, 1).flatten(1) for tensor in states)

    def _to_torch(self, state: State | None) -> Tensor | tuple[Tensor, ...] | None:
        """Convert a state: PyTorch has the directions first, and a GRU's state without a tuple."""
        if state is None:
            return None
        directions = 2 if self.cell.bidirectional else 1
        converted = tuple(
            tensor.view(len(tensor), directions, -1).transpose(0, 1).contiguous()
            for tensor in state
        )
        return converted if isinstance(self.cell, nn.LSTM) else converted[0]


def reference_cell(
    cell: nn.RNNBase, x: Float[Tensor, "N T E"], state: State
) -> tuple[Float[Tensor, "N T M"], State]:
    """Read from left to right by the equations, with the weights of PyTorch's cell."""
    input_weight, input_bias, state_weight, state_bias = (
        cell.get_parameter(f"{name}_l0")
        for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    )
    step = _lstm if isinstance(cell, nn.LSTM) else _gru
    outputs = []
    for token in x.unbind(dim=1):
        of_x = F.linear(token, input_weight, input_bias)
        of_h = F.linear(state[0], state_weight, state_bias)
        state = step(of_x, of_h, state)
        outputs.append(state[0])
    return torch.stack(outputs, dim=1), state


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
