"""C1: a state of fixed size is a bottleneck for long sentences; attention removes it.

Without attention the decoder gets h_S, of fixed size; with attention h₁ … h_S   [NLU] [APPLY-DL]
"""

from __future__ import annotations

from math import hypot, log
from statistics import mean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dragoman.lab.baselines import LABELS, NO_ATTENTION, RECURRENT, TRANSFORMER, comparison
from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, ORANGE, VERMILION, label_axes
from dragoman.lab.task import copy_task
from dragoman.lab.training import TrainingSetup, accuracy_by_position, build, train_model
from dragoman.lab.translation_runs import compare_bleu, train_translator
from dragoman.lab.uncertainty import confidence_interval, derive_seeds

_MODELS: dict[str, dict[str, Any]] = {
    NO_ATTENTION: {"architecture": "recurrent", "recurrent": {"attention": False}},
    RECURRENT: {"architecture": "recurrent", "similarity": "additive"},
    TRANSFORMER: {"architecture": "transformer"},
}
_COLORS = {NO_ATTENTION: VERMILION, RECURRENT: ORANGE, TRANSFORMER: BLUE}
_LENGTHS = (4, 8, 12, 16)
_BIN_EDGES = (9, 12, 16)
"""Source lengths in words: the upper ends of the bins; the last bin is open."""
_MIN_DROP = 0.2
_MAX_SHARE = 0.5
_MAX_P_VALUE = 0.05


