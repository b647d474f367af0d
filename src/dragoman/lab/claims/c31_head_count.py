"""C31: in translation, several heads are better than one; eight work.

One query cannot focus on two things; several heads can, and eight work for big models    [CS182]

The h heads divide the width d between them: each has d / h features, so all have the parameters of
one head of width d (Vaswani et al., 2017).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean

from matplotlib.figure import Figure

from dragoman.lab.baselines import (
    LEARNING_RATE,
    MAX_LATE_GAIN,
    TRANSFORMER,
    Comparison,
    comparison,
    describe_gains,
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
        "With the same size and the same number of updates, a Transformer with eight heads "
        "translated better than one with a single head."
    ),
    "partly supported": (
        "Several heads translated better than one in some of the comparisons, but eight heads were "
        "not clearly better than one by both scores."
    ),
    "not supported": (
        "With the same size and the same number of updates, neither four nor eight heads "
        "translated clearly better than one."
    ),
    "inconclusive": (
        "A model was still catching up when the training ended, so the order of one head and "
        "several heads is not known."
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
    durations = (30, 4_000)
    figure_height = 6.0
    claim = (
        "With the same width, parameters and updates, a Transformer with several heads translates "
        "better than one with a single head, also with eight heads. The lecture says that several "
        "heads see more; that translations are better is our reading."
    )
    method = (
        "The small Transformer of C16 (two layers on each side, width 64) is trained with 1, 4 and "
        "8 heads of width 64, 16 and 8. Parameters and FLOPs of matrix products are the same. The "
        "learning rate of each number of heads is searched with the first seed and trainings of "
        "the same length, by halving and doubling until both neighbors of the best are worse on "
        "the validation text; if two rates are close, the choice may be due to chance. The length "
        "penalty of each model is the one with the highest BLEU on that text. Full: Multi30k, "
        f"English to German, tokenized as in papers, test 2016, {_SEEDS} seeds, 1,000 updates, a "
        "quarter of those of C16; quick: the demo's grammar, one seed, one rate, so short that "
        "little is learned. The lecture speaks of big models, and this one is small: its eight "
        "heads have 8 features each, those of the paper 64. The ablations (docs/ablations.md), "
        "with other seeds and one rate, were known before. In the paper one head has 0.9 BLEU less "
        "than eight."
    )
    criterion = (
        "A number of heads is better than one head if its BLEU and its chrF are higher with the "
        "95 % interval of the difference, paired by seed, above zero. Supported if eight heads are "
        "better than one; partly supported if four are, or if only one of the two scores is "
        "clearly higher with eight. Inconclusive, whatever the intervals say, if in the last "
        "quarter of the updates the worse of one head and several (four or eight) gains more than "
        f"the better one by more than {MAX_LATE_GAIN:.0f} BLEU on the validation text: then a "
        "longer training could change their order. The difference between four and eight heads is "
        "shown, not judged."
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
        seeds = {heads: row["seeds"] for heads, row in numbers.items()}
        verdict = grade(
            is_supported=all(eight.values()),
            is_partly_supported=any(eight.values()) or all(some.values()),
        )
        if any(is_catching_up(seeds[_ONE], seeds[several]) for several in (_SOME, _EIGHT)):
            verdict = "inconclusive"
        models = "; ".join(_describe(numbers, heads) for heads in numbers)
        gains = "; ".join(_describe_gains(numbers, one, other) for one, other in _PAIRS)
        late = describe_gains({_name(heads): rows for heads, rows in seeds.items()})
        explanation = f"{models}. Differences with 95 % intervals: {gains}. {late}"
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
    """The comparison of C16; in the full size, with the length of its searches of the rate."""
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


def _name(heads: str) -> str:
    return "1 head" if heads == _ONE else f"{heads} heads"


def _describe(numbers: Numbers, heads: str) -> str:
    bleu, chrf = (confidence_interval(_values(numbers, heads, metric)) for metric in _METRICS)
    rates = numbers[heads]["rates"]
    rate, _ = max(rates, key=lambda tried: tried[1], default=(1.0, 0.0))
    return (
        f"{_name(heads)}: {bleu.mean:.1f} BLEU ({bleu.low:.1f}–{bleu.high:.1f}), "
        f"{chrf.mean:.1f} chrF, learning rate {rate * LEARNING_RATE:g}, "
        f"{mean(_values(numbers, heads, 'minutes')):.1f} min of processor time"
    )


def _describe_gains(numbers: Numbers, one: str, other: str) -> str:
    gains = {label: _gain(numbers, one, other, metric) for metric, label in _METRICS.items()}
    listed = ", ".join(
        f"{gain.mean:+.1f} {label} ({gain.low:+.1f} to {gain.high:+.1f})"
        for label, gain in gains.items()
    )
    return f"{_name(other)} instead of {_name(one)}: {listed}"
