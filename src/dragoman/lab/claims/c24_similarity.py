"""C24: the similarity functions compared on one task.

    qᵀk    qᵀk / √d    qᵀk / (‖q‖‖k‖)    vᵀ tanh(Wq + Uk)    vᵀ tanh(W[q; k])      [NLP10]

Every similarity in the folder is included, new ones too.
"""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import COLORS, label_axes, plot_seeds
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
    lectures = ("NLP10",)
    durations = (41, 158)
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
        sentences, working = [], 0
        for name, trials in numbers["trials"].items():
            share = confidence_interval(accuracies(trials))
            working += name not in _NOT_JUDGED and share.mean > _LEARNED
            steps = confidence_interval(steps_until_learned(trials, numbers["steps"])).mean
            is_never = all(trial["reached"] is None for trial in trials)
            when = "never learned" if is_never else f"{steps:.0f} steps"
            seconds = confidence_interval([trial["seconds"] for trial in trials]).mean
            sentences.append(
                f"{name} {share.mean:.0%} (from {max(share.low, 0):.0%} to "
                f"{min(share.high, 1):.0%}; {when}, {1000 * seconds / numbers['steps']:.1f} ms per "
                "step)"
            )
        explanation = (
            "Correct examples, and steps until learned (a seed that never learned counts as all "
            f"{numbers['steps']}): {', '.join(sentences)}."
        )
        judged = numbers["trials"].keys() - _NOT_JUDGED.keys()
        verdict = grade(is_supported=working == len(judged), is_partly_supported=working > 1)
        return Judgment(verdict, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Loss curves, and the time per step."""
        left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
        x = curve_steps(numbers["steps"])
        for index, (name, trials) in enumerate(numbers["trials"].items()):
            color = COLORS[index % len(COLORS)]
            for number, trial in enumerate(trials):
                label = "" if number else name.replace("_", " ")
                left.plot(x, trial["curve"], color=color, label=label, alpha=0.8)
            milliseconds = [1000 * trial["seconds"] / numbers["steps"] for trial in trials]
            plot_seeds(right, index, milliseconds, color)
        left.set_ylim(bottom=0)
        left.legend(frameon=False)
        label_axes(left, "Training loss", "steps", "nats per symbol")
        labels = [name.replace("_", "\n").replace(" × ", "\n× ") for name in numbers["trials"]]
        right.set_xticks(range(len(labels)), labels, fontsize=7)
        right.set_ylim(0, 1.15 * right.get_ylim()[1])
        label_axes(right, "Time per step", "", "milliseconds, one core")
