"""C24: the similarity functions compared on one task.

    qᵀk    qᵀk / √d    qᵀk / (‖q‖‖k‖)    vᵀ tanh(Wq + Uk)    vᵀ tanh(W[q; k])      [NLP10]

Every similarity in the folder is included, new ones too.
"""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, Verdict, grade
from dragoman.lab.style import COLORS, GRAY, label_axes, percent_axis, plot_seeds
from dragoman.lab.task import pair_rule_task
from dragoman.lab.training import (
    TrainingSetup,
    accuracies,
    compare_models,
    curve_steps,
    steps_until_learned,
)
from dragoman.lab.uncertainty import confidence_interval, derive_seeds
from dragoman.recipe.parts import names

_MODEL = {"width": 32, "heads": 2, "encoder_layers": 1, "feed_forward_width": 64}
_LEARNED = 0.9
_NOT_JUDGED = {"cosine × 10": {"name": "cosine", "scale": 10}}
"""Shown but not judged: an unscaled cosine can hardly prefer one key to another."""


class Similarities(Experiment):
    """One layer, one task, every similarity."""

    title = "The similarity functions compared"
    sources = (
        (
            "NLP10",
            "attention",
            "The similarity of a query and a key can be a dot product, a cosine, a multi-layer "
            "perceptron or a concatenation.",
        ),
        (
            "APPLY-DL",
            "self-attention",
            "The similarity is called a cosine, and computed as a dot product divided by the "
            "square root of its size.",
        ),
    )
    durations = (25, 320)
    claim = (
        "The similarity of a query and a key can be computed in different ways: by dot product, "
        "scaled or not, by cosine, by a small network over both. The lecture lists them; that each "
        "works for attention is our reading."
    )
    method = (
        "Encoder-only models of one layer and two heads, which differ only in their similarity, "
        "attend to two positions at once and learn a table of rules for the symbols there. Every "
        "similarity of the package is included with its defaults. A cosine scaled by ten is shown "
        "for comparison, because scores between -1 and 1 leave a softmax over many keys nearly "
        "uniform."
    )
    criterion = (
        "A similarity works if models that use it have on average more than "
        f"{_LEARNED:.0%} of new examples correct. Supported if all work; partly supported if more "
        "than one does."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train one model per similarity and seed."""
        steps = 500 if size == "quick" else 1000
        setup = TrainingSetup(steps, batch_size=32, learning_rate=5e-3)
        seeds = derive_seeds(seed, 1 if size == "quick" else 5)
        similarities: dict[str, Any] = {name: name for name in names("model.similarity")}
        similarities |= _NOT_JUDGED
        models = {name: _MODEL | {"similarity": part} for name, part in similarities.items()}
        return {
            "steps": setup.steps,
            "trials": compare_models(models, pair_rule_task(6, 12, (-1, 1)), setup, seeds),
        }

    def judge(self, numbers: Numbers) -> Judgment:
        """Count the similarities that work."""
        sentences, failing = [], []
        for name, trials in numbers["trials"].items():
            share = confidence_interval(accuracies(trials))
            if name not in _NOT_JUDGED and share.mean <= _LEARNED:
                failing.append(name)
            steps = confidence_interval(steps_until_learned(trials, numbers["steps"])).mean
            is_never = all(trial["reached"] is None for trial in trials)
            when = "never learned" if is_never else f"{steps:.0f} steps"
            seconds = confidence_interval([trial["seconds"] for trial in trials]).mean
            sentences.append(
                f"{name.replace('_', ' ')} {share.mean:.0%} (from {max(share.low, 0):.0%} to "
                f"{min(share.high, 1):.0%}; {when}, {1000 * seconds / numbers['steps']:.1f} ms per "
                "step)"
            )
        explanation = (
            "Correct examples, and steps until learned (a seed that never learned counts as all "
            f"{numbers['steps']}): {', '.join(sentences)}. Additive and concat compute the same "
            "function; only their initialization and the order of their sums differ."
        )
        scaled = [
            name
            for name in _NOT_JUDGED
            if confidence_interval(accuracies(numbers["trials"][name])).mean > _LEARNED
        ]
        judged = numbers["trials"].keys() - _NOT_JUDGED.keys()
        working = len(judged) - len(failing)
        verdict = grade(is_supported=not failing, is_partly_supported=working > 1)
        summaries: dict[Verdict, str] = {
            "supported": "Attention learned the task with every way to compare a query with a key.",
            "partly supported": (
                "Attention learned the task with several ways to compare a query with a key, but "
                f"not with all: {' and '.join(failing).replace('_', ' ')} failed"
                f"{f' ({scaled[0]} works)' if scaled else ''}."
            ),
            "not supported": (
                "Attention learned the task with at most one way to compare a query with a key."
            ),
        }
        return Judgment(verdict, summaries[verdict], explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Loss curves, the accuracy that decides, and the time per step."""
        left, middle, right = figure.subplots(1, 3, width_ratios=(1.3, 1, 1))
        x = curve_steps(numbers["steps"])
        for index, trials in enumerate(numbers["trials"].values()):
            color = COLORS[index % len(COLORS)]
            for trial in trials:
                left.plot(x, trial["curve"], color=color, alpha=0.8)
            milliseconds = [1000 * trial["seconds"] / numbers["steps"] for trial in trials]
            plot_seeds(middle, index, accuracies(trials), color)
            plot_seeds(right, index, milliseconds, color)
        left.set_ylim(bottom=0)
        label_axes(left, "Training loss", "steps", "nats per symbol")
        middle.axhline(_LEARNED, color=GRAY, linestyle=":", linewidth=0.9)
        middle.set_ylim(-0.05, 1.05)
        percent_axis(middle)
        label_axes(middle, "Accuracy", "", "correct examples")
        right.set_ylim(0, 1.15 * right.get_ylim()[1])
        label_axes(right, "Time per step", "", "milliseconds, one core")
        labels = [name.replace("_", " ") for name in numbers["trials"]]
        for axes in (middle, right):
            axes.set_xticks(range(len(labels)), labels, fontsize=8, rotation=90)
