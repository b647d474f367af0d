"""C16: does the Transformer beat its rivals at equal cost, and a larger one a smaller one?

The paper's table has BLEU and training FLOPs side by side   (Vaswani et al., 2017; seed 003)
"""

from __future__ import annotations

from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.rivals import CONVOLUTIONAL, LABELS, LARGE, RECURRENT, TRANSFORMER, bout
from dragoman.lab.style import BLUE, GREEN, ORANGE, SKY, tidy
from dragoman.lab.translating import compare_all, make

_LUCK = 0.05
_COST = 1.05
"""So many times a rival's FLOPs still count as equal: sizes are alike to a few per cent."""
_COLOURS = {RECURRENT: ORANGE, CONVOLUTIONAL: GREEN, TRANSFORMER: BLUE, LARGE: SKY}


class Table(Experiment):
    """Four translators, one text, as many updates."""

    title = "The paper's table, at small scale"
    claim = (
        "The Transformer translates better than recurrent and convolutional networks at equal or "
        "lower training cost, and a larger Transformer better than a smaller one."
    )
    lectures = ("003",)
    method = (
        "An LSTM with attention, a convolutional network with attention and a Transformer of like "
        "size, and a Transformer of twice the size or more, learn from the same text with the same "
        "vocabulary, updates, tokens and search; Adam for all, each at its own best rate on the "
        "development text, found by doubling until it got worse. Full: Multi30k, English to "
        "German, the papers' text, test 2016, with a small part of the FLOPs that our own recipe "
        "takes; quick: the demo's grammar, so short that little is learned. One seed: chance is "
        "that of the test sentences, and how far seeds lie apart is not known."
    )
    criterion = (
        "The Transformer beats a rival if its BLEU is higher, a paired bootstrap gives "
        f"p < {_LUCK}, and its training took at most {_COST} times the rival's FLOPs; the larger "
        "beats the smaller if its BLEU is higher with the same p. Holds if it beats both rivals "
        "and the larger the smaller; in part if one or two of the three are so."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train all four, then compare each with the Transformer."""
        match = bout(size)
        names = (TRANSFORMER, RECURRENT, CONVOLUTIONAL, LARGE)
        trained = {name: make(match.text(seed), match.settings(name), seed) for name in names}
        compared = compare_all(match.text(seed), trained)
        return {
            name: each.figures() | {"luck": compared[name].luck} for name, each in trained.items()
        }

    def judge(self, numbers: Numbers) -> Judgement:
        """Three comparisons with the Transformer."""
        own = numbers[TRANSFORMER]

        def is_ahead(better: Numbers, worse: Numbers, told: Numbers) -> bool:
            return bool(better["bleu"] > worse["bleu"] and told["luck"] < _LUCK)

        won = {
            name: is_ahead(own, numbers[name], numbers[name])
            and own["flops"] <= _COST * numbers[name]["flops"]
            for name in (RECURRENT, CONVOLUTIONAL)
        }
        won[LARGE] = is_ahead(numbers[LARGE], own, numbers[LARGE])
        told = "; ".join(
            f"{LABELS[name]}: {each['bleu']:.1f} BLEU ({each['low']:.1f}–{each['high']:.1f}), "
            f"{each['flops']:.2g} FLOPs"
            + ("" if name == TRANSFORMER else f", p = {each['luck']:.3f}")
            for name, each in numbers.items()
        )
        words = (
            f"The Transformer {'beats' if won[RECURRENT] else 'does not beat'} the RNN and "
            f"{'beats' if won[CONVOLUTIONAL] else 'does not beat'} the CNN, and the larger one "
            f"{'beats' if won[LARGE] else 'does not beat'} the smaller. {told}."
        )
        if all(won.values()):
            return Judgement("holds", words)
        return Judgement("holds in part" if any(won.values()) else "does not hold here", words)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The table as bars, and how each learned."""
        score, curve = figure.subplots(1, 2, width_ratios=(3, 2))
        for place, (name, each) in enumerate(numbers.items()):
            colour = _COLOURS[name]
            ends = [
                [max(0.0, each["bleu"] - each["low"])],
                [max(0.0, each["high"] - each["bleu"])],
            ]
            score.barh(place, each["bleu"], xerr=ends, color=colour, height=0.6, capsize=3)
            cost = (
                f"{each['parameters'] / 1e6:.2g} M parameters\n"
                f"{each['flops']:.1e} FLOPs, {each['minutes']:.0f} min"
            )
            score.text(1.06 * max(each["high"], each["bleu"]), place, cost, va="center")
            steps, watched = zip(*each["curve"], strict=True)
            curve.plot([0, *steps], [0, *watched], "o-", color=colour, markersize=3)
        score.set_yticks(range(len(numbers)), [LABELS[name] for name in numbers])
        score.invert_yaxis()
        score.set_xlim(0, 1.9 * max(each["high"] for each in numbers.values()) + 1e-9)
        tidy(score, "What they reach, and what it took", "BLEU of the test text, 95 % interval")
        score.grid(visible=False)
        tidy(curve, "On the way", "updates", "BLEU of the development text")
