"""C11: do residual connections keep gradients from growing or shrinking with depth?

    with:     xₗ₊₁ = xₗ + f(xₗ)       ∂xₗ₊₁/∂xₗ = I + f′
    without:  xₗ₊₁ = f(xₗ)            ∂xₗ₊₁/∂xₗ = f′              (seeds 000, 003)

The product of many Jacobians decides how much of the gradient at the top is left at the bottom.
"""

from __future__ import annotations

from statistics import median

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.chance import seeds
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import BLUE, GREEN, GREY, ORANGE, PURPLE, tidy
from dragoman.lab.teaching import without_norms
from dragoman.model.blueprint import draw_blueprint
from dragoman.model.initialisation import initialise
from dragoman.model.layer import EncoderLayer, FeedForwardSublayer
from dragoman.model.mask import padding_mask
from dragoman.model.parts import Position
from dragoman.recipe import ModelRecipe
from dragoman.shapes import Bool, Float, Tensor

_WIDTH = 64
_MODEL = {"width": _WIDTH, "head_count": 4, "feed_forward_width": 256, "dropout": 0.0}
_SENTENCES, _LENGTH = 4, 10
_STEADY = 10.0
"""A gradient that changed by less than this factor, either way, is steady."""

_STACKS = {
    "residual": ("x + f(x)", BLUE),
    "residual_post": ("norm(x + f(x)), the lectures'", GREEN),
    "residual_pre": ("x + f(norm(x))", PURPLE),
    "plain": ("f(x)", ORANGE),
    "plain_norm": ("norm(f(x))", GREY),
}


class Chain(nn.Module):
    """Encoder layers above each other; without residuals, a sublayer's answer is all there is."""

    def __init__(self, kind: str, depth: int) -> None:
        super().__init__()
        norm = "pre" if kind == "residual_pre" else "post"
        blueprint = draw_blueprint(ModelRecipe.model_validate(_MODEL | {"norm": norm}))
        self.layers = nn.ModuleList(EncoderLayer(blueprint) for _ in range(depth))
        self.position = Position(blueprint.head_size)
        self.is_residual = kind.startswith("residual")
        if kind in ("residual", "plain"):
            without_norms(self)

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
        """The same sublayers and norms, and nothing added."""
        thought = layer.feed_forward
        assert isinstance(thought, FeedForwardSublayer)
        change, _ = layer.self_attention(x, mask, self.position)
        x = layer.self_residual.norm(change)
        normed: Tensor = thought.residual.norm(thought.network(x))
        return normed


class Residual(Experiment):
    """Gradients through stacks of growing depth."""

    title = "What residual connections do to gradients"
    claim = "Residual connections prevent gradients from getting too large or too small."
    lectures = ("000", "003")
    method = (
        "Stacks of real encoder layers with their first weights read noise, and a gradient of "
        "random direction comes in at the top. How long is it at the bottom, beside what it was "
        "at the top? With residual connections: bare, with the norm after the sum (the lectures), "
        "and before the sublayer (today); without: the same sublayers in a plain chain, with "
        "norms or bare. The median over several draws of weights is taken. On top we also ask how "
        "different the places still are: attention that nothing is added to makes them all alike."
    )
    criterion = (
        "A stack is steady if at the greatest depth its gradient is within a factor of "
        f"{_STEADY:g} of what came in. Holds if the lectures' block, norm(x + f(x)), is steady, "
        "and taking its residuals away leaves no steady stack, neither with norms nor bare. In "
        "part if residuals make one unsteady stack steady: f(x) as x + f(x), or norm(f(x)) as "
        "norm(x + f(x)). Else it is not residuals that decide."
    )
    is_certain = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Send gradients down."""
        depths = [1, 2, 4, 8, 16] if size == "quick" else [1, 2, 4, 8, 16, 32]
        draws = seeds(seed, 3 if size == "quick" else 15)
        numbers: Numbers = {"depths": depths, "gradient": {}, "apart": {}}
        for kind in _STACKS:
            seen = [[pass_through(kind, depth, each) for each in draws] for depth in depths]
            numbers["gradient"][kind] = [median(ratio for ratio, _ in each) for each in seen]
            numbers["apart"][kind] = [median(apart for _, apart in each) for each in seen]
        return numbers

    def judge(self, numbers: Numbers) -> Judgement:
        """Look at the greatest depth."""
        last = {kind: numbers["gradient"][kind][-1] for kind in _STACKS}
        is_steady = {kind: 1 / _STEADY < last[kind] < _STEADY for kind in _STACKS}
        told = ", ".join(f"{last[kind]:.2g} for {label}" for kind, (label, _) in _STACKS.items())
        because = (
            f"Through {numbers['depths'][-1]} layers, the gradient at the bottom is this many "
            f"times that at the top: {told}. What tells places apart, as a share of all "
            f"squares: after {numbers['depths'][2]} layers "
            f"{numbers['apart']['plain_norm'][2]:.0%} in the chain with norms alone and "
            f"{numbers['apart']['residual_post'][2]:.0%} with residuals, after "
            f"{numbers['depths'][-1]} layers {numbers['apart']['plain_norm'][-1]:.0%} and "
            f"{numbers['apart']['residual_post'][-1]:.0%}, or "
            f"{numbers['apart']['residual_pre'][-1]:.0%} with the norm before."
        )
        if is_steady["residual_post"] and not is_steady["plain"] and not is_steady["plain_norm"]:
            return Judgement("holds", because)
        pairs = (("plain", "residual"), ("plain_norm", "residual_post"))
        helps = any(is_steady[kept] and not is_steady[bare] for bare, kept in pairs)
        return Judgement("holds in part" if helps else "does not hold here", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """One line for each stack: its gradient, and what is left of its places."""
        left, right = figure.subplots(1, 2, width_ratios=(1.3, 1))
        left.axhspan(1 / _STEADY, _STEADY, color=GREY, alpha=0.15, linewidth=0)
        left.text(1, _STEADY * 1.3, "steady", color=GREY)
        for axes, what in ((left, "gradient"), (right, "apart")):
            for kind, (label, colour) in _STACKS.items():
                style = "o-" if kind.startswith("residual") else "s--"
                axes.plot(numbers["depths"], numbers[what][kind], style, color=colour, label=label)
            axes.set_xscale("log", base=2)
            axes.set_xticks(numbers["depths"], [str(each) for each in numbers["depths"]])
        left.set_yscale("log")
        right.set_ylim(-0.03, 1.03)
        right.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        handles = left.get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
        tidy(left, "What is left of a gradient at the bottom", "layers", "bottom ÷ top")
        tidy(right, "… and of what tells places apart", "layers", "differences left")


def pass_through(kind: str, depth: int, seed: int) -> tuple[float, float]:
    """How long a gradient is below the stack, beside what it was above; and, on top, how large a
    share of the squares of states is theirs alone, and not shared by all places of a sentence.
    """
    chain = Chain(kind, depth)
    initialise(chain, seed)
    chain.double()  # Sums without norms grow beyond what single precision can hold.
    generator = torch.Generator().manual_seed(seed)
    shape = (_SENTENCES, _LENGTH, _WIDTH)
    x = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    top = torch.randn(shape, generator=generator, dtype=torch.float64)
    read = chain(x, padding_mask(torch.ones(shape[:2], dtype=torch.bool)))
    (bottom,) = torch.autograd.grad(read, x, top)
    own = read - read.mean(dim=1, keepdim=True)
    apart = own.square().sum() / read.square().sum()
    return (bottom.norm() / top.norm()).item(), apart.item()
