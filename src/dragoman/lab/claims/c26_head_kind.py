"""C26: narrow, standard and wide heads compared in quality, parameters and time.

    narrow     each head sees its own slice of the input: matrices of M/H × M/H
    standard   each head sees the whole input: matrices of M/H × M
    wide       each head sees the whole input: matrices of M × M             [NLU]

M is the width, H the number of heads. Bare heads, which have no weights, are included as a lower
bound.
"""

from __future__ import annotations

from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, GRAY, GREEN, ORANGE, label_axes, percent_axis, plot_seeds
from dragoman.lab.task import pair_rule_task
from dragoman.lab.training import (
    TrainingSetup,
    accuracies,
    compare_models,
    steps_until_learned,
)
from dragoman.lab.uncertainty import confidence_interval, derive_seeds, difference_interval

_MODEL = {"width": 32, "heads": 4, "encoder_layers": 1, "feed_forward_width": 64}
_KINDS = {"bare": GRAY, "narrow": ORANGE, "standard": BLUE, "wide": GREEN}
_ORDER = ("narrow", "standard", "wide")


class HeadKinds(Experiment):
    """One layer, one task, every kind of head."""

    title = "Narrow, standard and wide heads"
    lectures = ("NLU",)
    durations = (12, 145)
    claim = (
        "Heads can be narrow (each sees a slice of the input) or wide (each sees all of it, with "
        "matrices as large as the model). The lecture lists them; that a head that sees more "
        "learns better, and costs more, is our reading."
    )
    method = (
        f"Encoder-only models of one layer with {_MODEL['heads']} heads and one width, which "
        "differ only in the kind of head, attend to two positions at once and learn a table of "
        "rules for the symbols there. Parameters are counted, the time of a step is measured, and "
        "quality is the number of steps until the task is learned."
    )
    criterion = (
        "Cost increases if parameters grow from narrow to standard to wide, and a step with wide "
        "heads takes significantly longer than one with narrow heads. Quality increases if the "
        "steps until learned decrease significantly from narrow to standard and from standard to "
        "wide (a model that never learns counts as all steps). Significant means that the 95 % "
        "interval of the difference, paired by seed, excludes zero. Supported if both increase; "
        "partly supported if parameters grow and wide heads need significantly fewer steps than "
        "narrow ones."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train one model per kind and seed."""
        steps = 500 if size == "quick" else 1200
        setup = TrainingSetup(steps, batch_size=32, learning_rate=5e-3)
        seeds = derive_seeds(seed, 1 if size == "quick" else 6)
        models = {kind: _MODEL | {"head_kind": kind} for kind in _KINDS}
        return {
            "steps": setup.steps,
            "trials": compare_models(models, pair_rule_task(6, 12, (-1, 1)), setup, seeds),
        }

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare neighboring kinds."""
        trials, all_steps = numbers["trials"], numbers["steps"]
        steps = {kind: steps_until_learned(trials[kind], all_steps) for kind in _ORDER}
        sizes = [trials[kind][0]["parameters"] for kind in _ORDER]
        milliseconds = {kind: _milliseconds(numbers, kind) for kind in _ORDER}

        def is_faster(kind: str, other: str) -> bool:
            return difference_interval(steps[other], steps[kind]).high < 0

        listed = ", ".join(
            f"{kind} {size:,} parameters, {confidence_interval(milliseconds[kind]).mean:.1f} ms "
            f"per step, {confidence_interval(steps[kind]).mean:.0f} steps, "
            f"{confidence_interval(accuracies(trials[kind])).mean:.0%} correct"
            for kind, size in zip(_ORDER, sizes, strict=True)
        )
        is_larger = sizes == sorted(set(sizes))
        added = difference_interval(milliseconds["narrow"], milliseconds["wide"])
        explanation = (
            f"After at most {all_steps} steps: {listed}. A step with wide heads takes "
            f"{added.mean:+.1f} ms more than one with narrow heads (from {added.low:+.1f} to "
            f"{added.high:+.1f})."
        )
        is_better = is_faster("standard", "narrow") and is_faster("wide", "standard")
        verdict = grade(
            is_supported=is_larger and added.low > 0 and is_better,
            is_partly_supported=is_larger and is_faster("wide", "narrow"),
        )
        return Judgment(verdict, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Three panels: quality, parameters, time."""
        quality, size, time = figure.subplots(1, 3)
        for index, (kind, color) in enumerate(_KINDS.items()):
            trials = numbers["trials"][kind]
            plot_seeds(quality, index, accuracies(trials), color)
            size.bar(index, trials[0]["parameters"], color=color)
            plot_seeds(time, index, _milliseconds(numbers, kind), color)
        quality.set_ylim(-0.05, 1.05)
        percent_axis(quality)
        time.set_ylim(0, 1.15 * time.get_ylim()[1])
        for axes, title, y_label in (
            (quality, "Accuracy", "correct examples"),
            (size, "Size", "parameters of the model"),
            (time, "Time per step", "milliseconds, one core"),
        ):
            axes.set_xticks(range(len(_KINDS)), list(_KINDS), fontsize=8, rotation=25)
            axes.set_xlim(-0.6, len(_KINDS) - 0.4)
            label_axes(axes, title, "", y_label)


def _milliseconds(numbers: Numbers, kind: str) -> list[float]:
    """The time of one step, for each seed."""
    trials = numbers["trials"][kind]
    return [1000 * trial["seconds"] / numbers["steps"] for trial in trials]
