"""Tests that the baselines compute their equations, from tokens to logits.

The networks are written here a second time, in float64, sentence by sentence and place by place,
from the equations at the head of their files. Only the cells are taken from `reference_cell`, which
`test_cells.py` compares.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model.cell import State, reference_cell
from dragoman.model.encoder_decoder import EncoderDecoder
from support import contract
from support.small_models import BASELINES, small_model

EXACT = 1e-10
"""In float64 on both sides; logits are of the order of one."""
HALF = 0.5**0.5


def attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Σᵢ softmax(q · kᵢ / √d) vᵢ, for one query."""
    weights = torch.softmax(keys @ query / len(query) ** 0.5, dim=0)
    return weights @ values


def embed(model: EncoderDecoder, tokens: Tensor) -> Tensor:
    words = model.source_embedding.weight
    return words[tokens] * words.shape[1] ** 0.5


def score(model: EncoderDecoder, states: Tensor) -> Tensor:
    return states @ model.source_embedding.weight.T


def nothing(layer: Any, width: int) -> State:
    count = 2 if isinstance(layer.cell, torch.nn.LSTM) else 1
    return tuple(torch.zeros(1, width, dtype=torch.float64) for _ in range(count))


def read_both_ways(layer: Any, x: Tensor) -> tuple[Tensor, State]:
    """Read forward with one half of the weights and backward with the other half."""
    cell, half = layer.cell, layer.cell.hidden_size
    own = dict(cell.named_parameters())
    parts = []
    for ending, order in (("", x), ("_reverse", x.flip(0))):
        one = type(cell)(cell.input_size, half, batch_first=True).double()
        one.load_state_dict({name: own[f"{name}{ending}"] for name in one.state_dict()})
        said, state = reference_cell(one, order.unsqueeze(0), nothing(layer, half))
        parts.append((said[0].flip(0) if ending else said[0], state))
    (forwards, ended), (backwards, begun) = parts
    states = tuple(torch.cat(pair, dim=1) for pair in zip(ended, begun, strict=True))
    return torch.cat([forwards, backwards], dim=1), states


def recurrent(model: Any, source: Tensor, target: Tensor) -> Tensor:
    """One sentence without padding; two layers on each side."""
    bottom, top = model.encoder.layers
    x, first = read_both_ways(bottom, embed(model, source))
    read, second = reference_cell(top.cell, x.unsqueeze(0), nothing(top, x.shape[1]))
    memory = x + read[0]
    lower, upper = model.decoder.layers
    said = []
    for word in embed(model, target):
        h, first = reference_cell(lower.cell, word.view(1, 1, -1), first)
        h = h[0, 0]
        context = attend(h, memory, memory) if model.decoder.look else h.new_empty(0)
        higher, second = reference_cell(upper.cell, torch.cat([h, context]).view(1, 1, -1), second)
        h = h + higher[0, 0]
        if model.decoder.look:
            join = model.decoder.look.join
            h = torch.tanh(join.weight @ torch.cat([h, context]) + join.bias)
        said.append(h)
    return score(model, torch.stack(said))


def window(layer: Any, x: Tensor, first: int) -> Tensor:
    """GLU(W ∗ x) of the positions from `first`; outside the sentence x is zero."""
    weight, said = layer.convolution.weight, layer.convolution.bias
    for offset in range(weight.shape[2]):
        if 0 <= first + offset < len(x):
            said = said + weight[:, :, offset] @ x[first + offset]
    return F.glu(said, dim=0)


def convolutional(model: Any, source: Tensor, target: Tensor) -> Tensor:
    """One sentence without padding."""
    words = x = 0.1 * model.encoder.position.apply_to_input(embed(model, source).unsqueeze(0), 0)[0]
    for layer in model.encoder.layers:
        x = torch.stack([HALF * (x[t] + window(layer, x, t - 1)) for t in range(len(x))])
    keys, values = x, HALF * (x + words) * len(x) ** 0.5
    words = y = 0.1 * model.decoder.position.apply_to_input(embed(model, target).unsqueeze(0), 0)[0]
    for layer in model.decoder.layers:
        said = []
        for t in range(len(y)):
            h = window(layer, y[: t + 1], t - 2)
            query = HALF * (layer.query.weight @ h + layer.query.bias + words[t])
            attended = attend(query, keys, values)
            h = HALF * (h + layer.context.weight @ attended + layer.context.bias)
            said.append(HALF * (y[t] + h))
        y = torch.stack(said)
    return score(model, y)


CASES = {
    **BASELINES,
    "gru": {"architecture": "recurrent", "recurrent": {"cell": "gru"}},
    "gru that does not attend": {
        "architecture": "recurrent",
        "recurrent": {"cell": "gru", "attention": False},
    },
}


@pytest.mark.parametrize("settings", CASES.values(), ids=list(CASES))
def test_the_network_computes_its_equations(settings: dict[str, Any]) -> None:
    model = small_model(**settings).double()
    plain = recurrent if settings["architecture"] == "recurrent" else convolutional
    source, is_real, target = contract.random_sentences()
    with torch.no_grad():
        logits = model(source, is_real, target)
        for row, length in enumerate(is_real.sum(dim=1).tolist()):
            expected = plain(model, source[row, :length], target[row])
            torch.testing.assert_close(logits[row], expected, rtol=0, atol=EXACT)
