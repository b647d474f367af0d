"""C7: without the feed-forward network, stacked self-attention only re-averages values.

aᵢ = Σⱼ αᵢⱼ v(hⱼ) = Wᵥ Σⱼ αᵢⱼ hⱼ  is linear in h if α is constant         [CS224N] [CS182]

But α is not constant: the softmax depends on both symbols of a pair, and the norm divides by a
length. So there are two questions. Is the stack linear while the weights are frozen? And can the
rule "if A and B then C" be learned when they are not frozen?
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, GRAY, GREEN, ORANGE, label_axes, percent_axis, plot_seeds
from dragoman.lab.task import ToyTask, pair_rule_task
from dragoman.lab.training import (
    EncoderOnlyModel,
    TrainingSetup,
    accuracies,
    build_encoder_only,
    compare_models,
    remove_norms,
)
from dragoman.lab.uncertainty import confidence_interval, derive_seeds
from dragoman.model.attention import Attention
from dragoman.model.parts import AttentionKind
from dragoman.model.record import record
from dragoman.shapes import Bool, Float, Tensor

_SYMBOLS, _LENGTH = 8, 12
_OFFSETS = (-1, 0)
_MODEL = {"width": 32, "heads": 2, "feed_forward_width": 64}
_ROUNDING = 1e-9
"""In float64, a smaller difference between f(x + y) and f(x) + f(y) is rounding."""
_LEARNED, _NOT_LEARNED = 0.9, 0.5
_MODELS = ("with", "without", "frozen")


class Nonlinearity(Experiment):
    """Rules for pairs of symbols, with and without the feed-forward network."""

    title = "What the feed-forward network is for"
    lectures = ("CS224N", "CS182")
    durations = (23, 562)
    claim = (
        "Apart from its softmax, each layer of self-attention is linear in the previous one: a "
        "stack only averages values again, and “if A and B then C” cannot be learned. A "
        "feed-forward network fixes this."
    )
    method = (
        "First, without training: real encoder layers read x, y and x + y. The experiment measures "
        "how far f(x + y) is from f(x) + f(y), once with all attention weights frozen at their "
        "values for x, and then with one further component each time. Second, encoder-only models "
        f"learn a table of {_SYMBOLS * _SYMBOLS} random rules (“if this symbol, and that one "
        "before it, then output …”): with the feed-forward network; without it; and without it, "
        "without norms, and with frozen weights that are ideal for the task (one head on each of "
        "the two symbols), a model that can only average."
    )
    criterion = (
        "Two facts: (1) with frozen weights, the stack without feed-forward is linear to "
        f"{_ROUNDING:g}; (2) at every depth the model with feed-forward has more than "
        f"{_LEARNED:.0%} of new examples correct, and the model without it less than "
        f"{_NOT_LEARNED:.0%}, each with its whole 95 % interval. Supported if both are true; "
        "partly supported if one is."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Measure linearity, then train."""
        depths = [2] if size == "quick" else [1, 2, 4]
        steps = 400 if size == "quick" else 1000
        task = pair_rule_task(_SYMBOLS, _LENGTH, _OFFSETS)
        setup = TrainingSetup(steps, batch_size=32, learning_rate=5e-3)
        seeds = derive_seeds(seed, 2 if size == "quick" else 4)
        numbers: Numbers = {
            "superposition": _superposition_errors(task, seed),
            "depths": depths,
            "steps": steps,
            **{name: [] for name in _MODELS},
        }
        for depth in depths:
            models = {name: {"name": name, "depth": depth} for name in _MODELS}
            for name, trials in compare_models(models, task, setup, seeds, _build).items():
                numbers[name].append(trials)
        return numbers

    def judge(self, numbers: Numbers) -> Judgment:
        """Check both facts."""
        errors = numbers["superposition"]
        is_linear = errors["weights frozen"] < _ROUNDING
        with_it, without, frozen = (
            [confidence_interval(accuracies(trials)) for trials in numbers[name]]
            for name in _MODELS
        )
        fails_without = all(
            one.low > _LEARNED and other.high < _NOT_LEARNED
            for one, other in zip(with_it, without, strict=True)
        )
        results = "; ".join(
            f"at depth {depth}, {a.mean:.0%} with, {b.mean:.0%} without, {c.mean:.0%} with frozen "
            "weights"
            for depth, a, b, c in zip(numbers["depths"], with_it, without, frozen, strict=True)
        )
        explanation = (
            f"“Only averages again” is {'true' if is_linear else 'false'}: with frozen weights, "
            f"the stack is linear to {errors['weights frozen']:.0e} (computed weights: "
            f"{errors['weights computed']:.0e}). “Cannot be learned” is "
            f"{'true' if fails_without else 'false'}: after {numbers['steps']} steps, the share of "
            f"correct examples is, {results}."
        )
        verdict = grade(
            is_supported=is_linear and fails_without,
            is_partly_supported=is_linear or fails_without,
        )
        return Judgment(verdict, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The linearity error, and the accuracy of each model."""
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
        names = list(numbers["superposition"])
        errors = [max(numbers["superposition"][name], 1e-17) for name in names]
        left.barh(range(len(names)), errors, left=1e-17, color=[BLUE] + [GRAY] * (len(names) - 1))
        left.set_xscale("log")
        left.set_yticks(range(len(names)), names)
        left.invert_yaxis()
        label_axes(
            left, "Linear only with frozen weights", "relative error of f(x + y) = f(x) + f(y)"
        )
        labels = ("with feed-forward", "without", "without, weights frozen")
        for name, label, color, shift in zip(
            _MODELS, labels, (BLUE, ORANGE, GREEN), (-0.3, 0.0, 0.3), strict=True
        ):
            for index, trials in enumerate(numbers[name]):
                plot_seeds(right, index + shift - 0.07, accuracies(trials), color)
            right.plot([], [], "D", color=color, label=label)
        right.set_xticks(range(len(numbers["depths"])), [str(depth) for depth in numbers["depths"]])
        right.set_xlim(-0.6, len(numbers["depths"]) - 0.3)
        right.set_ylim(-0.05, 1.05)
        percent_axis(right)
        right.legend(frameon=False, loc="center left")
        label_axes(right, "Learning “if A and B then C”", "layers", "correct examples")


class FrozenWeights(AttentionKind):
    """Constant attention weights; the scores are ignored."""

    def __init__(self, weights: Float[Tensor, "B H T S"]) -> None:
        super().__init__()
        self.weights = weights

    def forward(
        self, scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "#B 1 #T S"]
    ) -> Float[Tensor, "B H T S"]:
        """Return the constant weights."""
        return self.weights.expand_as(scores)


def freeze_attention(model: nn.Module, weights: list[Float[Tensor, "B H T S"]]) -> None:
    """Replace the weights of every attention of a model, from bottom to top, in place."""
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    for attention, constant in zip(attentions, weights, strict=True):
        attention.attention_kind = FrozenWeights(constant)


def superposition_error(
    model: EncoderOnlyModel, x: Float[Tensor, "B S M"], y: Float[Tensor, "B S M"]
) -> float:
    """The distance of f(x + y) from f(x) + f(y), relative to the length of f(x) + f(y)."""
    is_real = torch.ones(x.shape[:2], dtype=torch.bool)

    def encode(states: Float[Tensor, "B S M"]) -> Float[Tensor, "B S M"]:
        encoded: Tensor = model.encoder(states, is_real).layer_outputs[-1]
        return encoded

    total = encode(x) + encode(y)
    error: float = ((encode(x + y) - total).norm() / total.norm()).item()
    return error


@torch.no_grad()
def _superposition_errors(task: ToyTask, seed: int) -> dict[str, float]:
    """The error of a stack, by its components."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, 4, _LENGTH, _MODEL["width"], generator=generator, dtype=torch.float64)
    is_real = torch.ones(x.shape[:2], dtype=torch.bool)

    def error(feed_forward: str, has_norms: bool, is_frozen: bool) -> float:
        model = build_encoder_only(
            task, seed, **_MODEL, encoder_layers=3, position="none", feed_forward=feed_forward
        ).double()
        if not has_norms:
            remove_norms(model)
        if is_frozen:
            with record(model) as maps:
                model.encoder(x, is_real)
            freeze_attention(model, [attention.weights for attention in maps])
        return superposition_error(model, x, y)

    return {
        "weights frozen": error("none", has_norms=False, is_frozen=True),
        "weights computed": error("none", has_norms=False, is_frozen=False),
        "frozen, norms": error("none", has_norms=True, is_frozen=True),
        "frozen, feed-forward": error("relu", has_norms=False, is_frozen=True),
    }


def _build(task: ToyTask, seed: int, name: str, depth: int) -> EncoderOnlyModel:
    feed_forward = "relu" if name == "with" else "none"
    model = build_encoder_only(
        task, seed, **_MODEL, encoder_layers=depth, feed_forward=feed_forward
    )
    if name == "frozen":
        remove_norms(model)
        freeze_attention(model, [_ideal_weights()] * depth)
    return model


def _ideal_weights() -> Float[Tensor, "1 H T S"]:
    """One head on each of the offsets of the rules; the source ends with END."""
    positions = torch.arange(_LENGTH + 1)
    weights = torch.zeros(1, len(_OFFSETS), _LENGTH + 1, _LENGTH + 1)
    for head, offset in enumerate(_OFFSETS):
        weights[0, head, positions, (positions + offset).clamp(min=0)] = 1.0
    return weights
