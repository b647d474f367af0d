"""C26: how do narrow, standard and wide heads compare in quality, parameters and time?

    narrow     each head sees its own chunk of the input, by matrices of k/h × k/h
    standard   each head sees the whole input, by matrices of k/h × k
    wide       each head sees the whole input, by matrices of k × k             (seed 000)

Bare heads, which learn nothing (P1), stand beside them as the floor.
"""

from __future__ import annotations

from matplotlib.figure import Figure

from dragoman.lab.chance import interval, seeds
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import BLUE, GREEN, GREY, ORANGE, dots, tidy
from dragoman.lab.task import ruling
from dragoman.lab.teaching import (
    Lesson,
    accuracies,
    contest,
    steps_until_learned,
)

_MODEL = {"width": 32, "head_count": 4, "encoder_layers": 1, "feed_forward_width": 64}
_KINDS = {"bare": GREY, "narrow": ORANGE, "standard": BLUE, "wide": GREEN}
_ORDER = ("narrow", "standard", "wide")


class KindsOfHeads(Experiment):
    """One layer, one task, every kind of heads."""

    title = "Narrow, standard and wide heads"
    claim = (
        "Heads can be narrow (each sees a chunk of the input) or wide (each sees it all, with "
        "matrices as large as the model). The lecture lists them; that what sees more learns "
        "better, and costs more, is our reading."
    )
    lectures = ("000",)
    method = (
        f"Readers of one layer with {_MODEL['head_count']} heads at one width, which differ in "
        "nothing but the kind of their heads, look at two places at once and learn what a book of "
        "rules says of the symbols there. Parameters are counted, the time of a step is measured, "
        "and quality is how many steps it takes until the task is learned."
    )
    criterion = (
        "Costs rise if parameters grow from narrow to standard to wide, and a step of wide heads "
        "surely takes longer than one of narrow heads. Quality rises if the steps until learned "
        "fall from narrow to standard and from standard to wide (never counts as the whole "
        "lesson). Sure is what the 95 % interval of the difference, seed by seed, says. Holds if "
        "both; in part if parameters grow and wide heads need surely fewer steps than narrow "
        "ones; else not."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Teach all."""
        lesson = Lesson(500 if size == "quick" else 1200, batch=32, rate=5e-3)
        own = seeds(seed, 1 if size == "quick" else 6)
        pupils = {kind: _MODEL | {"heads": kind} for kind in _KINDS}
        return {
            "steps": lesson.steps,
            "trials": contest(pupils, ruling(6, 12, (-1, 1)), lesson, own),
        }

    def judge(self, numbers: Numbers) -> Judgement:
        """Compare neighbours in size."""
        trials, whole = numbers["trials"], numbers["steps"]
        steps = {kind: steps_until_learned(trials[kind], whole) for kind in _ORDER}
        sizes = [trials[kind][0]["parameters"] for kind in _ORDER]
        times = {kind: 1000 * interval(_seconds(numbers, kind))[0] / whole for kind in _ORDER}

        def is_faster(kind: str, other: str) -> bool:
            pairs = zip(steps[kind], steps[other], strict=True)
            return interval([a - b for a, b in pairs])[2] < 0

        told = ", ".join(
            f"{kind} {size:,} parameters, {times[kind]:.1f} ms a step, "
            f"{interval(steps[kind])[0]:.0f} steps, {interval(accuracies(trials[kind]))[0]:.0%} "
            "without a fault"
            for kind, size in zip(_ORDER, sizes, strict=True)
        )
        grows = sizes == sorted(set(sizes))
        slower = zip(_seconds(numbers, "wide"), _seconds(numbers, "narrow"), strict=True)
        added = interval([1000 * (wide - narrow) / whole for wide, narrow in slower])
        is_dearer = grows and added[1] > 0
        because = (
            f"After {whole} steps at most: {told}. A step of wide heads takes {added[0]:+.1f} ms "
            f"more than one of narrow heads (from {added[1]:+.1f} to {added[2]:+.1f})."
        )
        is_better = is_faster("standard", "narrow") and is_faster("wide", "standard")
        if is_dearer and is_better:
            return Judgement("holds", because)
        in_part = grows and is_faster("wide", "narrow")
        return Judgement("holds in part" if in_part else "does not hold here", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Three panels: quality, parameters, time."""
        quality, size, time = figure.subplots(1, 3)
        for place, (kind, colour) in enumerate(_KINDS.items()):
            trials = numbers["trials"][kind]
            shares = accuracies(trials)
            dots(quality, place, shares, interval(shares), colour)
            size.bar(place, trials[0]["parameters"], color=colour)
            cost = [1000 * each / numbers["steps"] for each in _seconds(numbers, kind)]
            dots(time, place, cost, interval(cost), colour)
        quality.set_ylim(-0.05, 1.05)
        quality.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        time.set_ylim(0, 1.15 * time.get_ylim()[1])
        for axes, title, up in (
            (quality, "Who learns it", "examples without a fault"),
            (size, "How many weights", "parameters of the reader"),
            (time, "What a step costs", "milliseconds a step, one core"),
        ):
            axes.set_xticks(range(len(_KINDS)), list(_KINDS), fontsize=8, rotation=25)
            axes.set_xlim(-0.6, len(_KINDS) - 0.4)
            tidy(axes, title, "", up)


def _seconds(numbers: Numbers, kind: str) -> list[float]:
    return [each["seconds"] for each in numbers["trials"][kind]]
