"""C7: without the feed-forward network, stacked self-attention only re-averages values.

aᵢ = Σⱼ αᵢⱼ v(hⱼ) = Wᵥ Σⱼ αᵢⱼ hⱼ  is linear in h if α is constant         [CS224N] [CS182]

But α is not constant: the softmax depends on both symbols of a pair, and the norm divides by a
length. So there are two questions. Is the stack linear while the weights are frozen? And is the
rule "if A and B then C" harder to learn without a feed-forward network when they are not frozen?
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, GRAY, GREEN, ORANGE, label_axes, plot_seeds
from dragoman.lab.task import ToyTask, pair_rule_task
from dragoman.lab.training import (
    EncoderOnlyModel,
    TrainingSetup,
    accuracies,
    build_encoder_only,
    compare_models,
    remove_norms,
    steps_until_learned,
)
from dragoman.lab.uncertainty import confidence_interval, derive_seeds, difference_interval
from dragoman.model.attention import Attention
from dragoman.model.parts import AttentionKind
from dragoman.model.record import record
from dragoman.shapes import Bool, Float, Tensor

_SYMBOLS, _LENGTH = 8, 12
_OFFSETS = (-1, 0)
_MODEL = {"width": 32, "heads": 2, "feed_forward_width": 64}
_ROUNDING = 1e-9
"""In float64, a smaller difference between f(x + y) and f(x) + f(y) is rounding."""
_MODELS = ("with", "without", "frozen")


class Nonlinearity(Experiment):
    """Rules for pairs of symbols: how long they take with and without feed-forward network."""

    title = "What the feed-forward network is for"
    sources = (
        (
            "CS182",
            "Adding nonlinearities",
            "Apart from the softmax, each layer is linear in the previous one, so “if … and … "
            "then …” is hard to do; a nonlinear function after self-attention fixes this.",
        ),
        (
            "CS224N",
            "Fixing the second self-attention problem: Nonlinearities",
            "The easy fix is a feed-forward network that processes each output vector.",
        ),
    )
    durations = (23, 562)
    claim = (
        "Apart from its softmax, each layer of self-attention is linear in the previous one: a "
        "stack only averages values again, and “if A and B then C” is hard to learn. A "
        "feed-forward network makes it easier."
    )
    method = (
        "First, without training: real encoder layers read x, y and x + y. The experiment measures "
        "how far f(x + y) is from f(x) + f(y), once without norms and with all attention weights "
        "frozen at their values for x, and then with one further component each time. Second, "
        "encoder-only models "
        f"learn a table of {_SYMBOLS * _SYMBOLS} random rules (“if this symbol, and that one "
        "before it, then output …”): with the feed-forward network; without it; and without it, "
        "without norms, and with frozen weights that are ideal for the task (one head on each of "
        "the two symbols), a model that can only average. “Hard” is measured as the number of "
        "steps until the task is learned."
    )
    criterion = (
        "Two facts: (1) with frozen weights, the stack without feed-forward and norms is linear to "
        f"{_ROUNDING:g}; (2) at every depth the model without feed-forward needs more steps than "
        "the model with it until the task is learned (95 % interval of the difference, paired by "
        "seed, above zero; a model that never learns counts as all steps). Supported if both are "
        "true; partly supported if one is, or if the second is at some depths only."
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
        needs_more, results = [], []
        for index, depth in enumerate(numbers["depths"]):
            with_it, without = (
                steps_until_learned(numbers[name][index], numbers["steps"])
                for name in ("with", "without")
            )
            more = difference_interval(with_it, without)
            needs_more.append(more.low > 0)
            correct = confidence_interval(accuracies(numbers["frozen"][index])).mean
            results.append(
                f"at depth {depth}, {_range(with_it)} with and {_range(without)} without "
                f"({more.mean:+.0f}, from {more.low:+.0f} to {more.high:+.0f}; with frozen "
                f"weights {correct:.0%} of the examples are correct in the end)"
            )
        is_learned = all(
            trial["reached"] is not None for trials in numbers["without"] for trial in trials
        )
        explanation = (
            f"“Only averages again” is {'true' if is_linear else 'false'} of frozen weights: the "
            f"stack is linear to {errors['weights frozen']:.0e} (computed weights: "
            f"{errors['weights computed']:.0e}). Steps until learned, of {numbers['steps']}, are "
            f"{'; '.join(results)}.{_compare_sizes(numbers)}"
        )
        verdict = grade(
            is_supported=is_linear and all(needs_more),
            is_partly_supported=is_linear or any(needs_more),
        )
        return Judgment(verdict, _summarize(is_linear, needs_more, is_learned), explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The linearity error, and the steps until learned."""
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
                steps = steps_until_learned(trials, numbers["steps"])
                plot_seeds(right, index + shift - 0.07, steps, color)
            right.plot([], [], "D", color=color, label=label)
        right.axhline(numbers["steps"], color="black", linewidth=0.8, linestyle=":")
        right.text(-0.55, 0.985 * numbers["steps"], "not learned", va="top")
        right.set_xticks(range(len(numbers["depths"])), [str(depth) for depth in numbers["depths"]])
        right.set_xlim(-0.6, len(numbers["depths"]) - 0.3)
        right.set_ylim(0, 1.05 * numbers["steps"])
        right.legend(frameon=False, loc="center left", bbox_to_anchor=(0, 0.68))
        label_axes(right, "Learning “if A and B then C”", "layers", "steps until learned")


def _summarize(is_linear: bool, needs_more: list[bool], is_learned: bool) -> str:
    """What was found, for a student."""
    if all(needs_more):
        learning = "takes longer without a feed-forward network"
        learning += ", but it succeeds" if is_learned else ", if it succeeds at all"
    elif any(needs_more):
        learning = "takes longer without a feed-forward network only at some depths"
    else:
        learning = "does not take longer without a feed-forward network"
    averages = "can only average" if is_linear else "can do more than average"
    return (
        f"Self-attention with fixed weights {averages}, and learning rules for pairs of words "
        f"{learning}."
    )


def _compare_sizes(numbers: Numbers) -> str:
    """Whether more parameters explain the difference: deep models without, a shallow one with."""
    shallow, deep = numbers["with"][0], numbers["without"][-1]
    size, other = shallow[0]["parameters"], deep[0]["parameters"]
    fast, slow = (steps_until_learned(trials, numbers["steps"]) for trials in (shallow, deep))
    if other <= size or min(slow) <= max(fast):
        return ""
    depths = numbers["depths"]
    return (
        f" The number of parameters is not the reason: {depths[-1]} layers without it have "
        f"{other:,} and need {_range(slow)} steps, {depths[0]} with it has {size:,} and needs "
        f"{_range(fast)}."
    )


def _range(steps: list[float]) -> str:
    """From the fastest seed to the slowest."""
    return f"{min(steps):.0f} to {max(steps):.0f}"


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
