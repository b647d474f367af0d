"""C12: layer norm speeds up training and depends on neither the batch nor the neighbors.

norm(x) = (x − mean x) / std x · g + b          over the features of one token
                                        (Ba et al., 2016)   [NLU] [APPLY-DL] [CS182]
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, GRAY, GREEN, ORANGE, label_axes, plot_seeds
from dragoman.lab.task import ToyTask, pair_rule_task, shift_task
from dragoman.lab.training import (
    EncoderOnlyModel,
    TrainingSetup,
    build_encoder_only,
    curve_steps,
    remove_norms,
    run_trial,
    steps_until_learned,
)
from dragoman.lab.uncertainty import confidence_interval, derive_seeds, difference_interval
from dragoman.shapes import Float, Tensor

_DEPTH = 12
_SYMBOLS, _LENGTH, _OFFSETS = 6, 10, (-2, 0)
_MODEL = {"width": 32, "heads": 2, "encoder_layers": _DEPTH, "feed_forward_width": 64}
_LEARNING_RATES = (5e-4, 1e-3, 2e-3, 8e-3, 16e-3)
"""Each model is trained at the one of them that is best for a seed that is not judged."""
_MAX_DRAWN = 3.5
"""The largest loss in the figure; without norms, losses may be far above."""
_DIVERGED = 1e9
"""Stands for a loss that is not finite."""
_MODELS = {
    "post": ("post-norm (lectures)", GREEN, "-"),
    "pre": ("pre-norm", BLUE, "--"),
    "none": ("no norm", ORANGE, ":"),
}


class LayerNorm(Experiment):
    """Replace the neighbors of a token, and train a deep stack with and without norms."""

    title = "What layer norm does, and what it does not depend on"
    sources = (
        ("NLU", "Transformer", "With layer normalization, fewer updates are needed."),
        (
            "APPLY-DL",
            "add and norm",
            "Normalization is important, because the numbers would grow too large; it depends on "
            "neither the batch nor the neighboring entries of the sequence, only on one word.",
        ),
        (
            "CS182",
            "Layer Normalization",
            "Batch norm is hard to use for sequences of different lengths and for small batches; "
            "layer norm normalizes over the features of one vector, after the sum.",
        ),
    )
    durations = (38, 1_500)
    claim = (
        "Layer normalization speeds up training; unlike batch normalization it depends on neither "
        "the batch nor the neighboring words."
    )
    method = (
        "First, the state of one token is kept while the other sentences of its batch, or the "
        "other positions of its sentence, are replaced. The experiment checks whether the norm of "
        "a real layer gives the same output to the last bit, and whether batch normalization does. "
        f"Second, encoder-only models of {_DEPTH} layers learn a table of {_SYMBOLS * _SYMBOLS} "
        "random rules for a symbol and the one two positions before it, with the norm after the "
        "sum (the lectures), with the norm before the sublayer, and without norms. The learning "
        f"rate of each is the best of {len(_LEARNING_RATES)} for one seed; other seeds are judged. "
        "Adam, 50 warm-up steps, gradients clipped at norm 1; deep post-norm depends on warm-up. "
        "The quick size uses the middle learning rate for all. Measured again with more steps and "
        "learning rates after a first result; decision 12 says how it changed."
    )
    criterion = (
        "Two facts: (1) the output of layer norm is bit-identical after both replacements, and "
        "that of batch normalization is not; (2) the model with the lectures' norm needs fewer "
        "steps until the task is learned than the model without norms (95 % interval of the "
        "difference, paired by seed, below zero; a model that never learns counts as all steps; if "
        "no seed of either learns, this is undecided). "
        "Supported if both are true; partly supported if one is, or if only pre-norm is faster."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Replace tokens, choose learning rates, then train."""
        is_quick = size == "quick"
        steps = 150 if is_quick else 1_600
        tuning_seed, *seeds = derive_seeds(seed, 2 if is_quick else 5)
        middle = len(_LEARNING_RATES) // 2
        tuning, best, trials = {}, {}, {}
        for name in _MODELS:
            if not is_quick:
                tuning[name] = [_train(name, steps, rate, tuning_seed) for rate in _LEARNING_RATES]
            best[name] = middle if is_quick else _best(tuning[name], steps)
            rate = _LEARNING_RATES[best[name]]
            trials[name] = [_train(name, steps, rate, model_seed) for model_seed in seeds]
        return {
            "exchange": output_changes(seed),
            "steps": steps,
            "tuning": tuning,
            "rates": {name: _LEARNING_RATES[index] for name, index in best.items()},
            "trials": trials,
        }

    def judge(self, numbers: Numbers) -> Judgment:
        """Check both facts."""
        changes = numbers["exchange"]
        is_independent = (
            changes["layer"] == {"batch": 0.0, "neighbors": 0.0}
            and min(changes["batch_norm"].values()) > 0
        )
        steps = {name: _steps(numbers, name) for name in _MODELS}
        difference = {
            name: difference_interval(steps["none"], steps[name]) for name in ("post", "pre")
        }
        is_faster = {name: interval.high < 0 for name, interval in difference.items()}
        listed = ", ".join(
            f"{confidence_interval(steps[name]).mean:.0f} with {label} (learning rate "
            f"{numbers['rates'][name]:g}, {_count_learned(numbers, name)} of {len(steps[name])} "
            "seeds learned)"
            for name, (label, *_) in _MODELS.items()
        )
        wins = {
            other: sum(a < b for a, b in zip(steps["pre"], steps[other], strict=True))
            for other in ("post", "none")
        }
        count = len(steps["pre"])
        explanation = (
            f"“Neither batch nor neighbors” is {'true' if is_independent else 'false'}: replacing "
            f"them changes the output of layer norm by {max(changes['layer'].values()):g}, and of "
            f"batch norm by up to {max(changes['batch_norm'].values()):.2g}. “Speeds up training” "
            f"is {_answer(numbers, is_faster['post'])} for the lectures' norm: with {_DEPTH} "
            f"layers, steps until learned (at most {numbers['steps']}) are {listed}. Compared with "
            "no norm, the lectures' norm "
            f"changes them by {difference['post'].mean:+.0f} (from {difference['post'].low:+.0f} "
            f"to {difference['post'].high:+.0f}) and pre-norm by {difference['pre'].mean:+.0f} "
            f"(from {difference['pre'].low:+.0f} to {difference['pre'].high:+.0f}). Pre-norm is "
            f"faster than the lectures' norm for {wins['post']} of {count} seeds, and faster than "
            f"no norm for {wins['none']} of {count}. {_describe_divergence(numbers)}"
        )
        verdict = grade(
            is_supported=is_independent and is_faster["post"],
            is_partly_supported=is_independent or any(is_faster.values()),
        )
        speed = {
            (True, True): "a deep model learns faster with it than without it",
            (True, False): "a deep model learns faster with it, if it stands after the sum",
            (False, True): (
                "a deep model learns faster with it before each sublayer than without it; for the "
                "norm after the sum, as in the lectures, this was not shown"
            ),
            (False, False): "a deep model does not clearly learn faster with it",
        }[is_faster["post"], is_faster["pre"]]
        looks = "looks at one word only" if is_independent else "does not look at one word only"
        return Judgment(verdict, f"Layer norm {looks}, and {speed}.", explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """What the norms depend on; loss curves at the chosen rates; the steps of every seed."""
        first, left, right = figure.subplots(1, 3, width_ratios=(0.9, 1.4, 1))
        _draw_exchange(first, numbers["exchange"])
        x = curve_steps(numbers["steps"])
        for index, (name, (label, color, line)) in enumerate(_MODELS.items()):
            curves = [trial["curve"] for trial in numbers["trials"][name]]
            is_above = all(min(curve) > _MAX_DRAWN for curve in curves)
            shown = f"{label} (above {_MAX_DRAWN})" if is_above else label
            for number, curve in enumerate(curves):
                left.plot(x, curve, line, color=color, label="" if number else shown, alpha=0.8)
            plot_seeds(right, index, _steps(numbers, name), color)
        left.set_ylim(0, _MAX_DRAWN)
        left.legend(framealpha=1, edgecolor="none")
        label_axes(left, f"Training loss, {_DEPTH} layers", "steps", "nats per symbol")
        right.axhline(numbers["steps"], color="black", linewidth=0.8, linestyle=":")
        right.text(-0.45, 1.01 * numbers["steps"], "not learned", va="bottom")
        right.set_xticks(range(len(_MODELS)), ["post", "pre", "none"])
        right.set_xlim(-0.5, len(_MODELS) - 0.4)
        right.set_ylim(0, 1.12 * numbers["steps"])
        label_axes(right, "Steps until learned", "norm")


def _draw_exchange(axes: Axes, changes: Mapping[str, Mapping[str, float]]) -> None:
    """How much the norm of one token changes when other tokens are replaced."""
    for shift, norm, label, color in (
        (-0.2, "layer", "layer norm", BLUE),
        (0.2, "batch_norm", "batch norm", GRAY),
    ):
        values = list(changes[norm].values())
        bars = axes.bar([index + shift for index in range(len(values))], values, 0.4, color=color)
        axes.bar_label(bars, [f"{value:.2g}" for value in values], padding=1, fontsize=8)
        bars.set_label(label)
    axes.set_xticks(range(len(changes["layer"])), ["other\nsentences", "other\npositions"])
    axes.margins(y=0.35)
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    label_axes(axes, "Change of the norm", "replaced", "largest difference")


def _answer(numbers: Numbers, is_faster: bool) -> str:
    if not _count_learned(numbers, "post") and not _count_learned(numbers, "none"):
        return "undecided"
    return "true" if is_faster else "false"


def _describe_divergence(numbers: Numbers) -> str:
    """For how many seeds the loss without norms ended above its beginning."""
    curves = [trial["curve"] for trial in numbers["trials"]["none"]]
    diverged = sum(curve[-1] > curve[0] for curve in curves)
    return (
        f"Without norms, at the best of the learning rates tried, training diverged for {diverged} "
        f"of {len(curves)} seeds."
    )


def _train(name: str, steps: int, rate: float, seed: int) -> dict[str, Any]:
    task = pair_rule_task(_SYMBOLS, _LENGTH, _OFFSETS)
    setup = TrainingSetup(steps, batch_size=32, learning_rate=rate)
    trial = run_trial(_build(task, seed, name), task, setup, seed)
    # JSON has no infinity; without norms, a high learning rate can lead to it.
    trial["curve"] = [loss if isfinite(loss) else _DIVERGED for loss in trial["curve"]]
    return trial


def _build(task: ToyTask, seed: int, name: str) -> EncoderOnlyModel:
    model = build_encoder_only(task, seed, **_MODEL, norm="pre" if name == "pre" else "post")
    if name == "none":
        remove_norms(model)
    return model


def _best(trials: list[dict[str, Any]], steps: int) -> int:
    """The index of the trial that learned first; if none did, of the one with the lowest loss."""
    keys = [(trial["reached"] or steps, trial["curve"][-1]) for trial in trials]
    return keys.index(min(keys))


def output_changes(seed: int) -> dict[str, dict[str, float]]:
    """The largest change of one token's norm when other tokens are replaced."""
    settings = _MODEL | {"encoder_layers": 1}
    model = build_encoder_only(shift_task(8, 10, -1), seed, **settings, norm="post")
    layer = next(module for module in model.modules() if isinstance(module, nn.LayerNorm))
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(8, 10, _MODEL["width"], generator=generator)
    others = torch.randn(states.shape, generator=generator)
    new_batch, new_neighbors = others.clone(), states.clone()
    new_batch[0] = states[0]
    new_neighbors[0, 1:] = others[0, 1:]
    batch_norm = nn.BatchNorm1d(_MODEL["width"])

    def by_batch(x: Float[Tensor, "B S M"]) -> Float[Tensor, "B S M"]:
        normed: Tensor = batch_norm(x.transpose(1, 2))
        return normed.transpose(1, 2)

    return {
        name: {
            "batch": (norm(new_batch) - norm(states))[0, 0].abs().max().item(),
            "neighbors": (norm(new_neighbors) - norm(states))[0, 0].abs().max().item(),
        }
        for name, norm in (("layer", layer), ("batch_norm", by_batch))
    }


def _steps(numbers: Numbers, name: str) -> list[float]:
    return steps_until_learned(numbers["trials"][name], numbers["steps"])


def _count_learned(numbers: Numbers, name: str) -> int:
    return sum(trial["reached"] is not None for trial in numbers["trials"][name])
