"""C16: the Transformer beats its baselines at equal cost, and a larger one beats a smaller one.

The paper's table lists BLEU and training FLOPs   (Vaswani et al., 2017)   [APPLY-DL]
"""

from __future__ import annotations

from statistics import mean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from dragoman.errors import DivergedError
from dragoman.lab.baselines import (
    CONVOLUTIONAL,
    LABELS,
    LARGE_CONVOLUTIONAL,
    LARGE_RECURRENT,
    LARGE_TRANSFORMER,
    MAX_LATE_GAIN,
    RECURRENT,
    TRANSFORMER,
    Comparison,
    Study,
    comparison,
    describe_gains,
    is_catching_up,
    try_rates,
)
from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, Verdict, grade
from dragoman.lab.style import BLUE, GREEN, ORANGE, label_axes, plot_at_cost, plot_differences
from dragoman.lab.translation_runs import TranslatorResult, train_translator
from dragoman.lab.uncertainty import (
    Interval,
    confidence_interval,
    derive_seeds,
    difference_interval,
)

_MAX_COST = 1.05
"""Up to this multiple of a baseline's FLOPs counts as equal; sizes differ by a few percent."""
_CLOSE_RATES = 1.0
"""If the two best learning rates of a search differ by at most this much BLEU, full trainings
decide: in C17 a short search preferred a rate that was too high for the whole training."""
_METRICS = {"bleu": "BLEU", "chrf": "chrF"}
_SUMMARIES: dict[Verdict, str] = {
    "supported": (
        "At equal cost the Transformer translated better than both older kinds of network, small "
        "and large, and the larger Transformer better than the smaller."
    ),
    "partly supported": (
        "Some of the comparisons with older kinds of network and with a larger Transformer came "
        "out as the lecture says, and some did not."
    ),
    "not supported": (
        "The Transformer was not clearly better than the older kinds of network at equal cost, "
        "nor a larger Transformer clearly better than a smaller one."
    ),
    "inconclusive": (
        "A network was still catching up with another one when the training ended, so their order "
        "is not known."
    ),
}
_ONLY_SIZE = (
    "A larger Transformer translated better than a smaller one, but in neither size was the "
    "Transformer clearly better than the older kinds of network at equal cost."
)
"""The summary if the comparison of the two sizes is the only one that was won."""
_SMALL = (TRANSFORMER, RECURRENT, CONVOLUTIONAL)
_LARGE = (LARGE_TRANSFORMER, LARGE_RECURRENT, LARGE_CONVOLUTIONAL)
NAMES = (*_SMALL, *_LARGE)
_COMPARED = (
    *((TRANSFORMER, baseline) for baseline in _SMALL[1:]),
    *((LARGE_TRANSFORMER, baseline) for baseline in _LARGE[1:]),
)
"""A Transformer, and a network of the same size that it must beat at equal cost."""
_DIFFERENCES = dict(
    zip(
        (*_COMPARED, (LARGE_TRANSFORMER, TRANSFORMER)),
        (
            "small, over RNN",
            "small, over CNN",
            "large, over RNN",
            "large, over CNN",
            "large, over small",
        ),
        strict=True,
    )
)
_COSTS = {"flops": "training FLOPs", "minutes": "minutes of one core"}
_COLORS = dict(zip(NAMES, (BLUE, ORANGE, GREEN) * 2, strict=True))
_SHIFTS = dict(zip(NAMES, (0.92, 1.0, 1.09) * 2, strict=True))
"""Networks of a size have the same FLOPs; in the figure they are multiplied by this, so that no
point hides another."""
_STYLES = dict.fromkeys(_SMALL, "o:") | dict.fromkeys(_LARGE, "D-")


