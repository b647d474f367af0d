"""C11: residual connections keep gradients from growing or shrinking with depth.

    with:     xₗ₊₁ = xₗ + f(xₗ)       ∂xₗ₊₁/∂xₗ = I + f′
    without:  xₗ₊₁ = f(xₗ)            ∂xₗ₊₁/∂xₗ = f′              [NLU] [APPLY-DL]

The product of these Jacobians determines how much of the top gradient arrives at the bottom.
"""

from __future__ import annotations

from statistics import median

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, GRAY, GREEN, ORANGE, PURPLE, label_axes, percent_axis
from dragoman.lab.training import remove_norms
from dragoman.lab.uncertainty import derive_seeds
from dragoman.model.initialization import initialize
from dragoman.model.layer import EncoderLayer, FeedForwardSublayer
from dragoman.model.mask import padding_mask
from dragoman.model.parts import Position
from dragoman.model.resolve import resolve_parts
from dragoman.recipe.schema import ModelRecipe
from dragoman.shapes import Bool, Float, Tensor

_WIDTH = 64
_MODEL = {"width": _WIDTH, "heads": 4, "feed_forward_width": 256, "dropout": 0.0}
_SENTENCES, _LENGTH = 4, 10
_STABLE = 10.0
"""A gradient that changes by less than this factor, up or down, is stable."""

_STACKS = {
    "residual": ("x + f(x)", BLUE),
    "residual_post": ("norm(x + f(x)), the lectures'", GREEN),
    "residual_pre": ("x + f(norm(x))", PURPLE),
    "plain": ("f(x)", ORANGE),
    "plain_norm": ("norm(f(x))", GRAY),
}


class EncoderStack(nn.Module):
    """Stacked encoder layers; without residuals, the next input is the sublayer's output only."""

    def __init__(self, kind: str, depth: int) -> None:
        super().__init__()
        norm = "pre" if kind == "residual_pre" else "post"
        resolved = resolve_parts(ModelRecipe.model_validate(_MODEL | {"norm": norm}))
        self.layers = nn.ModuleList(EncoderLayer(resolved) for _ in range(depth))
        self.position = Position(resolved.head_size)
        self.is_residual = kind.startswith("residual")
        if kind in ("residual", "plain"):
            remove_norms(self)

    def forward(
        self, x: Float[Tensor, "B S M"], mask: Bool[Tensor, "B 1 1 S"]
    ) -> Float[Tensor, "B S M"]:
        """Pass through all layers."""
        for layer in self.layers:
            assert isinstance(layer, EncoderLayer)
            x = layer(x, mask, self.position) if self.is_residual else self._plain(layer, x, mask)
        return x

    def _plain(
        self, layer: EncoderLayer, x: Float[Tensor, "B S M"], mask: Bool[Tensor, "B 1 1 S"]
    ) -> Float[Tensor, "B S M"]:
        """The same sublayers and norms without the residual sum."""
        feed_forward = layer.feed_forward
        assert isinstance(feed_forward, FeedForwardSublayer)
        attended, _ = layer.self_attention(x, mask, self.position)
        x = layer.self_residual.norm(attended)
        normed: Tensor = feed_forward.residual.norm(feed_forward.network(x))
        return normed


