"""C17: less inductive bias needs more data.

A convolution assumes locality, a recurrence assumes order; attention assumes neither   [APPLY-DL]
"""

from __future__ import annotations

from math import hypot

from matplotlib.figure import Figure

from dragoman.lab.baselines import CONVOLUTIONAL, LABELS, RECURRENT, TRANSFORMER, Budget
from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, Verdict, grade
from dragoman.lab.style import BLUE, GREEN, ORANGE, label_axes
from dragoman.lab.translation_runs import demo_text, multi30k, train_translator

_COLORS = {RECURRENT: ORANGE, CONVOLUTIONAL: GREEN, TRANSFORMER: BLUE}
_QUICK = Budget(updates=60, tokens=512, vocabulary=800, dropout=0.0, beam_size=1, validations=1)
_FULL = Budget(updates=800, tokens=2_048, vocabulary=2_000, dropout=0.2)
_SUMMARIES: dict[Verdict, str] = {
    "supported": (
        "With little text an older kind of network translated better, and with more text the "
        "Transformer gained on both."
    ),
    "partly supported": (
        "With more text the Transformer gained on an older kind of network, but not everything "
        "the lecture says was found."
    ),
    "not supported": "With more text the Transformer did not gain on the older kinds of network.",
}
_SIZES = {"quick": (300, 3_000), "full": (1_000, 4_000, 16_000)}


class DataSize(Experiment):
    """Three models, texts of growing size."""

    title = "Less inductive bias needs more data"
    sources = (
        (
            "APPLY-DL",
            "questions",
            "Convolutional and recurrent networks have more inductive bias and are good for small "
            "data sets; attention has little, which suits large amounts of data.",
        ),
    )
    durations = (73, 2153)
    claim = (
        "Recurrent and convolutional networks are built for sequences and do well on small texts; "
        "attention assumes little, and needs more text to be better."
    )
    method = (
        "An LSTM with attention, a convolutional network with attention and a Transformer of equal "
        "size are trained on texts of growing size, each a part of the next, always with the same "
        "number of updates. Each text has its own BPE vocabulary of the same size; all models are "
        "scored on one test text. Full: Multi30k, English to German; quick: the demo's grammar. "
        "One seed."
    )
    criterion = (
        "The Transformer's lead over a baseline (the difference in BLEU) must grow from the "
        "smallest text to the largest by more than the 95 % interval of that growth (the four "
        "intervals taken as independent). Supported if it grows so against both baselines, and a "
        "baseline is ahead on the smallest text; partly supported if it grows so against at least "
        "one. Inconclusive until a study with several seeds and longer training: one seed does not "
        "show the variation over seeds, and 800 updates are too few for the larger texts."
    )
    limitation = "One seed and a short training cannot decide this claim."

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train each model on each text."""
        sizes = _SIZES[size]
        budget = _QUICK if size == "quick" else _FULL
        text = demo_text(sizes[-1], 200, seed) if size == "quick" else multi30k()
        results = {
            name: [
                train_translator(text.first_pairs(count), budget.settings(name), seed).numbers()
                for count in sizes
            ]
            for name in (TRANSFORMER, RECURRENT, CONVOLUTIONAL)
        }
        return {"pairs": list(sizes), "models": results}

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare the lead on the smallest and on the largest text."""
        models, pairs = numbers["models"], numbers["pairs"]
        grows, leads, sentences = [], [], []
        for name in (RECURRENT, CONVOLUTIONAL):
            ends = [(models[TRANSFORMER][index], models[name][index]) for index in (0, -1)]
            first, last = (transformer["bleu"] - baseline["bleu"] for transformer, baseline in ends)
            margin = hypot(*((row["high"] - row["low"]) / 2 for pair in ends for row in pair))
            grows.append(last - first > margin)
            leads.append(first)
            sentences.append(
                f"over the {LABELS[name]} from {first:+.1f} to {last:+.1f} BLEU (growth ± "
                f"{margin:.1f})"
            )
        explanation = (
            f"From {pairs[0]:,} to {pairs[-1]:,} pairs the Transformer's lead changes "
            f"{' and '.join(sentences)}."
        )
        verdict = grade(is_supported=all(grows) and min(leads) < 0, is_partly_supported=any(grows))
        return Judgment(verdict, _SUMMARIES[verdict], explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """BLEU over the size of the text."""
        axes = figure.subplots()
        for name, rows in numbers["models"].items():
            scores = [row["bleu"] for row in rows]
            axes.plot(numbers["pairs"], scores, "o-", color=_COLORS[name], label=LABELS[name])
            lows, highs = [row["low"] for row in rows], [row["high"] for row in rows]
            axes.fill_between(numbers["pairs"], lows, highs, color=_COLORS[name], alpha=0.12)
        axes.set_xscale("log")
        axes.set_xticks(numbers["pairs"], [f"{pairs:,}" for pairs in numbers["pairs"]])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, loc="upper left")
        label_axes(axes, "Quality by text size (shaded: 95 % interval)", "training pairs", "BLEU")
