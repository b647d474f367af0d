"""Are the fast cells what their equations say, forward and backward?

PyTorch's LSTM and GRU against the plain loop of `model/cell.py`; our layer, which reads padded
sentences, against PyTorch reading each sentence alone; the gated convolution against PyTorch's
layers. In float64, where nothing but a wrong formula can differ by more than 1e-12.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model.cell import RecurrentLayer, State, read_plainly
from dragoman.model.convolutional import GatedConvolution
from dragoman.model.initialisation import initialise
from small_models import small_recipe

ROWS, PLACES, INPUTS, WIDTH = 3, 7, 5, 6
EXACT = 1e-12
CELLS = ["lstm", "gru"]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(1)


def layer(kind: str, *, both_ways: bool = False) -> RecurrentLayer:
    built = RecurrentLayer(kind, INPUTS, WIDTH, both_ways=both_ways).double()
    initialise(built, 1)
    with torch.no_grad():
        for weight in built.parameters():
            weight.add_(torch.randn_like(weight) / 3)  # Biases of zero would hide themselves.
    return built


def states(kind: str) -> State:
    count = 2 if kind == "lstm" else 1
    return tuple(torch.randn(ROWS, WIDTH, dtype=torch.float64) for _ in range(count))


def words() -> Tensor:
    return torch.randn(ROWS, PLACES, INPUTS, dtype=torch.float64, requires_grad=True)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("kind", CELLS)
def test_the_fast_cell_is_the_equations(kind: str) -> None:
    built, x = layer(kind), words()
    begin = tuple(each.requires_grad_() for each in states(kind))
    weights = [x, *begin, *built.parameters()]
    gradients = []
    outputs = []
    for said, ended in (built(x, begin), read_plainly(built.cell, x, begin)):
        outputs.append((said, *ended))
        # Every output counts differently, so that none can hide behind another.
        total = sum(
            (each * torch.arange(each.numel()).view_as(each)).sum() for each in (said, *ended)
        )
        gradients.append(torch.autograd.grad(total / 100, weights, retain_graph=True))
    for found, expected in zip(*outputs, strict=True):
        close(found, expected)
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("both_ways", [True, False])
def test_each_row_is_read_to_its_own_end(kind: str, both_ways: bool) -> None:
    """As if it were alone, also backwards; behind the end is nothing."""
    built, x, lengths = layer(kind, both_ways=both_ways), words(), [4, 7, 1]
    said, ended = built(x, None, lengths)
    for row, length in enumerate(lengths):
        alone, state = built.cell(x[row : row + 1, :length])
        close(said[row, :length], alone[0])
        assert not said[row, length:].any()
        for found, expected in zip(ended, state if kind == "lstm" else (state,), strict=True):
            # PyTorch has the directions in front; ours stand side by side.
            close(found[row], expected[:, 0].flatten())


@pytest.mark.parametrize("kind", CELLS)
def test_reading_backwards_is_reading_the_reverse(kind: str) -> None:
    """The second half, by the equations: the reversed sentence, with the weights of that half."""
    built, x, lengths = layer(kind, both_ways=True), words(), [4, 7, 1]
    said, ended = built(x, None, lengths)
    half = WIDTH // 2
    backwards = type(built.cell)(INPUTS, half, batch_first=True).double()
    own = dict(built.cell.named_parameters())
    backwards.load_state_dict({name: own[f"{name}_reverse"] for name in backwards.state_dict()})
    count = 2 if kind == "lstm" else 1
    for row, length in enumerate(lengths):
        begin = tuple(torch.zeros(1, half, dtype=torch.float64) for _ in range(count))
        plain, state = read_plainly(backwards, x[row : row + 1, :length].flip(1), begin)
        close(said[row, :length, half:], plain[0].flip(0))
        for found, expected in zip(ended, state, strict=True):
            close(found[row, half:], expected[0])


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("both_ways", [True, False])
def test_a_state_goes_in_as_it_came_out(kind: str, both_ways: bool) -> None:
    built, x = layer(kind, both_ways=both_ways), words()
    _, ended = built(x)
    given = built._for_torch(ended)
    for found, expected in zip(
        given if isinstance(given, tuple) else (given,),
        built.cell(x)[1] if kind == "lstm" else (built.cell(x)[1],),
        strict=True,
    ):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
def test_the_gated_convolution_is_that_of_pytorch(kernel: int) -> None:
    settings = small_recipe(convolutional={"kernel": kernel}, width=WIDTH, head_count=1).model
    ours = GatedConvolution(settings).double()
    initialise(ours, 1)
    theirs = nn.Sequential(nn.Conv1d(WIDTH, 2 * WIDTH, kernel), nn.GLU(dim=1)).double()
    theirs[0].load_state_dict(ours.state_dict())
    x = torch.randn(ROWS, PLACES, WIDTH, dtype=torch.float64, requires_grad=True)
    found, expected = ours(x), theirs(x.mT).mT
    assert found.shape == (ROWS, PLACES - kernel + 1, WIDTH)
    close(found, expected)
    for left, right in zip(
        torch.autograd.grad(found.square().sum(), [x, *ours.parameters()]),
        torch.autograd.grad(expected.square().sum(), [x, *theirs.parameters()]),
        strict=True,
    ):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kernel", [1, 3])
def test_the_gated_convolution_is_a_linear_map_of_each_window(kernel: int) -> None:
    """GLU(W [x(t); …; x(t + k − 1)] + b): written with loops."""
    ours = GatedConvolution(small_recipe(convolutional={"kernel": kernel}, width=4).model).double()
    initialise(ours, 1)
    with torch.no_grad():
        ours.bias.normal_()
    x = torch.randn(1, PLACES, 4, dtype=torch.float64)
    for place, found in enumerate(ours(x)[0]):
        said = ours.bias.clone()
        for offset in range(kernel):
            said = said + F.linear(x[0, place + offset], ours.weight[:, :, offset])
        value, gate = said.chunk(2)
        close(found, value * gate.sigmoid())