class BaselineTable(Experiment):
    """Three kinds of network in two sizes, one text, equal updates, three seeds."""

    title = "The paper's table, at small scale"
    sources = (
        (
            "APPLY-DL",
            "results",
            "Of all systems in the table, the bigger version of the Transformer has the best "
            "scores, at total training costs that seem to be of the same order: the model is more "
            "expensive, but it probably converges faster.",
        ),
    )
    durations = (115, 49_000)
    figure_height = 11.0
    claim = (
        "The Transformer translates better than recurrent and convolutional networks at equal or "
        "lower training cost, and a larger Transformer better than a smaller one."
    )
    method = (
        "An LSTM with attention, a convolutional network with attention and a Transformer are "
        "trained on the same text with the same vocabulary, updates, tokens and beam size: once "
        "with 0.4 M parameters and once with 2.4 M. All use Adam. The learning rate of each is "
        "searched with shorter trainings (a quarter of the updates), by halving and doubling until "
        "both neighbors of the best are worse; a training that diverges counts as 0 BLEU. If the "
        f"second best is within {_CLOSE_RATES:.0f} BLEU, the first seed is trained in full with "
        "both, and the better rate is used for all seeds. Rate and length penalty are the best on "
        "the whole validation text. Full: Multi30k, English to German, tokenized as in papers, "
        "test 2016, three seeds, 4,000 updates; quick: the demo's grammar, one seed, one rate, so "
        "short that little is learned. Minutes are minutes of processor time on one core."
    )
    criterion = (
        "A Transformer beats a baseline of its size if its BLEU and its chrF are higher with the "
        "95 % interval of the difference over seeds above zero, and its training took at most "
        f"{_MAX_COST} times the baseline's FLOPs; the larger Transformer beats the smaller if both "
        "scores are higher in the same way. Supported if in both sizes the Transformer beats both "
        "baselines, and the larger one beats the smaller; partly supported if some of these five "
        "comparisons are won. Inconclusive if in the last quarter of the updates the worse of two "
        f"compared networks gains more than the better one by more than {MAX_LATE_GAIN:.0f} BLEU "
        "on the validation text: then a longer training could change their order."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train all six with each seed."""
        shared = comparison(size)
        numbers: Numbers = {}
        for name in NAMES:
            numbers[name] = train_network(shared, name, seed)
        return numbers

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare in each size, and the two sizes of the Transformer."""
        wins = {
            (name, baseline): _is_better(numbers, name, baseline)
            and mean(_values(numbers, name, "flops"))
            <= _MAX_COST * mean(_values(numbers, baseline, "flops"))
            for name, baseline in _COMPARED
        }
        wins[LARGE_TRANSFORMER, TRANSFORMER] = _is_better(numbers, LARGE_TRANSFORMER, TRANSFORMER)
        seeds = {name: row["seeds"] for name, row in numbers.items()}
        sentences = [
            f"The {LABELS[name]} {'beats' if is_won else 'does not beat'} the {LABELS[other]}"
            for (name, other), is_won in wins.items()
        ]
        explanation = (
            f"{'. '.join(sentences)}. "
            + "; ".join(_describe(numbers, name) for name in numbers)
            + f". {describe_gains(seeds)}"
        )
        verdict = grade(is_supported=all(wins.values()), is_partly_supported=any(wins.values()))
        if any(is_catching_up(seeds[name], seeds[other]) for name, other in wins):
            verdict = "inconclusive"
        summary = _SUMMARIES[verdict]
        if verdict == "partly supported" and not any(wins[pair] for pair in _COMPARED):
            summary = _ONLY_SIZE
        return Judgment(verdict, summary, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The differences that decide; scores on the test text and during training, by cost."""
        panels = figure.subplots(4, 2)
        for column, (metric, label) in zip(panels.T, _METRICS.items(), strict=True):
            leads = [
                (
                    difference,
                    difference_interval(
                        _values(numbers, other, metric), _values(numbers, name, metric)
                    ),
                    _COLORS[other],
                )
                for (name, other), difference in _DIFFERENCES.items()
            ]
            plot_differences(column[0], leads)
            label_axes(column[0], f"Lead in {label}, with 95 % interval", label)
            for axes, cost in zip(column[1:3], _COSTS, strict=True):
                for name in numbers:
                    costs, scores = _values(numbers, name, cost), _values(numbers, name, metric)
                    if cost == "flops":
                        costs = [_SHIFTS[name] * value for value in costs]
                    plot_at_cost(axes, costs, scores, _COLORS[name], _STYLES[name][0], LABELS[name])
                apart = ", drawn a little apart" if cost == "flops" else ""
                label_axes(axes, f"{label} on the test text", f"{_COSTS[cost]}{apart}", label)
        for axes, cost in zip(panels[3], _COSTS, strict=True):
            for name in numbers:
                _draw_curves(axes, numbers, name, cost)
            label_axes(axes, "Validation (shaded: all seeds)", _COSTS[cost], "BLEU")
        for axes in (*panels[1], panels[3][0]):
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
            axes.xaxis.set_major_formatter("{x:.0e}")
            axes.minorticks_off()
        handles = panels[1][0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=2, frameon=False)


def train_network(shared: Comparison, name: str, seed: int) -> dict[str, Any]:
    """Search a learning rate, then train all seeds; full trainings compare two close rates."""

    def train(factor: float, one: int) -> TranslatorResult:
        return train_translator(shared.text(seed), shared.budget.settings(name, factor), one)

    first, *others = derive_seeds(seed, shared.seeds)
    rates = try_rates(shared, name, seed)
    ranked = sorted(rates, key=rates.__getitem__, reverse=True)
    close = [rate for rate in ranked[:2] if rates[ranked[0]] - rates[rate] <= _CLOSE_RATES] or [1.0]
    full: dict[float, TranslatorResult] = {}
    for factor in close:
        try:
            full[factor] = train(factor, first)
        except DivergedError:
            # A rate at which the whole training diverges loses; one must remain.
            if factor == close[-1] and not full:
                raise
    best = max(full, key=lambda factor: full[factor].validation_bleu)
    results = [full[best], *(train(best, one) for one in others)]
    scores = [(factor, full[factor].validation_bleu if factor in full else 0.0) for factor in close]
    return {**Study(results, sorted(rates.items())).numbers(), "full_rates": scores}


def _values(numbers: Numbers, name: str, field: str) -> list[float]:
    """One number of each seed."""
    return [row[field] for row in numbers[name]["seeds"]]


def _is_better(numbers: Numbers, name: str, other: str) -> bool:
    """Whether both scores are higher, clearly over the seeds."""
    differences = (
        difference_interval(_values(numbers, other, metric), _values(numbers, name, metric))
        for metric in _METRICS
    )
    return all(difference.low > 0 for difference in differences)


def _describe(numbers: Numbers, name: str) -> str:
    bleu, chrf = (_interval(numbers, name, metric) for metric in _METRICS)
    minutes, parameters = (mean(_values(numbers, name, key)) for key in ("minutes", "parameters"))
    return (
        f"{LABELS[name]} ({parameters / 1e6:.2g} M parameters): {bleu.mean:.1f} BLEU "
        f"({bleu.low:.1f}–{bleu.high:.1f}), {chrf.mean:.1f} chrF, "
        f"{mean(_values(numbers, name, 'flops')):.2g} FLOPs, {minutes:.0f} min"
    )


def _interval(numbers: Numbers, name: str, metric: str) -> Interval:
    return confidence_interval(_values(numbers, name, metric))


def _draw_curves(axes: Axes, numbers: Numbers, name: str, cost: str) -> None:
    """The mean over seeds, and the range between them."""
    rows: list[dict[str, Any]] = numbers[name]["seeds"]
    updates = [step for step, _ in rows[0]["curve"]]
    total = mean(row[cost] for row in rows)
    costs = [total * step / updates[-1] for step in updates]
    scores = list(zip(*([score for _, score in row["curve"]] for row in rows), strict=True))
    axes.plot(
        costs,
        [mean(column) for column in scores],
        _STYLES[name],
        color=_COLORS[name],
        markersize=4,
    )
    lows, highs = [min(column) for column in scores], [max(column) for column in scores]
    axes.fill_between(costs, lows, highs, color=_COLORS[name], alpha=0.15)