class Residual(Experiment):
    """Gradients through stacks of growing depth."""

    title = "What residual connections do to gradients"
    lectures = ("NLU", "APPLY-DL")
    durations = (5, 81)
    claim = "Residual connections prevent gradients from getting too large or too small."
    method = (
        "Stacks of real, untrained encoder layers read noise, and a random gradient enters at the "
        "top. The ratio of the gradient norm at the bottom to the norm at the top is measured. "
        "With residual connections: without norms, with the norm after the sum (the lectures), and "
        "with the norm before the sublayer (today's practice). Without residual connections: the "
        "same sublayers in a plain chain, with and without norms. The median over several "
        "initializations is taken. At the top, the experiment also measures how different the "
        "positions still are: attention without a residual sum makes them all alike."
    )
    criterion = (
        "A stack is stable if at the greatest depth its gradient is within a factor of "
        f"{_STABLE:g} of the incoming one. Supported if the lectures' block, norm(x + f(x)), is "
        "stable, and both chains without residuals, f(x) and norm(f(x)), are not. Partly supported "
        "if x + f(x) is stable and f(x) is not, or if norm(x + f(x)) is stable and norm(f(x)) is "
        "not. Not supported otherwise: residuals do not decide whether the gradient is stable."
    )
    is_seed_independent = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Send gradients through the stacks."""
        depths = [1, 2, 4, 8, 16] if size == "quick" else [1, 2, 4, 8, 16, 32]
        seeds = derive_seeds(seed, 3 if size == "quick" else 15)
        numbers: Numbers = {"depths": depths, "gradient": {}, "differences": {}}
        for kind in _STACKS:
            results = [
                [measure_stack(kind, depth, stack_seed) for stack_seed in seeds] for depth in depths
            ]
            numbers["gradient"][kind] = [median(ratio for ratio, _ in rows) for rows in results]
            numbers["differences"][kind] = [median(share for _, share in rows) for rows in results]
        return numbers

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare the stacks at the greatest depth."""
        ratios = {kind: numbers["gradient"][kind][-1] for kind in _STACKS}
        is_stable = {kind: 1 / _STABLE < ratios[kind] < _STABLE for kind in _STACKS}
        listed = ", ".join(
            f"{ratios[kind]:.2g} for {label}" for kind, (label, _) in _STACKS.items()
        )
        differences, depths = numbers["differences"], numbers["depths"]
        explanation = (
            f"Through {depths[-1]} layers, the ratio of the gradient at the bottom to that at the "
            f"top is {listed}. How different the positions still are (share of the squared "
            f"states): after {depths[2]} layers, {differences['plain_norm'][2]:.0%} for norm(f(x)) "
            f"and {differences['residual_post'][2]:.0%} for norm(x + f(x)); after {depths[-1]} "
            f"layers, {differences['plain_norm'][-1]:.0%} and "
            f"{differences['residual_post'][-1]:.0%}, and "
            f"{differences['residual_pre'][-1]:.0%} for x + f(norm(x))."
        )
        pairs = (("plain", "residual"), ("plain_norm", "residual_post"))
        verdict = grade(
            is_supported=is_stable["residual_post"]
            and not is_stable["plain"]
            and not is_stable["plain_norm"],
            is_partly_supported=any(
                is_stable[residual] and not is_stable[plain] for plain, residual in pairs
            ),
        )
        return Judgment(verdict, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """One line per stack: its gradient, and the differences between positions."""
        left, right = figure.subplots(1, 2, width_ratios=(1.3, 1))
        left.axhspan(1 / _STABLE, _STABLE, color=GRAY, alpha=0.15, linewidth=0)
        left.text(1, _STABLE * 1.3, "stable", color=GRAY)
        for axes, name in ((left, "gradient"), (right, "differences")):
            for kind, (label, color) in _STACKS.items():
                style = "o-" if kind.startswith("residual") else "s--"
                axes.plot(numbers["depths"], numbers[name][kind], style, color=color, label=label)
            axes.set_xscale("log", base=2)
            axes.set_xticks(numbers["depths"], [str(depth) for depth in numbers["depths"]])
        left.set_yscale("log")
        right.set_ylim(-0.03, 1.03)
        percent_axis(right)
        handles = left.get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
        label_axes(left, "Gradient norm", "layers", "bottom ÷ top")
        label_axes(right, "Differences between positions", "layers", "share of squared states")


def measure_stack(kind: str, depth: int, seed: int) -> tuple[float, float]:
    """The gradient ratio of a stack, and the difference between positions at its top.

    The ratio is the gradient norm at the bottom divided by that at the top. The difference is the
    share of the squared states that is not common to all positions of a sentence.
    """
    stack = EncoderStack(kind, depth)
    initialize(stack, seed)
    stack.double()  # Sums without norms grow beyond single precision.
    generator = torch.Generator().manual_seed(seed)
    shape = (_SENTENCES, _LENGTH, _WIDTH)
    x = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    top = torch.randn(shape, generator=generator, dtype=torch.float64)
    states = stack(x, padding_mask(torch.ones(shape[:2], dtype=torch.bool)))
    (bottom,) = torch.autograd.grad(states, x, top)
    deviations = states - states.mean(dim=1, keepdim=True)
    share = deviations.square().sum() / states.square().sum()
    return (bottom.norm() / top.norm()).item(), share.item()
