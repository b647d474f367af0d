"""C13: the feed-forward layer is a 1 × 1 convolution.

W₂ σ(W₁ xₜ + b₁) + b₂  at every position t   =   conv₁(σ(conv₁(x)))          [APPLY-DL]
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size
from dragoman.lab.style import label_axes
from dragoman.model.feed_forward import FeedForward
from dragoman.model.initialization import initialize
from dragoman.recipe.schema import ModelRecipe
from dragoman.shapes import Float, Tensor

_KINDS = ("relu", "gelu", "swish", "swiglu")
_ROUNDING = 1e-9
"""In 64 bits, another order of summation changes the 16th digit, never the 10th."""


class FeedForwardConvolution(Experiment):
    """The same weights as a feed-forward layer and as convolutions."""

    title = "The feed-forward layer is a 1 × 1 convolution"
    sources = (
        (
            "APPLY-DL",
            "feed-forward network",
            "It processes one word after the other like a one-by-one convolution: with the same "
            "weights everywhere, and without regard to the words to the left and right.",
        ),
        (
            "NLU",
            "Transformer",
            "One network, the same for all vectors, changes each vector without the others.",
        ),
    )
    durations = (1, 52)
    claim = (
        "The feed-forward layer processes every word separately with the same weights and ignores "
        "the words to its left and right: it is a convolution with a kernel of one position."
    )
    method = (
        "The weights of a feed-forward layer are copied into `torch.nn.Conv1d` with kernels of one "
        "position, for each activation function. Both get the same random sequences in 64 bits. "
        "Measured are the relative differences of their outputs and of the gradients of their "
        "weights, and how strongly each output position depends on each input position (the norm "
        "of the Jacobian's blocks); a convolution with a kernel of three positions is shown for "
        "comparison."
    )
    criterion = (
        f"Supported if outputs and gradients agree to {_ROUNDING:.0e} for every activation "
        "function and no position depends on another; partly supported if they agree for some "
        "activation functions only."
    )
    is_seed_independent = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Copy the weights, run both, compare."""
        count, length, width = (8, 12, 16) if size == "quick" else (64, 50, 512)
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(count, length, width, generator=generator, dtype=torch.float64)
        outputs, gradients = {}, {}
        for kind in _KINDS:
            layer = _build_layer(kind, width, seed)
            convolutions = _FeedForwardAsConvolutions(layer)
            linear_output, convolution_output = layer(x), convolutions(x)
            outputs[kind] = _relative_error(linear_output, convolution_output)
            for output in (linear_output, convolution_output):
                output.square().sum().backward()
            gradients[kind] = max(
                _relative_error(_gradient(linear), _gradient(convolution).squeeze(-1))
                for linear, convolution in convolutions.pairs
            )
        small, length = _build_layer("relu", 16, seed), 12
        torch.manual_seed(seed)
        wide = nn.Conv1d(16, 16, 3, padding=1, dtype=torch.float64)
        return {
            "outputs": outputs,
            "gradients": gradients,
            "dependence": _dependence(small, length, seed),
            "dependence_kernel_3": _dependence(lambda x: wide(x.mT).mT, length, seed),
        }

    def judge(self, numbers: Numbers) -> Judgment:
        """Equal up to rounding, and independent of neighbors."""
        outputs, gradients = numbers["outputs"], numbers["gradients"]
        equal = [kind for kind in outputs if max(outputs[kind], gradients[kind]) < _ROUNDING]
        dependence = torch.tensor(numbers["dependence"])
        on_others = (dependence - dependence.diag().diag()).max().item()
        worst = max(*outputs.values(), *gradients.values())
        explanation = (
            f"Outputs and gradients differ by at most {worst:.0e} of their size; they agree up to "
            f"rounding for {len(equal)} of {len(outputs)} activation functions. The largest "
            f"dependence of a position on another is {on_others:g}."
        )
        if on_others > 0:
            summary = "The feed-forward layer lets one word influence the result of another."
            return Judgment("not supported", summary, explanation)
        if not equal:
            summary = "The feed-forward layer computes something else than such a convolution."
            return Judgment("not supported", summary, explanation)
        if len(equal) < len(outputs):
            summary = (
                "For some activation functions, but not for all, the feed-forward layer computes "
                "the same as a convolution that sees one word at a time."
            )
            return Judgment("partly supported", summary, explanation)
        summary = (
            "The feed-forward layer computes the same as a convolution that sees one word at a "
            "time: the neighbors of a word have no influence."
        )
        return Judgment("supported", summary, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Dependence of output positions on input positions."""
        panels = (
            ("dependence", "Feed-forward (kernel of one position):\neach depends on itself"),
            ("dependence_kernel_3", "Kernel of three positions:\neach depends on its neighbors"),
        )
        for axes, (key, title) in zip(figure.subplots(1, 2), panels, strict=True):
            dependence = torch.tensor(numbers[key])
            axes.imshow((dependence / dependence.max()).numpy(), cmap="Blues", vmin=0, vmax=1)
            label_axes(axes, title, "input position", "output position")
            axes.grid(visible=False)


class _FeedForwardAsConvolutions(nn.Module):
    """The weights of a feed-forward layer as convolutions with kernels of one position."""

    def __init__(self, layer: FeedForward) -> None:
        super().__init__()
        self.nonlinearity = layer.nonlinearity
        self.expand = _to_convolution(layer.expand)
        self.gate = None if layer.gate is None else _to_convolution(layer.gate)
        self.contract = _to_convolution(layer.contract)
        self.pairs = [(layer.expand, self.expand), (layer.contract, self.contract)]
        if layer.gate is not None and self.gate is not None:
            self.pairs.append((layer.gate, self.gate))

    def forward(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Convolve along the positions, the last dimension of a convolution."""
        inner = self.nonlinearity(self.expand(x.mT))
        if self.gate is not None:
            inner = inner * self.gate(x.mT)
        contracted: Tensor = self.contract(inner)
        return contracted.mT


def _to_convolution(linear: nn.Linear) -> nn.Conv1d:
    convolution = nn.Conv1d(linear.in_features, linear.out_features, 1, dtype=linear.weight.dtype)
    assert convolution.bias is not None
    with torch.no_grad():
        convolution.weight.copy_(linear.weight.unsqueeze(-1))
        convolution.bias.copy_(linear.bias)
    return convolution


def _build_layer(kind: str, width: int, seed: int) -> FeedForward:
    settings = {"width": width, "feed_forward_width": 4 * width, "feed_forward": kind}
    layer = FeedForward(ModelRecipe.model_validate(settings)).double()
    initialize(layer, seed)
    with torch.no_grad():  # Biases start at zero; with zeros, a missing bias would not be noticed.
        for linear in (layer.expand, layer.contract):
            linear.bias.copy_(linear.weight.mean(dim=1))
    return layer


def _dependence(
    function: Callable[[Float[Tensor, "B T M"]], Float[Tensor, "B T M"]], length: int, seed: int
) -> list[list[float]]:
    """How strongly each output position depends on each input position."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1, length, 16, generator=generator, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(function, x)  # type: ignore[no-untyped-call]
    norms: list[list[float]] = jacobian[0, :, :, 0].norm(dim=(1, 3)).tolist()
    return norms


def _gradient(module: nn.Module) -> Tensor:
    gradient = module.get_parameter("weight").grad
    assert gradient is not None
    return gradient


def _relative_error(one: Tensor, two: Tensor) -> float:
    """The largest difference divided by the largest value."""
    return ((one - two).abs().max() / one.abs().max()).item()
