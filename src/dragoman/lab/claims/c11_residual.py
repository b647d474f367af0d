"""C11: residual connections keep gradients from growing or shrinking with depth.

    with:     xₗ₊₁ = xₗ + f(xₗ)       ∂xₗ₊₁/∂xₗ = I + f′
    without:  xₗ₊₁ = f(xₗ)            ∂xₗ₊₁/∂xₗ = f′              [NLU] [APPLY-DL]

The product of these Jacobians determines how much of the top gradient arrives at the bottom. A
gradient of the right size is not enough to learn, so each stack is trained too.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, median
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import (
    APART,
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    PURPLE,
    VERMILION,
    label_axes,
    percent_axis,
)
from dragoman.lab.task import ToyTask, shift_task
from dragoman.lab.training import (
    TrainingSetup,
    accuracies,
    accuracy_by_position,
    remove_norms,
    run_trial,
)
from dragoman.lab.uncertainty import derive_seeds
from dragoman.model.embedding import Embedding
from dragoman.model.initialization import initialize
from dragoman.model.layer import EncoderLayer, FeedForwardSublayer
from dragoman.model.mask import padding_mask
from dragoman.model.parts import Position
from dragoman.model.resolve import resolve_parts
from dragoman.recipe.schema import ModelRecipe
from dragoman.shapes import Bool, Float, Int, Tensor

_WIDTH = 64
_MODEL = {"width": _WIDTH, "heads": 4, "feed_forward_width": 256, "dropout": 0.0}
_TRAINED_WIDTH = 32
_TRAINED_MODEL = {"width": _TRAINED_WIDTH, "heads": 2, "feed_forward_width": 64, "dropout": 0.0}
_SENTENCES, _LENGTH = 4, 10
_LEARNING_RATES = (2e-3, 1e-2)
"""Each stack is judged at its best learning rate, at every depth."""
_STABLE = 10.0
"""A gradient that changes by less than this factor, up or down, is stable."""
_LEARNED = 0.9
"""The share of correct symbols from which a task counts as learned."""

_STACKS = {
    "residual": ("x + f(x)", BLUE, "o-"),
    "residual_post": ("norm(x + f(x)), the lectures'", GREEN, "^-"),
    "residual_pre": ("x + f(norm(x))", PURPLE, "D-"),
    "plain": ("f(x)", ORANGE, "s--"),
    "plain_norm": ("norm(f(x))", VERMILION, "v--"),
}


class EncoderStack(nn.Module):
    """Stacked encoder layers; without residuals, the next input is the sublayer's output only."""

    def __init__(self, kind: str, depth: int, settings: Mapping[str, Any]) -> None:
        super().__init__()
        norm = "pre" if kind == "residual_pre" else "post"
        resolved = resolve_parts(ModelRecipe.model_validate({**settings, "norm": norm}))
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


class StackModel(nn.Module):
    """A stack between an embedding with positions and an output: one symbol at each position."""

    def __init__(self, kind: str, depth: int, vocabulary: int) -> None:
        super().__init__()
        settings = {**_TRAINED_MODEL, "position": "sinusoidal"}
        self.embedding = Embedding(vocabulary, _TRAINED_WIDTH, _TRAINED_WIDTH**0.5)
        self.position = resolve_parts(ModelRecipe.model_validate(settings)).build_position(0)
        self.stack = EncoderStack(kind, depth, _TRAINED_MODEL)
        self.output = nn.Linear(_TRAINED_WIDTH, vocabulary)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        target: Int[Tensor, "B S"],
    ) -> Float[Tensor, "B S V"]:
        """Score the symbols at each position; the target is ignored."""
        x = self.position.apply_to_input(self.embedding(source), 0)
        logits: Tensor = self.output(self.stack(x, padding_mask(is_real)))
        return logits


