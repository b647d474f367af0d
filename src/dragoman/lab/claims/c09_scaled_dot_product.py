"""C9: dot products grow with d and saturate the softmax; dividing by √d fixes it, by d is too much.

q, k ~ N(0, 1)ᵈ   ⇒   Var(qᵀk) = d      (Vaswani et al., 2017)   [CS224N] [NLP10] [APPLY-DL]
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from statistics import mean
from typing import Any

import torch
from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, GREEN, ORANGE, label_axes
from dragoman.lab.task import ToyTask, shift_task
from dragoman.lab.training import (
    EncoderOnlyModel,
    TrainingSetup,
    build_encoder_only,
    run_trial,
    steps_until_learned,
)
from dragoman.lab.uncertainty import confidence_interval, derive_seeds, difference_interval
from dragoman.model.attention import Attention
from dragoman.model.parts import DotProduct, Similarity
from dragoman.model.similarity.dot import Dot
from dragoman.model.similarity.scaled_dot import ScaledDot
from dragoman.shapes import Float, Tensor

_KEYS = 32
_MIN_SCALED = 0.5
"""With scaling, the least share of the gradient that must remain at the largest d."""
_MAX_UNSCALED = 0.1
_TOLERANCE = 0.1
"""How far the measured exponent of d may deviate from one half."""
_MAX_EXCESS = 0.1
"""Weights are uniform if the largest exceeds 1 / keys by less than this share."""
_WIDTHS = (64, 128, 256)
"""Of the trained models. They have one head, so this is also d."""
_LEARNING_RATES = (1e-3, 4e-3)
"""Each division is judged at its best learning rate."""


class DividedDot(Similarity):
    """The dot product divided by d instead of √d."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale = 1 / size

    def forward(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> Float[Tensor, "B H T S"]:
        """Score every pair of a query and a key."""
        return torch.matmul(queries * self.scale, keys.transpose(-1, -2))

    def as_dot_product(
        self, queries: Float[Tensor, "B H T D"], keys: Float[Tensor, "B H S D"]
    ) -> DotProduct:
        """Return the dot product with its scale."""
        return DotProduct(queries, keys, self.scale)


_SIMILARITIES: Mapping[str, type[Dot | ScaledDot | DividedDot]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "divided_dot": DividedDot,
}
_LABELS = {
    "dot": ("qᵀk", ORANGE, "s:"),
    "scaled_dot": ("qᵀk / √d", BLUE, "o-"),
    "divided_dot": ("qᵀk / d", GREEN, "^--"),
}


class ScaledDotProduct(Experiment):
    """Random queries and keys of growing size, divided by 1, √d and d; and training with each."""

    title = "Why attention divides by √d"
    sources = (
        (
            "CS224N",
            "Scaled Dot Product",
            "Vectors with more features tend to have larger dot products; the softmax then gets "
            "large inputs, and its gradient is small.",
        ),
        (
            "NLP10",
            "attention",
            "The denominator √d prevents similarities from becoming too large.",
        ),
        (
            "APPLY-DL",
            "self-attention",
            "The sum over d must be normalized: by 1 is too little, by d is too much and does not "
            "converge, so √d was chosen, which lies between them.",
        ),
    )
    durations = (20, 480)
    claim = (
        "Dot products grow with the size d of the vectors; then the softmax saturates and its "
        "gradients vanish. Dividing by √d fixes this. Dividing by d is too much: the weights "
        "become uniform, and the model does not learn."
    )
    method = (
        f"Queries and {_KEYS} keys are drawn from a normal distribution and compared by their dot "
        "product, divided by 1, by √d and by d. Measured are the standard deviation of the scores, "
        "the largest softmax weight (mean over many queries), and the norm of the softmax's "
        "Jacobian, through which every gradient passes (median: a mean would be dominated by the "
        f"few near ties). Then encoder-only models of one layer and one head, with d from "
        f"{_WIDTHS[0]} to {_WIDTHS[-1]} (quick: {_WIDTHS[1]}), learn to output the previous "
        "symbol, with each division, at two learning rates of which the better counts. This "
        "training was designed three times; decision 12 says what each design gave."
    )
    criterion = (
        "Three facts. (1) The standard deviation of unscaled dot products grows as d to the power "
        f"0.5 ± {_TOLERANCE}, their gradient at the largest d is below {_MAX_UNSCALED:.0%} of that "
        f"at the smallest, and divided by √d it stays above {_MIN_SCALED:.0%}. (2) Divided by d, "
        f"the largest weight at the largest d is less than {_MAX_EXCESS:.0%} above that of uniform "
        "weights. (3) Divided by d, no seed learns the task in the steps in which all seeds learn "
        "it divided by √d, at the largest d that is trained. Supported if all three are true; "
        "partly supported if the first is, or if at least the scores grow."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Draw vectors and compare them, then train."""
        is_quick = size == "quick"
        sizes = [4, 16, 64, 256, 1024]
        count = 500 if is_quick else 8_000
        generator = torch.Generator().manual_seed(seed)
        rows: dict[str, list[dict[str, float]]] = {name: [] for name in _SIMILARITIES}
        for d in sizes:
            queries = torch.randn(count, 1, 1, d, generator=generator)
            keys = torch.randn(count, 1, _KEYS, d, generator=generator)
            for name, similarity in _SIMILARITIES.items():
                rows[name].append(_statistics(similarity(d), queries, keys))
        steps = 150 if is_quick else 300
        widths = _WIDTHS[1:2] if is_quick else _WIDTHS
        rates = _LEARNING_RATES[:1] if is_quick else _LEARNING_RATES
        seeds = derive_seeds(seed, 2 if is_quick else 3)
        task = shift_task(8, 10, -1)
        trials = {
            name: [
                [
                    [
                        run_trial(
                            _build(task, model_seed, name, width),
                            task,
                            TrainingSetup(steps, batch_size=32, learning_rate=rate),
                            model_seed,
                        )
                        for model_seed in seeds
                    ]
                    for rate in rates
                ]
                for width in widths
            ]
            for name in _SIMILARITIES
        }
        return {
            "sizes": sizes,
            **rows,
            "rates": list(rates),
            "steps": steps,
            "widths": list(widths),
            "trials": trials,
        }

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare the smallest size with the largest, and the three trainings."""
        small, large = numbers["sizes"][0], numbers["sizes"][-1]
        first, last = numbers["dot"][0], numbers["dot"][-1]
        exponent = log(last["spread"] / first["spread"]) / log(large / small)
        remaining = {
            name: numbers[name][-1]["gradient"] / numbers[name][0]["gradient"]
            for name in ("dot", "scaled_dot")
        }
        largest = {name: numbers[name][-1]["largest"] for name in _SIMILARITIES}
        width = numbers["widths"][-1]
        steps = {name: _best_steps(numbers, name) for name in _SIMILARITIES}
        grows = abs(exponent - 0.5) <= _TOLERANCE
        is_fixed = (
            grows and remaining["dot"] < _MAX_UNSCALED and remaining["scaled_dot"] > _MIN_SCALED
        )
        is_uniform = largest["divided_dot"] < (1 + _MAX_EXCESS) / _KEYS
        never, total = _best_never(numbers, "divided_dot"), len(steps["divided_dot"])
        does_fail = never == total and _best_never(numbers, "scaled_dot") == 0
        change = difference_interval(steps["scaled_dot"], steps["divided_dot"])
        explanation = (
            f"The standard deviation grows as d^{exponent:.2f}. From d = {small} to {large} the "
            f"gradient of unscaled dot products falls to {remaining['dot']:.2%} of its value; "
            f"divided by √d, {remaining['scaled_dot']:.0%} of it remains. The largest of {_KEYS} "
            f"weights is then {largest['dot']:.2f} on average without division, "
            f"{largest['scaled_dot']:.2f} divided by √d, and {largest['divided_dot']:.3f} divided "
            f"by d (uniform: {1 / _KEYS:.3f}). Trained with d = {width}, steps until learned "
            f"(at most {numbers['steps']}) are "
            + ", ".join(
                f"{confidence_interval(steps[name]).mean:.0f} for {_LABELS[name][0]}"
                for name in _SIMILARITIES
            )
            + f" (d compared with √d: {change.mean:+.0f}, from {change.low:+.0f} to "
            f"{change.high:+.0f}; divided by d, {total - never} of {total} seeds learned)."
        )
        verdict = grade(
            is_supported=is_fixed and is_uniform and does_fail, is_partly_supported=grows
        )
        if not is_fixed:
            summary = (
                "The scores grow with the size of the vectors, but dividing by the root of the "
                "size is not what keeps the model able to learn."
                if grows
                else "The scores do not grow with the size of the vectors as the lectures say."
            )
            return Judgment(verdict, summary, explanation)
        flat = f"{'makes' if is_uniform else 'does not make'} all weights nearly equal"
        if does_fail:
            effect = "the model does not learn"
        elif never > 0:
            effect = "not every model learns in time"
        elif change.low > 0:
            effect = "the model still learns, only later"
        else:
            effect = "the model still learns, and not clearly later"
        summary = (
            "Dividing the scores by the root of the vector size keeps them in the range where the "
            f"model can learn; dividing by the size itself {flat} at the start, and {effect}."
        )
        return Judgment(verdict, summary, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Three panels over d, and the steps until learned."""
        *panels, last = figure.subplots(1, 4)
        names = (
            ("spread", "Scores", "standard deviation"),
            ("largest", "Largest weight", f"of {_KEYS} weights (dotted: uniform)"),
            ("gradient", "Softmax gradient", "norm of the Jacobian"),
        )
        for axes, (name, title, y_label) in zip(panels, names, strict=True):
            for kind, (label, color, style) in _LABELS.items():
                values = [row[name] for row in numbers[kind]]
                axes.plot(numbers["sizes"], values, style, color=color, label=label, markersize=4)
            axes.set_xscale("log", base=2)
            axes.set_xticks(numbers["sizes"][::2], [str(d) for d in numbers["sizes"][::2]])
            label_axes(axes, title, "head size d", y_label)
        panels[0].set_yscale("log")
        panels[1].axhline(1 / _KEYS, color="black", linewidth=0.8, linestyle=":")
        for axes in panels[1:]:
            axes.set_ylim(bottom=0)
        widths = numbers["widths"]
        for kind, (_, color, style) in _LABELS.items():
            by_width = [_best_steps(numbers, kind, index) for index in range(len(widths))]
            means = [mean(steps) for steps in by_width]
            last.plot(widths, means, style, color=color, markersize=4)
            for width, steps in zip(widths, by_width, strict=True):
                last.plot([width] * len(steps), steps, "_", color=color, alpha=0.5)
        last.axhline(numbers["steps"], color="black", linewidth=0.8, linestyle=":")
        last.set_ylim(0, 1.08 * numbers["steps"])
        last.set_xscale("log", base=2)
        last.set_xticks(widths, [str(width) for width in widths])
        label_axes(last, "Training", "head size d", "steps until learned (dotted: never)")
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)


def _build(task: ToyTask, seed: int, similarity: str, width: int) -> EncoderOnlyModel:
    """One layer and one head, with the given similarity; it has no weights of its own."""
    model = build_encoder_only(
        task, seed, width=width, heads=1, encoder_layers=1, feed_forward_width=64
    )
    for module in model.modules():
        if isinstance(module, Attention):
            module.similarity = _SIMILARITIES[similarity](width)
    return model


def _best_trials(numbers: Numbers, name: str, width: int = -1) -> list[dict[str, Any]]:
    """The trials of a division at the learning rate at which it needs the fewest steps.

    `width` is an index: the last is the largest.
    """
    by_rate: list[list[dict[str, Any]]] = numbers["trials"][name][width]
    return min(by_rate, key=lambda trials: sum(steps_until_learned(trials, numbers["steps"])))


def _best_steps(numbers: Numbers, name: str, width: int = -1) -> list[float]:
    return steps_until_learned(_best_trials(numbers, name, width), numbers["steps"])


def _best_never(numbers: Numbers, name: str) -> int:
    """The number of seeds that did not learn at the largest width."""
    return sum(trial["reached"] is None for trial in _best_trials(numbers, name))


def _statistics(
    similarity: Similarity, queries: torch.Tensor, keys: torch.Tensor
) -> dict[str, float]:
    """The spread of the scores, the largest weight, and the norm of the softmax's Jacobian."""
    scores = similarity(queries, keys)
    weights = scores.softmax(dim=-1)
    # The Jacobian of the softmax is diag(w) − w wᵀ; its norm bounds the gradient of the scores.
    jacobian = torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)
    return {
        "spread": scores.std().item(),
        "largest": weights.amax(dim=-1).mean().item(),
        "gradient": jacobian.flatten(-2).norm(dim=-1).median().item(),
    }
