"""C16: the Transformer beats its baselines at equal cost, and a larger one beats a smaller one.

The paper's table lists BLEU and training FLOPs   (Vaswani et al., 2017)   [APPLY-DL]
"""

from __future__ import annotations

from matplotlib.figure import Figure

from dragoman.lab.baselines import CONVOLUTIONAL, LABELS, LARGE, RECURRENT, TRANSFORMER, comparison
from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, GREEN, ORANGE, SKY, label_axes
from dragoman.lab.translation_runs import compare_bleu, train_translator

_MAX_P_VALUE = 0.05
_MAX_COST = 1.05
"""Up to this multiple of a baseline's FLOPs counts as equal; sizes differ by a few percent."""
_COLORS = {RECURRENT: ORANGE, CONVOLUTIONAL: GREEN, TRANSFORMER: BLUE, LARGE: SKY}


class BaselineTable(Experiment):
    """Four translation models, one text, equal updates."""

    title = "The paper's table, at small scale"
    lectures = ("APPLY-DL",)
    durations = (97, 859)
    claim = (
        "The Transformer translates better than recurrent and convolutional networks at equal or "
        "lower training cost, and a larger Transformer better than a smaller one."
    )
    method = (
        "An LSTM with attention, a convolutional network with attention and a Transformer of equal "
        "size, and a Transformer of at least twice the size, are trained on the same text with the "
        "same vocabulary, updates, tokens and search. All use Adam, each at its best learning rate "
        "on the validation text, found by doubling until the result got worse. Full: Multi30k, "
        "English to German, tokenized as in papers, test 2016, with a small part of the FLOPs of "
        "our own recipe; quick: the demo's grammar, so short that little is learned. One seed: the "
        "intervals cover the choice of test sentences, not the variation over seeds."
    )
    criterion = (
        "The Transformer beats a baseline if its BLEU is higher, a paired bootstrap gives "
        f"p < {_MAX_P_VALUE}, and its training took at most {_MAX_COST} times the baseline's "
        "FLOPs; the larger Transformer beats the smaller if its BLEU is higher with the same p. "
        "Supported if the Transformer beats both baselines and the larger one the smaller; partly "
        "supported if one or two of the three are true. Inconclusive until a study with several "
        "seeds and longer training: one seed does not show the variation over seeds, and 1,000 "
        "updates are too few to rank the architectures."
    )
    limitation = "One seed and a short training cannot decide this claim."

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train all four, then compare each with the Transformer."""
        shared = comparison(size)
        text = shared.text(seed)
        names = (TRANSFORMER, RECURRENT, CONVOLUTIONAL, LARGE)
        results = {name: train_translator(text, shared.settings(name), seed) for name in names}
        compared = compare_bleu(text, results)
        return {
            name: result.numbers() | {"p_value": compared[name].p_value}
            for name, result in results.items()
        }

    def judge(self, numbers: Numbers) -> Judgment:
        """Three comparisons with the Transformer."""
        transformer = numbers[TRANSFORMER]
        wins = {
            name: bool(
                transformer["bleu"] > numbers[name]["bleu"]
                and numbers[name]["p_value"] < _MAX_P_VALUE
                and transformer["flops"] <= _MAX_COST * numbers[name]["flops"]
            )
            for name in (RECURRENT, CONVOLUTIONAL)
        }
        large = numbers[LARGE]
        wins[LARGE] = bool(large["bleu"] > transformer["bleu"] and large["p_value"] < _MAX_P_VALUE)
        verbs = {name: "beats" if is_won else "does not beat" for name, is_won in wins.items()}
        listed = "; ".join(
            f"{LABELS[name]}: {row['bleu']:.1f} BLEU ({row['low']:.1f}–{row['high']:.1f}), "
            f"{row['flops']:.2g} FLOPs"
            + ("" if name == TRANSFORMER else f", p = {row['p_value']:.3f}")
            for name, row in numbers.items()
        )
        explanation = (
            f"The Transformer {verbs[RECURRENT]} the RNN and {verbs[CONVOLUTIONAL]} the CNN, and "
            f"the larger one {verbs[LARGE]} the smaller. {listed}."
        )
        verdict = grade(is_supported=all(wins.values()), is_partly_supported=any(wins.values()))
        return Judgment(verdict, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The table as bars, and the validation curves."""
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        for index, (name, row) in enumerate(numbers.items()):
            color = _COLORS[name]
            errors = [
                [max(0.0, row["bleu"] - row["low"])],
                [max(0.0, row["high"] - row["bleu"])],
            ]
            left.barh(index, row["bleu"], xerr=errors, color=color, height=0.6, capsize=3)
            cost = (
                f"{row['parameters'] / 1e6:.2g} M parameters\n"
                f"{row['flops']:.1e} FLOPs, {row['minutes']:.0f} min"
            )
            left.text(1.06 * max(row["high"], row["bleu"]), index, cost, va="center")
            updates, scores = zip(*row["curve"], strict=True)
            right.plot([0, *updates], [0, *scores], "o-", color=color, markersize=3)
        left.set_yticks(range(len(numbers)), [LABELS[name] for name in numbers])
        left.invert_yaxis()
        left.set_xlim(0, 1.9 * max(row["high"] for row in numbers.values()) + 1e-9)
        label_axes(left, "Quality and training cost", "BLEU on the test text, 95 % interval")
        left.grid(visible=False)
        label_axes(right, "During training", "updates", "BLEU on the validation text")
