"""C12: layer norm speeds up training and depends on neither the batch nor the neighbors.

norm(x) = (x − mean x) / std x · g + b          over the features of one token
                                        (Ba et al., 2016)   [NLU] [APPLY-DL] [CS182]
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, GREEN, ORANGE, label_axes, plot_seeds
from dragoman.lab.task import ToyTask, shift_task
from dragoman.lab.training import (
    EncoderOnlyModel,
    TrainingSetup,
    build_encoder_only,
    compare_models,
    curve_steps,
    remove_norms,
    steps_until_learned,
)
from dragoman.lab.uncertainty import confidence_interval, derive_seeds, difference_interval
from dragoman.shapes import Float, Tensor

_MODEL = {"width": 32, "heads": 2, "encoder_layers": 4, "feed_forward_width": 64}
_LEARNING_RATES = (4e-3, 1e-2, 2e-2, 4e-2)
"""Each model is judged at its best learning rate."""
_MODELS = {
    "post": ("post-norm (lectures)", GREEN),
    "pre": ("pre-norm", BLUE),
    "none": ("no norm", ORANGE),
}


class LayerNorm(Experiment):
    """Replace the neighbors of a token, and train with and without norms."""

    title = "What layer norm does, and what it does not depend on"
    lectures = ("NLU", "APPLY-DL", "CS182")
    durations = (43, 240)
    claim = (
        "Layer normalization speeds up training; unlike batch normalization it depends on neither "
        "the batch nor the neighboring words."
    )
    method = (
        "First, the state of one token is kept while the other sentences of its batch, or the "
        "other positions of its sentence, are replaced. The experiment checks whether the norm of "
        "a real layer gives the same output to the last bit, and whether batch normalization does. "
        "Second, encoder-only models of four layers learn to output the previous symbol at each "
        "position, with the norm after the sum (the lectures), with the norm before the sublayer, "
        "and without norms; each at several learning rates, of which the best counts."
    )
    criterion = (
        "Two facts: (1) the output of layer norm is bit-identical after both replacements, and "
        "that of batch normalization is not; (2) at its best learning rate, the model with the "
        "lectures' norm needs fewer steps until the task is learned than the model without norms "
        "(95 % interval of the difference, paired by seed, below zero; a model that never learns "
        "counts as all steps). Supported if both are true; partly supported if one is."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Replace tokens, then train."""
        task = shift_task(8, 10, -1)
        steps = 250 if size == "quick" else 500
        rates = _LEARNING_RATES[:1] if size == "quick" else _LEARNING_RATES
        seeds = derive_seeds(seed, 3 if size == "quick" else 4)
        by_rate = [
            compare_models(
                {name: {"name": name} for name in _MODELS},
                task,
                TrainingSetup(steps, batch_size=32, learning_rate=rate),
                seeds,
                _build,
            )
            for rate in rates
        ]
        return {
            "exchange": output_changes(seed),
            "rates": list(rates),
            "steps": steps,
            "trials": {name: [trials[name] for trials in by_rate] for name in _MODELS},
        }

    def judge(self, numbers: Numbers) -> Judgment:
        """Check both facts."""
        changes = numbers["exchange"]
        is_independent = (
            changes["layer"] == {"batch": 0.0, "neighbors": 0.0}
            and min(changes["batch_norm"].values()) > 0
        )
        best = {name: _best_rate(numbers, name) for name in _MODELS}
        steps = {name: _steps(numbers, name, best[name]) for name in _MODELS}
        change = difference_interval(steps["none"], steps["post"])
        is_faster = change.high < 0
        listed = ", ".join(
            f"{confidence_interval(steps[name]).mean:.0f} with {label} (learning rate "
            f"{numbers['rates'][best[name]]:g})"
            for name, (label, _) in _MODELS.items()
        )
        explanation = (
            f"“Neither batch nor neighbors” is {'true' if is_independent else 'false'}: replacing "
            f"them changes the output of layer norm by {max(changes['layer'].values()):g}, and of "
            f"batch norm by up to {max(changes['batch_norm'].values()):.2g}. “Speeds up training” "
            f"is {'true' if is_faster else 'false'}: steps until learned are {listed}; compared "
            f"with no norm, the lectures' norm changes them by {change.mean:+.0f} (from "
            f"{change.low:+.0f} to {change.high:+.0f})."
        )
        verdict = grade(
            is_supported=is_independent and is_faster,
            is_partly_supported=is_independent or is_faster,
        )
        return Judgment(verdict, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Loss curves at the best learning rates, and the steps of every seed."""
        left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))
        x = curve_steps(numbers["steps"])
        for index, (name, (label, color)) in enumerate(_MODELS.items()):
            best = _best_rate(numbers, name)
            for number, trial in enumerate(numbers["trials"][name][best]):
                left.plot(x, trial["curve"], color=color, label="" if number else label)
            plot_seeds(right, index, _steps(numbers, name, best), color)
        left.set_ylim(0, 3.5)  # Without norms, the first losses are far above.
        left.legend(frameon=False)
        label_axes(left, "Training loss at the best learning rate", "steps", "nats per symbol")
        right.set_xticks(range(len(_MODELS)), ["post", "pre", "none"])
        right.set_xlim(-0.5, len(_MODELS) - 0.4)
        right.set_ylim(bottom=0)
        label_axes(right, "Steps until learned", "norm")


def _build(task: ToyTask, seed: int, name: str) -> EncoderOnlyModel:
    model = build_encoder_only(task, seed, **_MODEL, norm="pre" if name == "pre" else "post")
    if name == "none":
        remove_norms(model)
    return model


def output_changes(seed: int) -> dict[str, dict[str, float]]:
    """The largest change of one token's norm when other tokens are replaced."""
    model = build_encoder_only(shift_task(8, 10, -1), seed, **_MODEL, norm="post")
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


def _steps(numbers: Numbers, name: str, rate_index: int) -> list[float]:
    return steps_until_learned(numbers["trials"][name][rate_index], numbers["steps"])


def _best_rate(numbers: Numbers, name: str) -> int:
    """The index of the learning rate at which a model needs the fewest steps."""
    totals = [sum(_steps(numbers, name, index)) for index in range(len(numbers["rates"]))]
    return totals.index(min(totals))
