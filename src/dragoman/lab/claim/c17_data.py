"""C17: does less inductive bias need more data?

A window assumes neighbours, a recurrence assumes an order; attention assumes nothing   (seed 003)
"""

from __future__ import annotations

from math import hypot

from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.rivals import CONVOLUTIONAL, LABELS, RECURRENT, TRANSFORMER, Budget
from dragoman.lab.style import BLUE, GREEN, ORANGE, tidy
from dragoman.lab.translating import demo_text, make, multi30k

_COLOURS = {RECURRENT: ORANGE, CONVOLUTIONAL: GREEN, TRANSFORMER: BLUE}
_QUICK = Budget(updates=60, tokens=512, vocabulary=800, dropout=0.0, beam=1, validations=1)
_FULL = Budget(updates=800, tokens=2_048, vocabulary=2_000, dropout=0.2)
_SIZES = {"quick": (300, 3_000), "full": (1_000, 4_000, 16_000)}


class Data(Experiment):
    """Three rivals, texts that grow."""

    title = "Less inductive bias needs more data"
    claim = (
        "Recurrent and convolutional networks are built for sequences, and do well on small texts; "
        "attention assumes little, and needs more text to come out ahead."
    )
    lectures = ("003",)
    method = (
        "An LSTM with attention, a convolutional network with attention and a Transformer of like "
        "size learn from texts that grow, each a part of the next, always by the same updates; "
        "each text has its own BPE of the same size, all are judged by one test text. Full: "
        "Multi30k, English to German; quick: the demo's grammar. One seed."
    )
    criterion = (
        "The Transformer's lead over a rival (the difference in BLEU) must grow from the smallest "
        "text to the largest by more than the 95 % interval of that growth (the four intervals "
        "taken as independent). Holds if it grows so against both, and a rival is ahead on the "
        "smallest text; in part if it grows so against one at least."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train each rival on each text."""
        sizes = _SIZES[size]
        budget = _QUICK if size == "quick" else _FULL
        text = demo_text(sizes[-1], 200, seed) if size == "quick" else multi30k()
        found = {
            name: [
                make(text.beginning(count), budget.settings(name), seed).figures()
                for count in sizes
            ]
            for name in (TRANSFORMER, RECURRENT, CONVOLUTIONAL)
        }
        return {"pairs": list(sizes), "models": found}

    def judge(self, numbers: Numbers) -> Judgement:
        """How does the lead grow?"""
        models, pairs = numbers["models"], numbers["pairs"]
        grows, leads = [], []
        told = []
        for name in (RECURRENT, CONVOLUTIONAL):
            ends = [(models[TRANSFORMER][place], models[name][place]) for place in (0, -1)]
            first, last = (own["bleu"] - other["bleu"] for own, other in ends)
            margin = hypot(*((each["high"] - each["low"]) / 2 for pair in ends for each in pair))
            grows.append(last - first > margin)
            leads.append(first)
            told.append(
                f"over the {LABELS[name]} from {first:+.1f} to {last:+.1f} BLEU (± {margin:.1f} of "
                "the growth)"
            )
        words = (
            f"From {pairs[0]:,} to {pairs[-1]:,} pairs the Transformer's lead goes "
            f"{' and '.join(told)}."
        )
        if all(grows) and min(leads) < 0:
            return Judgement("holds", words)
        return Judgement("holds in part" if any(grows) else "does not hold here", words)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """BLEU over the size of the text."""
        axes = figure.subplots()
        for name, rows in numbers["models"].items():
            scores = [row["bleu"] for row in rows]
            axes.plot(numbers["pairs"], scores, "o-", color=_COLOURS[name], label=LABELS[name])
            low, high = [row["low"] for row in rows], [row["high"] for row in rows]
            axes.fill_between(numbers["pairs"], low, high, color=_COLOURS[name], alpha=0.12)
        axes.set_xscale("log")
        axes.set_xticks(numbers["pairs"], [f"{each:,}" for each in numbers["pairs"]])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, loc="upper left")
        tidy(
            axes,
            "Who learns from how much text (shaded: 95 % interval)",
            "pairs to learn from",
            "BLEU",
        )
