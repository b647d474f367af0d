"""C31: in translation, several heads are better than one; eight work.

Heads divide the width d between them, so d_head = d / h and the cost is about that of one head
                                                    (Vaswani et al., 2017)   [CS182]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean

from matplotlib.figure import Figure

from dragoman.lab.baselines import (
    MAX_LATE_GAIN,
    TRANSFORMER,
    Comparison,
    comparison,
    gain_at_the_end,
    is_catching_up,
    study,
)
from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, Verdict, grade
from dragoman.lab.style import BLUE, GREEN, ORANGE, label_axes, plot_differences, plot_seeds
from dragoman.lab.uncertainty import Interval, confidence_interval, difference_interval

_HEADS = (1, 4, 8)
_ONE, _SOME, _EIGHT = (str(count) for count in _HEADS)
_SEEDS = 5
_COLORS = {_ONE: ORANGE, _SOME: GREEN, _EIGHT: BLUE}
_METRICS = {"bleu": "BLEU", "chrf": "chrF"}
_PAIRS = ((_ONE, _SOME), (_ONE, _EIGHT), (_SOME, _EIGHT))
_SUMMARIES: Mapping[Verdict, str] = {
    "supported": (
        "With the same size and the same training, a Transformer with eight heads translated "
        "better than one with a single head."
    ),
    "partly supported": (
        "Several heads translated better than one in some of the comparisons, but eight heads were "
        "not clearly better than one by both scores."
    ),
    "not supported": (
        "With the same size and the same short training, several heads did not translate clearly "
        "better than one."
    ),
    "inconclusive": (
        "The model with the lower score was still catching up when the training ended, so it is "
        "not known which number of heads is better."
    ),
}


class HeadCount(Experiment):
    """One Transformer, whose width is divided between one, four or eight heads."""

    title = "Several heads in translation"
    sources = (
        (
            "CS182",
            "Multi-headed attention",
            "One head cannot focus on two things at a time, several can, and eight heads work for "
            "big models.",
        ),
    )
    durations = (30, 5_400)
    figure_height = 6.0
    claim = (
        "With the same width, parameters and training, a Transformer with several heads translates "
        "better than one with a single head, and eight heads work."
    )
    method = (
        "The small Transformer of C16 (two layers on each side, width 64) is trained with 1, 4 and "
        "8 heads of width 64, 16 and 8. Parameters and FLOPs are the same. The learning rate of "
        "each number of heads is searched with one seed, by halving and doubling until both "
        "neighbors of the best are worse on the validation text; the length penalty of each model "
        f"is the best on it. Full: Multi30k, English to German, tokenized as in papers, test 2016, "
        f"{_SEEDS} seeds, 1,000 updates, a quarter of those of C16; quick: the demo's grammar, one "
        "seed, one rate, so short that little is learned. The lecture speaks of big models, and "
        "this one is small: its eight heads have 8 features each, those of the paper 64."
    )
    criterion = (
        "A number of heads is better than one head if its BLEU and its chrF are higher with the "
        "95 % interval of the difference, paired by seed, above zero. Supported if eight heads are "
        "better than one; partly supported if four are, or if eight are by one of the two scores. "
        "Inconclusive if in the last quarter of the updates the worse of one and eight heads gains "
        f"more than the other by more than {MAX_LATE_GAIN:.0f} BLEU on the validation text: then a "
        "longer training could change their order. Four and eight heads are compared, not judged."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Search the rate of each number of heads, then train all seeds."""
        shared = _comparison(size)
        return {
            str(heads): study(shared, TRANSFORMER, seed, (f"model.heads={heads}",)).numbers()
            for heads in _HEADS
        }

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare several heads with one."""
        some, eight = (
            {metric: _gain(numbers, _ONE, heads, metric).low > 0 for metric in _METRICS}
            for heads in (_SOME, _EIGHT)
        )
        seeds = {heads: numbers[heads]["seeds"] for heads in numbers}
        verdict = grade(
            is_supported=all(eight.values()),
            is_partly_supported=any(eight.values()) or all(some.values()),
        )
        if is_catching_up(seeds[_ONE], seeds[_EIGHT]):
            verdict = "inconclusive"
        gains = "; ".join(
            f"{_heads(other)} instead of {_heads(one)}: "
            + ", ".join(
                f"{difference.mean:+.1f} {label} ({difference.low:+.1f} to {difference.high:+.1f})"
                for metric, label in _METRICS.items()
                for difference in (_gain(numbers, one, other, metric),)
            )
            for one, other in _PAIRS
        )
        late = ", ".join(
            f"{gain_at_the_end(rows):.1f} ({_heads(heads)})" for heads, rows in seeds.items()
        )
        explanation = (
            f"{'; '.join(_describe(numbers, heads) for heads in numbers)}. Differences with 95 % "
            f"intervals, {gains}. In the last quarter of the updates, BLEU of the validations "
            f"during training rose by {late}."
        )
        return Judgment(verdict, _SUMMARIES[verdict], explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The differences that decide; below them the scores of all seeds."""
        for column, (metric, label) in zip(figure.subplots(2, 2).T, _METRICS.items(), strict=True):
            differences = [
                (f"{other} over {one}", _gain(numbers, one, other, metric), _COLORS[other])
                for one, other in _PAIRS
            ]
            plot_differences(column[0], differences)
            label_axes(column[0], f"Gain in {label}, with 95 % interval", label, "heads")
            for place, heads in enumerate(numbers):
                plot_seeds(column[1], place, _values(numbers, heads, metric), _COLORS[heads])
            column[1].set_xticks(range(len(numbers)), list(numbers))
            column[1].set_xlim(-0.5, len(numbers) - 0.35)
            label_axes(column[1], f"{label} on the test text", "heads", label)


def _comparison(size: Size) -> Comparison:
    """The comparison of C16 with its short trainings, which this claim shares with it."""
    shared = comparison(size)
    if size == "quick":
        return shared
    budget = replace(shared.budget, updates=shared.trial_updates)
    return replace(shared, budget=budget, seeds=_SEEDS)


def _values(numbers: Numbers, heads: str, field: str) -> list[float]:
    """One number of each seed."""
    return [row[field] for row in numbers[heads]["seeds"]]


def _gain(numbers: Numbers, one: str, other: str, metric: str) -> Interval:
    """How much higher the score is with another number of heads."""
    return difference_interval(_values(numbers, one, metric), _values(numbers, other, metric))


def _heads(count: str) -> str:
    return "1 head" if count == _ONE else f"{count} heads"


def _describe(numbers: Numbers, heads: str) -> str:
    bleu, chrf = (confidence_interval(_values(numbers, heads, metric)) for metric in _METRICS)
    minutes = mean(_values(numbers, heads, "minutes"))
    return (
        f"{_heads(heads)}: {bleu.mean:.1f} BLEU ({bleu.low:.1f}–{bleu.high:.1f}), "
        f"{chrf.mean:.1f} chrF, {minutes:.1f} min of training"
    )