class Bottleneck(Experiment):
    """Quality by source length: a decoder with one state, and two with attention."""

    title = "A state of fixed size is a bottleneck"
    lectures = ("NLU", "APPLY-DL")
    durations = (39, 576)
    claim = (
        "A recurrent encoder compresses a sentence of any length into a state of fixed size, so "
        "quality drops as sentences get longer; attention fixes this."
    )
    method = (
        f"LSTMs without and with attention and a Transformer learn to copy 2 to {_LENGTHS[-1]} "
        "symbols. The share of correct symbols is measured for each length. The full size uses "
        "several seeds, and also scores translation models of equal size, trained on Multi30k (the "
        "runs of C16, and one without attention), by the length of the source; these have one seed."
    )
    criterion = (
        f"Copying shows the effect if without attention the share of correct symbols drops by "
        f"{_MIN_DROP} or more from length {_LENGTHS[0]} to {_LENGTHS[-1]} (with the 95 % interval "
        f"over seeds above zero), and with attention by less than {_MAX_SHARE:.0%} of that. "
        "Translation shows it if attention is better on the longest sentences with "
        f"p < {_MAX_P_VALUE} (paired bootstrap) and gains significantly more there: the ratio of "
        "BLEU without attention to BLEU with attention drops from the shortest to the longest "
        "sentences by more than the 95 % interval of that drop (of the logarithm, with the four "
        "intervals taken as independent). Supported if all that was measured shows it; partly "
        "supported if one of the two does."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train on copying; at the full size, translate too."""
        count, steps = (1, 250) if size == "quick" else (3, 800)
        translation = {"translating": _translate(seed)} if size == "full" else {}
        copying = _copy(derive_seeds(seed, count), steps)
        return {"lengths": list(_LENGTHS), "copying": copying, **translation}

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare the drops."""
        drops = {
            name: confidence_interval([row[0] - row[-1] for row in rows])
            for name, rows in numbers["copying"].items()
        }
        drop = drops[NO_ATTENTION]
        signs = [
            drop.mean >= _MIN_DROP
            and drop.low > 0
            and drops[RECURRENT].mean < _MAX_SHARE * drop.mean
        ]
        first, last = numbers["lengths"][0], numbers["lengths"][-1]
        explanation = (
            f"From {first} to {last} symbols the share of correct symbols drops by "
            + ", ".join(f"{interval.mean:.2f} ({LABELS[name]})" for name, interval in drops.items())
        )
        if "translating" in numbers:
            bins = numbers["translating"]
            is_shown, sentence = _judge_translation(bins[0], bins[-1])
            signs.append(is_shown)
            explanation += f". In translation, {sentence}"
        verdict = grade(is_supported=all(signs), is_partly_supported=any(signs))
        return Judgment(verdict, f"{explanation}.")

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Quality over length."""
        panels = figure.subplots(1, 2 if "translating" in numbers else 1, squeeze=False)[0]
        for name, rows in numbers["copying"].items():
            means = [mean(column) for column in zip(*rows, strict=True)]
            _plot(panels[0], numbers["lengths"], means, name)
            for row in rows if len(rows) > 1 else ():
                panels[0].plot(numbers["lengths"], row, color=_COLORS[name], alpha=0.2)
        panels[0].set_ylim(0, 1.03)
        label_axes(panels[0], "Copying symbols", "source length", "share of correct symbols")
        if "translating" in numbers:
            bins = numbers["translating"]
            words = [row["words"] for row in bins]
            for name in _MODELS:
                _plot(panels[1], words, [row[name] for row in bins], name)
            panels[1].set_ylim(bottom=0)
            label_axes(panels[1], "Translating captions", "source length in words (mean)", "BLEU")
        panels[0].legend(frameon=False, loc="lower left")


def _judge_translation(short: dict[str, Any], long: dict[str, Any]) -> tuple[bool, str]:
    """Whether attention gains significantly more on the longest sentences, and a sentence."""
    scores = [(row, name) for row in (short, long) for name in (NO_ATTENTION, RECURRENT)]
    if min(row[name] for row, name in scores) <= 0:
        return False, "one model has learned nothing"
    ratios = [row[NO_ATTENTION] / row[RECURRENT] for row in (short, long)]
    drop = log(ratios[0] / ratios[1])
    margin = hypot(*(row["margins"][name] / row[name] for row, name in scores))
    is_better = long[RECURRENT] > long[NO_ATTENTION] and long["p_value"] < _MAX_P_VALUE
    return is_better and drop > margin, (
        f"BLEU without attention is {ratios[0]:.0%} of BLEU with attention on the shortest "
        f"sentences and {ratios[1]:.0%} on the longest (a drop of {drop:.2f} ± {margin:.2f} in the "
        "logarithm)"
    )


def _plot(axes: Axes, x: list[float], y: list[float], name: str) -> None:
    axes.plot(x, y, "o-", color=_COLORS[name], label=LABELS[name])


def _copy(seeds: list[int], steps: int) -> dict[str, list[list[float]]]:
    """For each model and seed, the share of correct symbols at each length."""
    task = copy_task(10, 2, _LENGTHS[-1])
    setup = TrainingSetup(steps, learning_rate=4e-3)
    shares: dict[str, list[list[float]]] = {}
    for name, settings in _MODELS.items():
        layers = {} if name == TRANSFORMER else {"encoder_layers": 1, "decoder_layers": 1}
        for seed in seeds:
            model = build(task, seed, **settings, **layers)
            train_model(model, task, setup, seed)
            row = [mean(accuracy_by_position(model, task, seed, length)) for length in _LENGTHS]
            shares.setdefault(name, []).append(row)
    return shares


def _translate(seed: int) -> list[dict[str, Any]]:
    """For each bin of source lengths: BLEU of each model, and the p-value of attention."""
    shared = comparison("full")
    text = shared.text(seed)
    order = (RECURRENT, NO_ATTENTION, TRANSFORMER)
    results = {name: train_translator(text, shared.settings(name), seed) for name in order}
    lengths = [len(source.split()) for source, _ in text.test]
    bins = []
    for low, high in zip((0, *_BIN_EDGES), (*_BIN_EDGES, max(lengths)), strict=True):
        rows = [row for row, length in enumerate(lengths) if low < length <= high]
        compared = compare_bleu(text, results, rows)
        bins.append(
            {"words": mean(lengths[row] for row in rows), "sentences": len(rows)}
            | {name: system.bleu for name, system in compared.items()}
            | {"margins": {name: system.margin for name, system in compared.items()}}
            | {"p_value": compared[NO_ATTENTION].p_value}
        )
    return bins
