"""Tests that the recurrent cells compute their equations, forward and backward.

PyTorch's LSTM and GRU against the plain loop of `model/cell.py`; our layer, which reads padded
sentences, against PyTorch reading each sentence alone; the gated convolution against PyTorch's
layers. In float64, where nothing but a wrong formula can differ by more than 1e-12.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model.cell import RecurrentLayer, State, reference_cell
from dragoman.model.convolutional import GatedConvolution
from dragoman.model.initialization import initialize
from support.small_models import small_recipe

ROWS, POSITIONS, INPUTS, WIDTH = 3, 7, 5, 6
EXACT = 1e-12
CELLS = ["lstm", "gru"]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(1)


def layer(kind: str, *, bidirectional: bool = False) -> RecurrentLayer:
    built = RecurrentLayer(kind, INPUTS, WIDTH, bidirectional=bidirectional).double()
    initialize(built, 1)
    with torch.no_grad():
        for weight in built.parameters():
            weight.add_(torch.randn_like(weight) / 3)  # Biases of zero would hide themselves.
    return built


def states(kind: str) -> State:
    count = 2 if kind == "lstm" else 1
    return tuple(torch.randn(ROWS, WIDTH, dtype=torch.float64) for _ in range(count))


def words() -> Tensor:
    return torch.randn(ROWS, POSITIONS, INPUTS, dtype=torch.float64, requires_grad=True)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("kind", CELLS)
def test_the_fast_cell_equals_the_equations(kind: str) -> None:
    built, x = layer(kind), words()
    begin = tuple(tensor.requires_grad_() for tensor in states(kind))
    weights = [x, *begin, *built.parameters()]
    gradients = []
    outputs = []
    for outputs_of_cell, final in (built(x, begin), reference_cell(built.cell, x, begin)):
        outputs.append((outputs_of_cell, *final))
        # Every output counts differently, so that none can hide behind another.
        total = sum(
            (tensor * torch.arange(tensor.numel()).view_as(tensor)).sum()
            for tensor in (outputs_of_cell, *final)
        )
        gradients.append(torch.autograd.grad(total / 100, weights, retain_graph=True))
    for actual, expected in zip(*outputs, strict=True):
        close(actual, expected)
    for actual, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("bidirectional", [True, False])
def test_each_row_is_read_up_to_its_own_length(kind: str, bidirectional: bool) -> None:
    """The result equals that of the row alone, also backward; outputs behind it are zero."""
    built, x, lengths = layer(kind, bidirectional=bidirectional), words(), [4, 7, 1]
    outputs_of_cell, final = built(x, None, lengths)
    for row, length in enumerate(lengths):
        alone, state = built.cell(x[row : row + 1, :length])
        close(outputs_of_cell[row, :length], alone[0])
        assert not outputs_of_cell[row, length:].any()
        for actual, expected in zip(final, state if kind == "lstm" else (state,), strict=True):
            # PyTorch has the directions in front; ours stand side by side.
            close(actual[row], expected[:, 0].flatten())


@pytest.mark.parametrize("kind", CELLS)
def test_the_backward_direction_reads_the_reversed_sentence(kind: str) -> None:
    """The second half of the outputs: the reversed sentence, with the backward weights."""
    built, x, lengths = layer(kind, bidirectional=True), words(), [4, 7, 1]
    outputs_of_cell, final = built(x, None, lengths)
    half = WIDTH // 2
    backwards = type(built.cell)(INPUTS, half, batch_first=True).double()
    own = dict(built.cell.named_parameters())
    backwards.load_state_dict({name: own[f"{name}_reverse"] for name in backwards.state_dict()})
    count = 2 if kind == "lstm" else 1
    for row, length in enumerate(lengths):
        begin = tuple(torch.zeros(1, half, dtype=torch.float64) for _ in range(count))
        plain, state = reference_cell(backwards, x[row : row + 1, :length].flip(1), begin)
        close(outputs_of_cell[row, :length, half:], plain[0].flip(0))
        for actual, expected in zip(final, state, strict=True):
            close(actual[row, half:], expected[0])


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_state_survives_the_conversion_to_torch(kind: str, bidirectional: bool) -> None:
    built, x = layer(kind, bidirectional=bidirectional), words()
    _, final = built(x)
    given = built._to_torch(final)
    for actual, expected in zip(
        given if isinstance(given, tuple) else (given,),
        built.cell(x)[1] if kind == "lstm" else (built.cell(x)[1],),
        strict=True,
    ):
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
def test_the_gated_convolution_equals_that_of_pytorch(kernel: int) -> None:
    settings = small_recipe(convolutional={"kernel_size": kernel}, width=WIDTH, heads=1).model
    ours = GatedConvolution(settings).double()
    initialize(ours, 1)
    theirs = nn.Sequential(nn.Conv1d(WIDTH, 2 * WIDTH, kernel), nn.GLU(dim=1)).double()
    theirs[0].load_state_dict(ours.state_dict())
    x = torch.randn(ROWS, POSITIONS, WIDTH, dtype=torch.float64, requires_grad=True)
    actual, expected = ours(x), theirs(x.mT).mT
    assert actual.shape == (ROWS, POSITIONS - kernel + 1, WIDTH)
    close(actual, expected)
    for left, right in zip(
        torch.autograd.grad(actual.square().sum(), [x, *ours.parameters()]),
        torch.autograd.grad(expected.square().sum(), [x, *theirs.parameters()]),
        strict=True,
    ):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kernel", [1, 3])
def test_the_gated_convolution_is_a_linear_map_of_each_window(kernel: int) -> None:
    """GLU(W [x(t); …; x(t + k − 1)] + b): written with loops."""
    ours = GatedConvolution(
        small_recipe(convolutional={"kernel_size": kernel}, width=4).model
    ).double()
    initialize(ours, 1)
    with torch.no_grad():
        ours.bias.normal_()
    x = torch.randn(1, POSITIONS, 4, dtype=torch.float64)
    for position, actual in enumerate(ours(x)[0]):
        outputs_of_cell = ours.bias.clone()
        for offset in range(kernel):
            outputs_of_cell = outputs_of_cell + F.linear(
                x[0, position + offset], ours.weight[:, :, offset]
            )
        value, gate = outputs_of_cell.chunk(2)
        close(actual, value * gate.sigmoid())
