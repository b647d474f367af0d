"""C30: the heads of attention are like the groups of a convolution.

Σₛ wₕ[t, s] vₕ[s]  with weights  wₕ[t, s] = kₕ[s − t]  is a convolution with H groups   [APPLY-DL]
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import label_axes
from dragoman.model.attention import SelfAttention
from dragoman.model.initialization import initialize
from dragoman.model.parts import Position
from dragoman.model.resolve import resolve_parts
from dragoman.recipe.schema import ModelRecipe
from dragoman.shapes import Float, Tensor

_KINDS = ("narrow", "standard")
_HEADS, _KERNEL = 4, 3
_ROUNDING = 1e-9
"""In 64 bits, another order of summation changes the 16th digit, never the 10th."""


class GroupConvolution(Experiment):
    """The same sums by attention heads and by a convolution with groups; and what reads what."""

    title = "Heads are like the groups of a convolution"
    sources = (
        (
            "APPLY-DL",
            "multi-head attention",
            "Multi-head attention is very similar to group convolutions: the same operation is "
            "done several times, and the results are concatenated.",
        ),
    )
    durations = (1, 2)
    claim = (
        "As a convolution with groups splits its channels into parts that are processed "
        "separately and concatenated, multi-head attention splits the vectors between heads."
    )
    method = (
        f"Self-attention with {_HEADS} heads gets fixed weights that depend only on the distance "
        f"between two positions and are zero beyond distance {_KERNEL // 2}. Its sums are compared "
        f"with `conv1d` with {_HEADS} groups, in 64 bits; inside a group, each channel keeps its "
        "own values (a general convolution also mixes the channels of a group, which here is the "
        "work of the matrix of the values). Then, with the weights that attention computes itself, "
        "the Jacobian shows which part of the values each head reads, and which part of the "
        "input, for standard heads (every head projects the whole input) and for narrow heads "
        "(every head gets its part). "
        "Measured is also how much the weights change from one input to another: those of a "
        "convolution do not."
    )
    criterion = (
        f"Supported if the sums agree to {_ROUNDING:.0e}, no head reads the values of another, and "
        "no head reads another part of the input; partly supported if the sums agree and no head "
        "reads the values of another. How much the weights change is not judged."
    )
    is_seed_independent = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Compare the sums, then what each head reads."""
        width, length = (16, 8) if size == "quick" else (64, 24)
        numbers: Numbers = {"error": 0.0}
        for kind in _KINDS:
            attention = _build(kind, width, seed)
            x = _random((2, length, width), seed)
            numbers["error"] = max(numbers["error"], _convolution_error(attention, x, seed))
            numbers[kind] = {
                "values": _reads_values(attention, x),
                "input": _reads_input(attention, x),
                "change": _weight_change(attention, x),
            }
        return numbers

    def judge(self, numbers: Numbers) -> Judgment:
        """Equal sums, and separate parts."""
        is_equal = numbers["error"] < _ROUNDING
        foreign = {
            part: max(_off_diagonal(numbers[kind][part]) for kind in _KINDS)
            for part in ("values", "input")
        }
        narrow = _off_diagonal(numbers["narrow"]["input"])
        change = max(numbers[kind]["change"] for kind in _KINDS)
        is_separate = foreign["values"] == 0
        explanation = (
            f"With fixed weights {_describe_error(numbers)}. The "
            f"largest dependence of a head on the values of another is {foreign['values']:g}, on "
            f"another part of the input {foreign['input']:.2g} for standard heads and {narrow:g} "
            f"for narrow ones. From one input to another, {change:.0%} of the weight moves to "
            "other words."
        )
        verdict = grade(
            is_supported=is_equal and is_separate and foreign["input"] == 0,
            is_partly_supported=is_equal and is_separate,
        )
        if verdict == "supported":
            summary = "Multi-head attention computes the same as a convolution with groups."
        elif verdict == "partly supported":
            summary = (
                "Heads sum up separate parts like the groups of a convolution, but they choose "
                "their weights again for each sentence, and standard heads read the whole input."
            )
        else:
            summary = "Heads do not work like the groups of a convolution."
        return Judgment(verdict, summary, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """What each head reads."""
        panels = (
            ("Values", "group of the values", numbers["standard"]["values"]),
            ("Input, narrow heads", "group of the input", numbers["narrow"]["input"]),
            ("Input, standard heads", "group of the input", numbers["standard"]["input"]),
        )
        change = max(numbers[kind]["change"] for kind in _KINDS)
        figure.suptitle(
            f"With fixed weights, {_describe_error(numbers)}.\n"
            f"From one input to another, {change:.0%} of the weight moves.",
            fontsize=9,
        )
        for axes, (title, x_label, matrix) in zip(figure.subplots(1, 3), panels, strict=True):
            axes.imshow(matrix, cmap="Blues", vmin=0)
            axes.set_xticks(range(_HEADS), [str(1 + head) for head in range(_HEADS)])
            axes.set_yticks(range(_HEADS), [str(1 + head) for head in range(_HEADS)])
            label_axes(axes, title, x_label, "head that reads it")
            axes.grid(visible=False)


def _describe_error(numbers: Numbers) -> str:
    if numbers["error"] == 0:
        return "the sums are equal to the last bit"
    return f"the sums differ by {numbers['error']:.1g} of their size"


def _build(kind: str, width: int, seed: int) -> SelfAttention:
    settings = ModelRecipe.model_validate({"width": width, "heads": _HEADS, "head_kind": kind})
    attention = SelfAttention(resolve_parts(settings), "encoder")
    initialize(attention, seed)
    return attention.double()


def _random(shape: tuple[int, ...], seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _convolution_error(attention: SelfAttention, x: Float[Tensor, "B T M"], seed: int) -> float:
    """The relative difference between the sums of the heads and those of a convolution."""
    _, _, values = attention.heads.project(x)
    _, heads, length, size = values.shape
    kernels = _random((heads, _KERNEL), seed).softmax(dim=-1)
    weights = x.new_zeros(heads, length, length)
    for offset in range(_KERNEL):
        distance = offset - _KERNEL // 2
        ones = torch.ones(length - abs(distance), dtype=x.dtype)
        weights += kernels[:, offset, None, None] * torch.diag(ones, distance)
    by_heads = (weights @ values).transpose(1, 2).flatten(2)
    # Inside a group, each channel keeps its own values: the kernel times the identity matrix.
    kernel = kernels[:, None, None, :] * torch.eye(size, dtype=x.dtype)[None, :, :, None]
    channels = values.transpose(1, 2).flatten(2).mT
    by_convolution = F.conv1d(channels, kernel.flatten(0, 1), padding=_KERNEL // 2, groups=heads).mT
    error: float = ((by_heads - by_convolution).norm() / by_heads.norm()).item()
    return error


def _mix(
    attention: SelfAttention, x: Float[Tensor, "B T M"], values: Tensor | None = None
) -> Float[Tensor, "B H T D"]:
    """The output of each head before they are joined; the values may be given."""
    queries, keys, own_values = attention.heads.project(x)
    mask = torch.ones(1, 1, 1, x.shape[1], dtype=torch.bool)
    position = Position(queries.shape[-1])
    mixed: Tensor = attention.attention(
        queries, keys, own_values if values is None else values, mask, position, 0
    )
    return mixed


def _reads_values(attention: SelfAttention, x: Float[Tensor, "B T M"]) -> list[list[float]]:
    """For each head, how strongly its output depends on the values of each head."""
    values = attention.heads.project(x)[2].detach().requires_grad_()
    mixed = _mix(attention, x, values)
    rows = []
    for head in range(_HEADS):
        (gradient,) = torch.autograd.grad(mixed[:, head].square().sum(), values, retain_graph=True)
        rows.append(gradient.square().sum(dim=(0, 2, 3)).sqrt().tolist())
    return rows


def _reads_input(attention: SelfAttention, x: Float[Tensor, "B T M"]) -> list[list[float]]:
    """For each head, how strongly its output depends on each part of the input."""
    x = x.clone().requires_grad_()
    mixed = _mix(attention, x)
    rows = []
    for head in range(_HEADS):
        (gradient,) = torch.autograd.grad(mixed[:, head].square().sum(), x, retain_graph=True)
        parts = gradient.view(*gradient.shape[:-1], _HEADS, -1)
        rows.append(parts.square().sum(dim=(0, 1, 3)).sqrt().tolist())
    return rows


@torch.no_grad()
def _weight_change(attention: SelfAttention, x: Float[Tensor, "B T M"]) -> float:
    """The share of the weights that differ between the two inputs of the batch."""
    queries, keys, _ = attention.heads.project(x)
    scores = attention.attention.similarity(queries, keys)
    first, second = scores.softmax(dim=-1)
    moved: float = ((first - second).abs().sum(dim=-1) / 2).mean().item()
    return moved


def _off_diagonal(matrix: list[list[float]]) -> float:
    """The largest entry beside the diagonal."""
    return max(
        value
        for row, line in enumerate(matrix)
        for column, value in enumerate(line)
        if row != column
    )