class Residual(Experiment):
    """Gradients through stacks of growing depth, and training of these stacks."""

    title = "What residual connections do to gradients"
    sources = (
        (
            "NLU",
            "Transformer",
            "Because of the residual connections, gradients neither grow nor shrink too much.",
        ),
        (
            "APPLY-DL",
            "add and norm",
            "Residual connections are known to be important from earlier translation models; the "
            "input of each sublayer is added to its output.",
        ),
    )
    durations = (38, 700)
    claim = (
        "Residual connections prevent gradients from getting too large or too small, which is "
        "important for learning in deep stacks."
    )
    method = (
        "First, stacks of real, untrained encoder layers read noise, and a random gradient enters "
        "at the top. The ratio of the gradient norm at the bottom to the norm at the top is "
        "measured. With residual connections: without norms, with the norm after the sum (the "
        "lectures), and with the norm before the sublayer (today's practice). Without residual "
        "connections: the same sublayers in a plain chain, with and without norms. The median over "
        "several initializations is taken. At the top, the experiment also measures how different "
        "the positions still are: attention without a residual sum makes them all alike. Second, "
        "stacks of 1, 4 and 12 layers (quick: 1 and 6) learn to output the previous symbol at each "
        "position, at two learning rates of which the better counts (two seeds, Adam, 400 steps "
        "with 50 of warm-up, gradients clipped at norm 1). A stack that does not learn might learn "
        "with more steps: C12 trains twelve layers for 1,600."
    )
    criterion = (
        "Two facts. (1) Gradient: a stack is stable if at the greatest depth its gradient is "
        f"within a factor of {_STABLE:g} of the incoming one; the lectures' block, norm(x + f(x)), "
        "is stable, and both chains without residuals, f(x) and norm(f(x)), are not. (2) Learning: "
        f"norm(x + f(x)) has {_LEARNED:.0%} of new symbols correct (mean over seeds) at a greater "
        "depth than both chains without residuals. Supported if both are true; partly supported if "
        "one is, or if the gradient of one chain alone, f(x) or norm(f(x)), is unstable and stable "
        "with the residual sum. Not supported otherwise. Changed after the measurement; decision "
        "12 says how."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Send gradients through the stacks."""
        is_quick = size == "quick"
        depths = [1, 2, 4, 8, 16] if is_quick else [1, 2, 4, 8, 16, 32]
        seeds = derive_seeds(seed, 3 if is_quick else 9)
        numbers: Numbers = {"depths": depths, "gradient": {}, "differences": {}}
        for kind in _STACKS:
            results = [
                [measure_stack(kind, depth, stack_seed) for stack_seed in seeds] for depth in depths
            ]
            numbers["gradient"][kind] = [median(ratio for ratio, _ in rows) for rows in results]
            numbers["differences"][kind] = [median(share for _, share in rows) for rows in results]
        steps = 150 if is_quick else 400
        numbers["trained_depths"] = [1, 6] if is_quick else [1, 4, 12]
        rates = _LEARNING_RATES[1:] if is_quick else _LEARNING_RATES
        numbers |= {"steps": steps, "rates": list(rates), "trials": {}}
        for kind in _STACKS:
            numbers["trials"][kind] = [
                [_train(kind, depth, steps, rate, seeds[: 1 if is_quick else 2]) for rate in rates]
                for depth in numbers["trained_depths"]
            ]
        return numbers

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare the stacks at the greatest depth."""
        ratios = {kind: numbers["gradient"][kind][-1] for kind in _STACKS}
        is_stable = {kind: 1 / _STABLE < ratios[kind] < _STABLE for kind in _STACKS}
        shares = {kind: _shares(numbers, kind)[-1] for kind in _STACKS}
        learned = {kind: _learned_depth(numbers, kind) for kind in _STACKS}
        labels = {
            kind: label.replace(", the lectures'", " (the lectures)")
            for kind, (label, *_) in _STACKS.items()
        }
        listed = ", ".join(f"{ratios[kind]:.2g} for {labels[kind]}" for kind in _STACKS)
        differences, depths = numbers["differences"], numbers["depths"]
        explanation = (
            f"Through {depths[-1]} layers, the ratio of the gradient at the bottom to that at the "
            f"top is {listed}."
            + (" Without norms, residual sums let it grow." if ratios["residual"] > _STABLE else "")
            + " How different the positions still are (share of the squared "
            f"states): after {depths[2]} layers, {differences['plain_norm'][2]:.0%} for norm(f(x)) "
            f"and {differences['residual_post'][2]:.0%} for norm(x + f(x)). With "
            f"{numbers['trained_depths'][-1]} layers and {numbers['steps']} steps of training, the "
            "share of correct symbols is "
            + ", ".join(f"{shares[kind]:.0%} for {labels[kind]}" for kind in _STACKS)
            + f". Of stacks of {', '.join(map(str, numbers['trained_depths']))} layers, the "
            "deepest that learns has "
            + ", ".join(f"{learned[kind]} for {labels[kind]}" for kind in _STACKS)
            + "."
        )
        decides = [
            is_stable["residual_post"] and not is_stable["plain"] and not is_stable["plain_norm"],
            learned["residual_post"] > max(learned["plain"], learned["plain_norm"]),
        ]
        pairs = (("plain", "residual"), ("plain_norm", "residual_post"))
        verdict = grade(
            is_supported=all(decides),
            is_partly_supported=any(decides)
            or any(is_stable[residual] and not is_stable[plain] for plain, residual in pairs),
        )
        return Judgment(verdict, _summarize(is_stable, learned), explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """One line per stack: its gradient, the differences between positions, its accuracy."""
        left, middle, right = figure.subplots(1, 3, width_ratios=(1.2, 1, 1))
        left.axhspan(1 / _STABLE, _STABLE, color=GRAY, alpha=0.15, linewidth=0)
        left.text(1, _STABLE * 1.6, "stable", color=GRAY)
        panels = (
            (left, "depths", numbers["gradient"]),
            (middle, "depths", numbers["differences"]),
            (right, "trained_depths", {kind: _shares(numbers, kind) for kind in _STACKS}),
        )
        for axes, x_name, lines in panels:
            depths = numbers[x_name]
            for index, (kind, (label, color, style)) in enumerate(_STACKS.items()):
                heights = [
                    _apart(value, index - 2, is_logarithmic=axes is left) for value in lines[kind]
                ]
                axes.plot(depths, heights, style, color=color, label=label, markersize=4)
            axes.set_xscale("log", base=2)
            axes.set_xticks(depths, [str(depth) for depth in depths])
            axes.minorticks_off()
        left.set_yscale("log")
        right.axhline(_LEARNED, color=GRAY, linewidth=0.9, linestyle=":")
        for axes in (middle, right):
            axes.set_ylim(-0.06, 1.08)
            percent_axis(axes)
        handles = left.get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False, title=APART)
        label_axes(left, "Gradient norm", "layers", "bottom ÷ top")
        label_axes(middle, "Differences of positions", "layers", "share of squared states")
        label_axes(right, "After training", "layers", "correct symbols")


def _apart(height: float, shift: int, *, is_logarithmic: bool) -> float:
    """A height that is moved up or down a little, so that no line hides another."""
    return height * 1.25**shift if is_logarithmic else height + 0.012 * shift


def _summarize(is_stable: Mapping[str, bool], learned: Mapping[str, int]) -> str:
    """What was found, for a student."""
    with_it, without = learned["residual_post"], max(learned["plain"], learned["plain_norm"])
    if with_it > without:
        learning = f"Stacks of {with_it} layers learn with residual connections and not without"
    else:
        learning = "Stacks with residual connections do not learn at a greater depth than others"
    if not is_stable["residual_post"]:
        gradient = "they do not keep the gradient of the lectures' stack at its size"
    elif is_stable["plain_norm"]:
        gradient = "the gradient keeps its size without them too, if there are norms"
    elif is_stable["plain"]:
        gradient = "the gradient keeps its size without them too"
    else:
        gradient = "only with them does the gradient keep its size"
    link = "but" if is_stable["residual_post"] and is_stable["plain_norm"] else "and"
    return f"{learning}, {link} {gradient}."


def _learned_depth(numbers: Numbers, kind: str) -> int:
    """The greatest trained depth at which a stack learns; 0 if it learns at none."""
    depths = zip(numbers["trained_depths"], _shares(numbers, kind), strict=True)
    return max((depth for depth, share in depths if share >= _LEARNED), default=0)


def _shares(numbers: Numbers, kind: str) -> list[float]:
    """The mean share of correct symbols by depth, each at the better learning rate."""
    return [
        max(mean(accuracies(trials)) for trials in by_rate) for by_rate in numbers["trials"][kind]
    ]


def _train(
    kind: str, depth: int, steps: int, rate: float, seeds: list[int]
) -> list[dict[str, Any]]:
    """Train with each seed; return the share of correct symbols and the step of success."""
    task = shift_task(8, _LENGTH, -1)
    setup = TrainingSetup(steps, batch_size=32, learning_rate=rate)
    trials = []
    for seed in seeds:
        model = _build(kind, depth, task, seed)
        reached = run_trial(model, task, setup, seed)["reached"]
        share = mean(accuracy_by_position(model, task, seed, _LENGTH))
        trials.append({"accuracy": share, "reached": reached})
    return trials


def _build(kind: str, depth: int, task: ToyTask, seed: int) -> StackModel:
    model = StackModel(kind, depth, task.vocabulary)
    initialize(model, seed)
    return model


def measure_stack(kind: str, depth: int, seed: int) -> tuple[float, float]:
    """The gradient ratio of a stack, and the difference between positions at its top.

    The ratio is the gradient norm at the bottom divided by that at the top. The difference is the
    share of the squared states that is not common to all positions of a sentence.
    """
    stack = EncoderStack(kind, depth, _MODEL)
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
