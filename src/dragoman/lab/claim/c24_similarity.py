"""C24: how do the similarity functions compare on one task?

    qᵀk    qᵀk / √d    qᵀk / (‖q‖‖k‖)    vᵀ tanh(Wq + Uk)    vᵀ tanh(W[q; k])      (seed 002)

Every part in the folder takes part, also one that is put there tomorrow.
"""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from dragoman.lab.chance import interval, seeds
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import COLOURS, dots, tidy
from dragoman.lab.task import ruling
from dragoman.lab.teaching import (
    CURVE,
    Lesson,
    accuracies,
    contest,
    steps_until_learned,
)
from dragoman.part import names

_MODEL = {"width": 32, "head_count": 2, "encoder_layers": 1, "feed_forward_width": 64}
_LEARNED = 0.9
_BESIDE = {"cosine × 10": {"name": "cosine", "scale": 10}}
"""Shown, and not judged: a cosine alone can hardly prefer one key to another."""


class Similarities(Experiment):
    """One layer, one task, every similarity."""

    title = "The similarity functions, side by side"
    claim = (
        "How like a query is to a key may be computed in different ways: by dot product, scaled or "
        "not, by cosine, by a small network over both. The lecture lists them; that each serves "
        "attention is our reading."
    )
    lectures = ("002",)
    method = (
        "Readers of one layer and two heads, which differ in nothing but their similarity, look at "
        "two places at once and learn what a book of rules says of the symbols there. Every "
        "similarity of the package takes part with its own defaults; beside them, a cosine of "
        "scale ten, for scores between -1 and 1 leave a softmax over many keys nearly even."
    )
    criterion = (
        "A similarity serves if readers that use it say on average more than "
        f"{_LEARNED:.0%} of new examples without a fault. Holds if all serve, in part if more than "
        "one does, else not."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Teach all."""
        lesson = Lesson(500 if size == "quick" else 1000, batch=32, rate=5e-3)
        own = seeds(seed, 1 if size == "quick" else 5)
        similarities: dict[str, Any] = {name: name for name in names("model.similarity")} | _BESIDE
        pupils = {name: _MODEL | {"similarity": part} for name, part in similarities.items()}
        return {
            "steps": lesson.steps,
            "trials": contest(pupils, ruling(6, 12, (-1, 1)), lesson, own),
        }

    def judge(self, numbers: Numbers) -> Judgement:
        """Count who serves."""
        told, serving = [], 0
        for name, trials in numbers["trials"].items():
            middle, low, high = interval(accuracies(trials))
            serving += name not in _BESIDE and middle > _LEARNED
            steps = interval(steps_until_learned(trials, numbers["steps"]))[0]
            is_never = all(each["reached"] is None for each in trials)
            when = "never learned" if is_never else f"{steps:.0f} steps"
            seconds = interval([each["seconds"] for each in trials])[0]
            told.append(
                f"{name} {middle:.0%} (from {max(low, 0):.0%} to {min(high, 1):.0%}; {when}, "
                f"{1000 * seconds / numbers['steps']:.1f} ms a step)"
            )
        because = (
            f"Without a fault, and steps until learned (a seed that never learned counts as all "
            f"{numbers['steps']}): {', '.join(told)}."
        )
        if serving == len(numbers["trials"].keys() - _BESIDE.keys()):
            return Judgement("holds", because)
        return Judgement("holds in part" if serving > 1 else "does not hold here", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Curves, and what a step costs."""
        left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
        across = [(number + 0.5) * numbers["steps"] / CURVE for number in range(CURVE)]
        for place, (name, trials) in enumerate(numbers["trials"].items()):
            colour = COLOURS[place % len(COLOURS)]
            for number, each in enumerate(trials):
                label = "" if number else name.replace("_", " ")
                left.plot(across, each["curve"], color=colour, label=label, alpha=0.8)
            cost = [1000 * each["seconds"] / numbers["steps"] for each in trials]
            dots(right, place, cost, interval(cost), colour)
        left.set_ylim(bottom=0)
        left.legend(frameon=False)
        tidy(left, "Loss while learning to look at two places", "steps", "nats a symbol")
        labels = [name.replace("_", "\n").replace(" × ", "\n× ") for name in numbers["trials"]]
        right.set_xticks(range(len(labels)), labels, fontsize=7)
        right.set_ylim(0, 1.15 * right.get_ylim()[1])
        tidy(right, "What a step costs", "", "milliseconds of one core")
