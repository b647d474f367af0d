"""C25: soft, hard and local attention compared.

soft    aᵢ = softmax(s)ᵢ                        all keys
hard    aᵢ = 1 for i = argmax s, else 0         the best key only
local   softmax over |i − t| ≤ window           a window of keys            [NLP10]
"""

from __future__ import annotations

import random
from statistics import mean
from typing import Any

import torch
from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, GREEN, ORANGE, label_axes, percent_axis, plot_seeds
from dragoman.lab.task import ToyTask, shift_task
from dragoman.lab.training import TrainingSetup, accuracies, build_encoder_only, run_trial
from dragoman.lab.uncertainty import confidence_interval, derive_seeds
from dragoman.model.record import record

_LENGTH, _WINDOW = 14, 2
_OFFSETS = {"near": -1, "far": -6}
_MODEL = {"width": 32, "heads": 1, "encoder_layers": 1, "feed_forward_width": 64}
_KINDS: dict[str, tuple[Any, str]] = {
    "soft": ("soft", BLUE),
    "hard": ("hard", ORANGE),
    "local": ({"name": "local", "window": _WINDOW}, GREEN),
}
_LEARNED, _NOT_LEARNED = 0.9, 0.5


class AttentionKinds(Experiment):
    """A near and a far task, learned with each kind of attention."""

    title = "Soft, hard and local attention"
    sources = (
        (
            "NLP10",
            "attention",
            "Soft attention gives every key a weight, hard attention takes only the key with the "
            "largest weight, and local attention takes the keys in a window.",
        ),
    )
    durations = (12, 230)
    claim = (
        "Attention can weight all keys, only the best one, or the keys in a window. The lecture "
        "lists them; that each works, the last within its window, is our reading."
    )
    method = (
        "Encoder-only models of one layer and one head, which differ only in the kind of "
        f"attention, learn to output the symbol {-_OFFSETS['near']} position before, and in "
        f"another training the symbol {-_OFFSETS['far']} positions before. The window covers "
        f"{_WINDOW} positions to each side. The hard choice has no gradient; it is trained with a "
        "straight-through estimator, which uses the gradient of the softmax. Afterwards the "
        "weights are recorded."
    )
    criterion = (
        f"Learned means that on average over seeds more than {_LEARNED:.0%} of new examples are "
        f"correct; not learned, less than {_NOT_LEARNED:.0%}. Supported if soft and hard learn "
        "both tasks, and local learns the near one and not the far one; partly supported if soft "
        "learns both and one of the other two behaves as stated."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train, and record the attention weights."""
        steps = 300 if size == "quick" else 800
        setup = TrainingSetup(steps, batch_size=32, learning_rate=5e-3)
        seeds = derive_seeds(seed, 1 if size == "quick" else 5)
        numbers: Numbers = {"steps": setup.steps, "maps": {}}
        for distance, offset in _OFFSETS.items():
            task = shift_task(10, _LENGTH, offset)
            numbers[distance], numbers["maps"][distance] = {}, {}
            for name, (kind, _) in _KINDS.items():
                trials = []
                for model_seed in seeds:
                    model = build_encoder_only(task, model_seed, **_MODEL, attention_kind=kind)
                    trials.append(run_trial(model, task, setup, model_seed))
                    if model_seed == seeds[0]:
                        numbers["maps"][distance][name] = _mean_weights(model, task, seed)
                numbers[distance][name] = trials
        return numbers

    def judge(self, numbers: Numbers) -> Judgment:
        """Check what is stated about each kind."""
        shares = {
            name: {
                distance: confidence_interval(accuracies(numbers[distance][name])).mean
                for distance in _OFFSETS
            }
            for name in _KINDS
        }
        listed = ", ".join(
            f"{name} {by_distance['near']:.0%} and {by_distance['far']:.0%}"
            for name, by_distance in shares.items()
        )
        sharpness = ", ".join(f"{_sharpness(numbers, name):.2f} for {name}" for name in _KINDS)
        explanation = (
            f"Correct examples after {numbers['steps']} steps, for near and far symbols: {listed}. "
            "Averaged over many near examples, the largest weight of a query is "
            f"{sharpness}."
        )
        soft, hard = (min(shares[name].values()) > _LEARNED for name in ("soft", "hard"))
        local = shares["local"]["near"] > _LEARNED and shares["local"]["far"] < _NOT_LEARNED
        verdict = grade(
            is_supported=soft and hard and local, is_partly_supported=soft and (hard or local)
        )
        return Judgment(verdict, _summary(soft=soft, hard=hard, local=local), explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Accuracy of each kind, and its weights."""
        grid = figure.add_gridspec(2, 4, width_ratios=(2.2, 1, 1, 1))
        left = figure.add_subplot(grid[:, 0])
        for index, (name, (_, color)) in enumerate(_KINDS.items()):
            for shift, distance in ((-0.2, "near"), (0.2, "far")):
                plot_seeds(
                    left, index + shift, accuracies(numbers[distance][name]), color, highest=1
                )
                left.text(index + shift + 0.07, -0.11, distance, ha="center", fontsize=8)
        left.set_xticks(range(len(_KINDS)), list(_KINDS))
        left.set_xlim(-0.5, len(_KINDS) - 0.4)
        left.set_ylim(-0.18, 1.05)
        left.set_yticks([0, 0.5, 1])
        percent_axis(left)
        label_axes(left, "Accuracy by distance", "", "correct examples")
        for row, distance in enumerate(_OFFSETS):
            for column, name in enumerate(_KINDS):
                axes = figure.add_subplot(grid[row, column + 1])
                axes.imshow(numbers["maps"][distance][name], cmap="Blues", vmin=0, vmax=1)
                axes.set_xticks([])
                axes.set_yticks([])
                axes.set_title(f"{name}, {distance}", loc="left", fontsize=8)
        figure.axes[-2].set_xlabel("keys")
        figure.axes[-3].set_ylabel("queries")


def _summary(*, soft: bool, hard: bool, local: bool) -> str:
    """What was found; each argument says whether that kind behaved as stated."""
    if not soft:
        return "Attention to all words did not learn both tasks."
    if hard and local:
        return (
            "Attention to all words or to the best word alone learned both tasks, and attention in "
            "a window learned exactly what lies in its window."
        )
    if hard:
        return (
            "Attention to all words or to the best word alone learned both tasks, but attention in "
            "a window did not do exactly what its window allows."
        )
    if local:
        return (
            "Attention to all words learned both tasks and attention in a window learned what lies "
            "in it, but attention to the best word alone did not learn both reliably."
        )
    return "Only attention to all words did what is stated of it."


@torch.no_grad()
def _mean_weights(model: torch.nn.Module, task: ToyTask, seed: int) -> list[list[float]]:
    """The weights averaged over new examples: the part that does not depend on the symbols."""
    examples = task.examples(50, random.Random(f"look {seed}"))  # noqa: S311
    with record(model) as maps:
        model(examples.source, examples.is_real, examples.target)
    weights: list[list[float]] = maps[0].weights.mean(dim=0)[0, :_LENGTH, :_LENGTH].tolist()
    return weights


def _sharpness(numbers: Numbers, name: str) -> float:
    rows: list[list[float]] = numbers["maps"]["near"][name]
    return mean(max(row) for row in rows)
