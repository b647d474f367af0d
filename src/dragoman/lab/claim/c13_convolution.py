"""C13: is the feed-forward layer a 1 × 1 convolution?

W₂ σ(W₁ xₜ + b₁) + b₂  at every place t   =   conv₁(σ(conv₁(x)))          (seed 003)
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import tidy
from dragoman.model.feed_forward import FeedForward
from dragoman.model.initialisation import initialise
from dragoman.recipe import ModelRecipe
from dragoman.shapes import Float, Tensor

_KINDS = ("relu", "gelu", "swish", "swiglu")
_ROUNDING = 1e-9
"""In 64 bits, sums in another order differ in the last of sixteen digits, never in the tenth."""


class Convolution(Experiment):
    """The same weights, once as a feed-forward layer and once as convolutions."""

    title = "The feed-forward layer is a 1 × 1 convolution"
    claim = (
        "The feed-forward layer treats every word by itself with the same weights and looks "
        "neither to the left nor to the right: it is a convolution whose kernel is one place wide."
    )
    lectures = ("003",)
    method = (
        "The weights of a feed-forward layer are copied into `torch.nn.Conv1d` with kernels of one "
        "place, for each nonlinearity. Both get the same random sequences, in 64 bits: how far "
        "apart are their outputs, and the gradients of their weights, relative to their size? And "
        "how much does each output place feel of each input place (the length of the Jacobian's "
        "blocks), beside a convolution of three places?"
    )
    criterion = (
        f"Holds if outputs and gradients agree to {_ROUNDING:.0e} for every nonlinearity and no "
        "place feels another at all. In part if they agree for some nonlinearities only."
    )
    is_certain = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Copy, run, compare."""
        count, length, width = (8, 12, 16) if size == "quick" else (64, 50, 512)
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(count, length, width, generator=generator, dtype=torch.float64)
        outputs, gradients = {}, {}
        for kind in _KINDS:
            layer = _layer(kind, width, seed)
            twin = _Twin(layer)
            said, copied = layer(x), twin(x)
            outputs[kind] = _difference(said, copied)
            for each in (said, copied):
                each.square().sum().backward()
            gradients[kind] = max(
                _difference(_gradient(linear), _gradient(convolution).squeeze(-1))
                for linear, convolution in twin.pairs
            )
        few, places = _layer("relu", 16, seed), 12
        torch.manual_seed(seed)
        wide = nn.Conv1d(16, 16, 3, padding=1, dtype=torch.float64)
        return {
            "outputs": outputs,
            "gradients": gradients,
            "felt": _felt(few, places, seed),
            "felt_by_three": _felt(lambda x: wide(x.mT).mT, places, seed),
        }

    def judge(self, numbers: Numbers) -> Judgement:
        """Equal to rounding, and blind to neighbours."""
        outputs, gradients = numbers["outputs"], numbers["gradients"]
        equal = [kind for kind in outputs if max(outputs[kind], gradients[kind]) < _ROUNDING]
        felt = torch.tensor(numbers["felt"])
        beside = (felt - felt.diag().diag()).max().item()
        worst = max(*outputs.values(), *gradients.values())
        because = (
            f"Outputs and gradients differ by {worst:.0e} of their size at most; they are equal to "
            f"rounding for {len(equal)} of {len(outputs)} nonlinearities. The most that a place "
            f"feels of another is {beside:g}."
        )
        if not equal or beside > 0:
            return Judgement("does not hold here", because)
        is_every = len(equal) == len(outputs)
        return Judgement("holds" if is_every else "holds in part", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Who feels whom."""
        panels = (
            ("felt", "Feed-forward = kernel of one place:\neach place feels itself"),
            ("felt_by_three", "A kernel of three places:\neach feels its neighbours"),
        )
        for axes, (key, title) in zip(figure.subplots(1, 2), panels, strict=True):
            felt = torch.tensor(numbers[key])
            axes.imshow((felt / felt.max()).numpy(), cmap="Blues", vmin=0, vmax=1)
            tidy(axes, title, "input place", "output place")
            axes.grid(visible=False)


class _Twin(nn.Module):
    """A feed-forward layer's weights, as convolutions with kernels of one place."""

    def __init__(self, layer: FeedForward) -> None:
        super().__init__()
        self.nonlinearity = layer.nonlinearity
        self.expand = _convolution(layer.expand)
        self.gate = None if layer.gate is None else _convolution(layer.gate)
        self.contract = _convolution(layer.contract)
        self.pairs = [(layer.expand, self.expand), (layer.contract, self.contract)]
        if layer.gate is not None and self.gate is not None:
            self.pairs.append((layer.gate, self.gate))

    def forward(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Convolve along the places, which stand last for a convolution."""
        inner = self.nonlinearity(self.expand(x.mT))
        if self.gate is not None:
            inner = inner * self.gate(x.mT)
        contracted: Tensor = self.contract(inner)
        return contracted.mT


def _convolution(linear: nn.Linear) -> nn.Conv1d:
    convolution = nn.Conv1d(linear.in_features, linear.out_features, 1, dtype=linear.weight.dtype)
    assert convolution.bias is not None
    with torch.no_grad():
        convolution.weight.copy_(linear.weight.unsqueeze(-1))
        convolution.bias.copy_(linear.bias)
    return convolution


def _layer(kind: str, width: int, seed: int) -> FeedForward:
    settings = {"width": width, "feed_forward_width": 4 * width, "feed_forward": kind}
    layer = FeedForward(ModelRecipe.model_validate(settings)).double()
    initialise(layer, seed)
    with torch.no_grad():  # Biases start at zero, and would agree by being left out.
        for linear in (layer.expand, layer.contract):
            linear.bias.copy_(linear.weight.mean(dim=1))
    return layer


def _felt(
    function: Callable[[Float[Tensor, "B T M"]], Float[Tensor, "B T M"]], places: int, seed: int
) -> list[list[float]]:
    """How much each output place feels of each input place."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1, places, 16, generator=generator, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(function, x)  # type: ignore[no-untyped-call]
    felt: list[list[float]] = jacobian[0, :, :, 0].norm(dim=(1, 3)).tolist()
    return felt


def _gradient(module: nn.Module) -> Tensor:
    gradient = module.get_parameter("weight").grad
    assert gradient is not None
    return gradient


def _difference(one: Tensor, two: Tensor) -> float:
    """The largest difference beside the largest value."""
    return ((one - two).abs().max() / one.abs().max()).item()
