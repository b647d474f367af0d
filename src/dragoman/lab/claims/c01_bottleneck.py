"""C1: a state of fixed size is a bottleneck for long sentences; attention removes it.

Without attention the decoder gets h_S, of fixed size; with attention h₁ … h_S   [NLU] [APPLY-DL]
"""

from __future__ import annotations

from statistics import mean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dragoman.lab.baselines import (
    LABELS,
    LARGE_RECURRENT,
    LARGE_TRANSFORMER,
    MAX_LATE_GAIN,
    NO_ATTENTION,
    RECURRENT,
    TRANSFORMER,
    Budget,
    Comparison,
    describe_gains,
    is_catching_up,
    study,
)
from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, ORANGE, VERMILION, label_axes, plot_at_cost
from dragoman.lab.task import copy_task
from dragoman.lab.tatoeba import FREQUENT_WORDS, JOINED, joined_tatoeba, joined_test_rows
from dragoman.lab.training import TrainingSetup, accuracy_by_position, build, train_model
from dragoman.lab.translation_runs import bleu_of
from dragoman.lab.uncertainty import confidence_interval, derive_seeds, difference_interval

_MODELS: dict[str, dict[str, Any]] = {
    NO_ATTENTION: {"architecture": "recurrent", "recurrent": {"attention": False}},
    RECURRENT: {"architecture": "recurrent", "similarity": "additive"},
    TRANSFORMER: {"architecture": "transformer"},
}
_TRANSLATORS: dict[str, tuple[str, tuple[str, ...]]] = {
    # The same network, with attention off; the similarity is then unused, and set to the default.
    NO_ATTENTION: (
        LARGE_RECURRENT,
        ("model.recurrent.attention=false", "model.similarity=scaled_dot"),
    ),
    RECURRENT: (LARGE_RECURRENT, ()),
    TRANSFORMER: (LARGE_TRANSFORMER, ()),
}
"""The larger network, and changes of its settings: a narrow state does not even hold a short
sentence."""
_STYLES: dict[str, dict[str, Any]] = {
    NO_ATTENTION: {"color": VERMILION, "marker": "o", "linestyle": "-"},
    # A wide line below a narrow broken one: both are visible where they coincide.
    RECURRENT: {"color": ORANGE, "marker": "s", "linestyle": "-", "linewidth": 4, "markersize": 9},
    TRANSFORMER: {"color": BLUE, "marker": "D", "linestyle": "--", "markersize": 4},
}
_METRICS = {"bleu": "BLEU", "chrf": "chrF"}
_COSTS = {"flops": "training FLOPs", "minutes": "minutes of one core"}
_SYMBOLS = 10
_LENGTHS = (4, 8, 16, 24, 32)
_QUICK_LENGTHS = _LENGTHS[:3]
_BUDGET = Budget(updates=3_000, tokens=1_024, vocabulary=1_000, dropout=0.1)
_TRIAL_UPDATES = 1_000
_SEEDS = 3
_MIN_SHORT, _MIN_SHORT_BLEU = 0.8, 0.5
"""What the model without attention must reach on the shortest sentences: a share of correct
symbols, and a share of the BLEU with attention. A model that is worse has learned too little to
show what length does."""
_MIN_DROP = 0.2
_MAX_SHARE = 0.5


class Bottleneck(Experiment):
    """Quality by source length: a decoder with one state, and two with attention."""

    title = "A state of fixed size is a bottleneck"
    sources = (
        (
            "NLU",
            "RNN problem",
            "The encoder stores every sentence, short or long, in a state of one fixed size, which "
            "limits what it can pass on.",
        ),
        (
            "APPLY-DL",
            "recap",
            "Without attention, neural translation lagged behind, one reason being the length of "
            "sentences; bringing attention back got rid of that problem.",
        ),
    )
    durations = (30, 16_000)
    figure_height = 9.0
    claim = (
        "A recurrent encoder compresses a sentence of any length into a state of fixed size, so "
        "quality drops as sentences get longer; attention fixes this."
    )
    method = (
        f"LSTMs without and with attention and a Transformer learn to copy 2 to {_LENGTHS[-1]} "
        f"symbols (quick: {_QUICK_LENGTHS[-1]}). The share of correct symbols is measured for each "
        f"length. The full size uses three seeds, and also trains larger models (1.4 M parameters "
        "without attention, 1.8 M for the same network with it, 2.0 M for the Transformer) to "
        f"translate lines of one to {JOINED[-1]} short sentences (Tatoeba, English to German, the "
        f"sentences that consist of the {FREQUENT_WORDS[0]} most frequent English and the "
        f"{FREQUENT_WORDS[1]} most frequent German words), each with its own learning rate and "
        "length penalty. The test has the same sentences alone, in lines of two, and so on: only "
        "the length of a line differs. The validations during training, which choose the weights "
        f"to keep, use {_BUDGET.validation_pairs} lines of one sentence; the learning rate and the "
        "length penalty are the best for lines of every length."
    )
    criterion = (
        f"Copying shows the effect if without attention {_MIN_SHORT:.0%} of the symbols are "
        f"correct at length {_LENGTHS[0]}, this share drops by {_MIN_DROP} or more up to the "
        "longest sentences (with the 95 % interval over seeds above zero), and with attention it "
        f"drops by less than {_MAX_SHARE:.0%} of that. Translation shows it if attention is better "
        "on the longest lines, and the ratio of BLEU without attention to BLEU with attention "
        "is lower there than on the shortest lines, both with the 95 % interval over seeds "
        "above zero. Supported if all that was measured shows it; partly supported if one of the "
        "two does. Inconclusive if, on the shortest lines, translation without attention has "
        f"less than {_MIN_SHORT_BLEU:.0%} of the BLEU with attention (a model that has learned so "
        "little cannot show what length does), or if in the last quarter of the updates it gains "
        f"more than with attention by more than {MAX_LATE_GAIN:.0f} BLEU in these validations: "
        "then a longer training might close the gap."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train on copying; at the full size, translate too."""
        is_quick = size == "quick"
        lengths = _QUICK_LENGTHS if is_quick else _LENGTHS
        count, steps = (1, 250) if is_quick else (3, 700)
        translation = {} if is_quick else _translate(seed)
        copying = _copy(derive_seeds(seed, count), steps, lengths)
        return {"lengths": list(lengths), "copying": copying, **translation}

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare the drops."""
        drops = {
            name: confidence_interval([row[0] - row[-1] for row in rows])
            for name, rows in numbers["copying"].items()
        }
        drop = drops[NO_ATTENTION]
        shortest = mean(row[0] for row in numbers["copying"][NO_ATTENTION])
        signs = [
            shortest >= _MIN_SHORT
            and drop.mean >= _MIN_DROP
            and drop.low > 0
            and drops[RECURRENT].mean < _MAX_SHARE * drop.mean
        ]
        first, last = numbers["lengths"][0], numbers["lengths"][-1]
        explanation = (
            f"Without attention, {shortest:.0%} of {first} symbols are copied correctly. From "
            f"{first} to {last} symbols the share of correct symbols drops by "
            + ", ".join(f"{interval.mean:.2f} ({LABELS[name]})" for name, interval in drops.items())
            + "."
        )
        if "translating" in numbers:
            bins = numbers["translating"]
            is_shown, sentence = _judge_translation(bins[0], bins[-1])
            signs.append(is_shown)
            seeds = {name: row["seeds"] for name, row in numbers["models"].items()}
            scores = (
                f"{mean(bins[0][name]):.1f} to {mean(bins[-1][name]):.1f} ({LABELS[name]})"
                for name in _MODELS
            )
            explanation += (
                f" In translation, {sentence}. From the shortest to the longest lines, BLEU goes "
                f"from {', from '.join(scores)}. {describe_gains(seeds)}"
            )
            reason = ""
            if mean(bins[0][NO_ATTENTION]) < _MIN_SHORT_BLEU * mean(bins[0][RECURRENT]):
                reason = "has learned too little"
            elif is_catching_up(seeds[NO_ATTENTION], seeds[RECURRENT]):
                reason = "was still catching up"
            if reason:
                summary = (
                    f"{_summarize_copying(signs[0])}; the translation model without attention "
                    f"{reason}, so translation decides nothing."
                )
                return Judgment("inconclusive", summary, explanation)
        verdict = grade(is_supported=all(signs), is_partly_supported=any(signs))
        is_transformer_worse = "translating" in numbers and _gets_worse(numbers, TRANSFORMER)
        return Judgment(
            verdict, _summarize(signs, is_transformer_worse=is_transformer_worse), explanation
        )

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Quality over length; in translation, also scores by cost."""
        if "translating" not in numbers:
            figure.set_figheight(3.6)
            _draw_copying(figure.subplots(), numbers)
        else:
            (copying, translating), *by_cost = figure.subplots(3, 2)
            _draw_copying(copying, numbers)
            _draw_translating(translating, numbers["translating"])
            for row, (metric, label) in zip(by_cost, _METRICS.items(), strict=True):
                for axes, (cost, cost_label) in zip(row, _COSTS.items(), strict=True):
                    for name in _MODELS:
                        rows = numbers["models"][name]["seeds"]
                        costs, scores = ([one[field] for one in rows] for field in (cost, metric))
                        style = _STYLES[name]
                        plot_at_cost(axes, costs, scores, style["color"], style["marker"], name)
                    axes.set_ylim(bottom=0)
                    label_axes(axes, f"{label}, all lines of the test", cost_label, label)
        handles = figure.axes[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)


def _draw_copying(axes: Axes, numbers: Numbers) -> None:
    lengths = numbers["lengths"]
    for name, rows in numbers["copying"].items():
        _plot(axes, lengths, [mean(column) for column in zip(*rows, strict=True)], name)
        for row in rows if len(rows) > 1 else ():
            axes.plot(lengths, row, color=_STYLES[name]["color"], alpha=0.2)
    axes.set_ylim(0, 1.05)
    axes.set_xticks(lengths)
    axes.axhline(1 / _SYMBOLS, color="black", linewidth=0.8, linestyle=":")
    axes.text(lengths[-1], 1 / _SYMBOLS - 0.07, "guessing", ha="right")
    label_axes(axes, "Copying symbols", "source length", "share of correct symbols")


def _draw_translating(axes: Axes, bins: list[dict[str, Any]]) -> None:
    words = [row["words"] for row in bins]
    for name in _MODELS:
        _plot(axes, words, [mean(row[name]) for row in bins], name)
        for scores in zip(*(row[name] for row in bins), strict=True):
            axes.plot(words, scores, color=_STYLES[name]["color"], alpha=0.2)
    for row, side, offset in ((bins[0], "left", 6), (bins[-1], "right", 12)):
        score, full = mean(row[NO_ATTENTION]), mean(row[RECURRENT])
        if full == 0:
            continue
        axes.annotate(
            f"{score / full:.0%} of the RNN\nwith attention",
            (row["words"], score),
            xytext=(offset if side == "left" else 0, offset),
            textcoords="offset points",
            ha=side,
            fontsize=8,
        )
    axes.set_ylim(bottom=0)
    label_axes(axes, "Translating joined sentences", "source length in words (mean)", "BLEU")


def _summarize(signs: list[bool], *, is_transformer_worse: bool) -> str:
    """What was found, for a student: in copying, and perhaps in translation."""
    copying, *translation = signs
    if not translation:
        return f"{_summarize_copying(copying)}."
    link = "" if translation[0] == copying else "but "
    shown = "shows the same" if copying else "shows that it does"
    hidden = "does not show this" if copying else "does not show it either"
    return (
        f"{_summarize_copying(copying)}; {link}translation of joined sentences "
        f"{shown if translation[0] else hidden}"
        f"{', but the Transformer gets worse too' if is_transformer_worse else ''}."
    )


def _gets_worse(numbers: Numbers, name: str) -> bool:
    """Whether a model translates the longest lines worse than the shortest, over all seeds."""
    first, *_, last = numbers["translating"]
    return difference_interval(first[name], last[name]).high < 0


def _summarize_copying(is_shown: bool) -> str:
    if is_shown:
        return (
            "In a copying task, a recurrent network without attention gets worse as sentences get "
            "longer, and attention fixes this"
        )
    return (
        "In a copying task, it is not clear that sentence length hurts a recurrent network without "
        "attention and not one with attention"
    )


def _judge_translation(short: dict[str, Any], long: dict[str, Any]) -> tuple[bool, str]:
    """Whether attention gains clearly more on the longest sentences, and a sentence."""
    if min(*short[NO_ATTENTION], *long[NO_ATTENTION]) <= 0:
        return False, "one model has learned nothing"
    ratios = [
        [bare / full for bare, full in zip(row[NO_ATTENTION], row[RECURRENT], strict=True)]
        for row in (short, long)
    ]
    drop = difference_interval(ratios[1], ratios[0])
    gain = difference_interval(long[NO_ATTENTION], long[RECURRENT])
    return gain.low > 0 and drop.low > 0, (
        f"BLEU without attention is {mean(ratios[0]):.0%} of BLEU with attention on the shortest "
        f"lines and {mean(ratios[1]):.0%} on the longest ({100 * drop.mean:.1f} points "
        f"less; 95 % interval {100 * drop.low:.0f} to {100 * drop.high:.0f})"
    )


def _plot(axes: Axes, x: list[float], y: list[float], name: str) -> None:
    axes.plot(x, y, label=LABELS[name], **_STYLES[name])


def _copy(seeds: list[int], steps: int, lengths: tuple[int, ...]) -> dict[str, list[list[float]]]:
    """For each model and seed, the share of correct symbols at each length."""
    task = copy_task(_SYMBOLS, 2, lengths[-1])
    setup = TrainingSetup(steps, batch_size=32, learning_rate=4e-3)
    shares: dict[str, list[list[float]]] = {}
    for name, settings in _MODELS.items():
        layers = {} if name == TRANSFORMER else {"encoder_layers": 1, "decoder_layers": 1}
        for seed in seeds:
            model = build(task, seed, **settings, **layers)
            train_model(model, task, setup, seed)
            row = [mean(accuracy_by_position(model, task, seed, length)) for length in lengths]
            shares.setdefault(name, []).append(row)
    return shares


def _translate(seed: int) -> dict[str, Any]:
    """For each number of joined sentences, BLEU of each model and seed; and how they learned."""
    text = joined_tatoeba()
    shared = Comparison(lambda _: text, _BUDGET, _SEEDS, trial_updates=_TRIAL_UPDATES)
    studies = {
        name: study(shared, larger, seed, changes)
        for name, (larger, changes) in _TRANSLATORS.items()
    }
    bins = []
    for rows in joined_test_rows().values():
        scores = {
            name: [bleu_of(text, result, rows) for result in studied.results]
            for name, studied in studies.items()
        }
        words = mean(len(text.test[row][0].split()) for row in rows)
        bins.append({"words": words, "lines": len(rows)} | scores)
    models = {name: studied.numbers() for name, studied in studies.items()}
    return {"translating": bins, "models": models}
