"""C19: relative position matters more than absolute position.

    "I walk my dog every day"  /  "every single day I walk my dog"              [CS182]

What matters is that "my dog" follows "I walk", not that it starts at the third position. So a
phrase is trained at some positions and tested at positions where it never occurred. The lecture's
contrast is the naive encoding (xₜ, t): the number of the position as one more feature.
"""

from __future__ import annotations

import random
from statistics import mean
from typing import Any

from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, Verdict, grade
from dragoman.lab.style import BLUE, GRAY, ORANGE, label_axes, percent_axis
from dragoman.lab.task import ToyTask
from dragoman.lab.training import TrainingSetup, accuracy, build_encoder_only, train_model
from dragoman.lab.uncertainty import Interval, confidence_interval, derive_seeds

_WORDS, _PHRASE, _LENGTH = 8, 4, 20
_LAST_TRAINED = 7
"""The last position at which a phrase starts in training."""
_MODEL = {"width": 32, "heads": 2, "encoder_layers": 1, "feed_forward_width": 64}
_POSITIONS: dict[str, dict[str, Any]] = {
    "naive": {"position": "naive", "position_entry": "concatenated", "position_features": 1},
    "learned": {"position": "learned"},
    "sinusoidal": {"position": "sinusoidal"},
    "rotary": {"position": "rotary"},
    "shaw": {"position": "shaw"},
}
"""Kinds of position, with the settings of their models."""
_LABELS = {
    "naive": "the number t",
    "learned": "learned",
    "sinusoidal": "sinusoidal",
    "rotary": "rotary",
    "shaw": "Shaw",
}
_RELATIVE, _ABSOLUTE = ("rotary", "shaw"), ("naive", "learned", "sinusoidal")
_LEARNED = 0.9
_SUMMARIES: dict[Verdict, str] = {
    "supported": (
        "Networks that see relative positions handle a phrase wherever it stands; networks that "
        "see absolute positions do worse at positions where it never stood in training."
    ),
    "partly supported": (
        "On average, networks that see relative positions handle a phrase better at positions "
        "where it never stood in training, but not all that the claim needs was found."
    ),
    "not supported": (
        "Networks that see relative positions do not handle a phrase better at positions where it "
        "never stood in training."
    ),
}


def phrase_task() -> ToyTask:
    """A phrase among fillers; each of its words outputs the previous word of the phrase.

    The "length" that this task draws is the position where the phrase starts.
    """

    def draw(rng: random.Random, start: int) -> tuple[list[int], list[int]]:
        words = [rng.randrange(_WORDS) for _ in range(_PHRASE)]
        source, target = [_WORDS] * _LENGTH, [_WORDS] * _LENGTH
        source[start : start + _PHRASE] = words
        target[start + 1 : start + _PHRASE] = words[:-1]
        return source, target

    return ToyTask(draw, _WORDS + 1, 0, _LAST_TRAINED)


class RelativePosition(Experiment):
    """A phrase at positions where it never occurred in training."""

    title = "A phrase keeps its meaning when it moves"
    sources = (
        (
            "CS182",
            "Positional encoding",
            "The naive encoding gives the network the number of the position, but what matters is "
            "mostly where words stand relative to each other: “my dog” follows “i walk” directly, "
            "wherever the phrase is.",
        ),
        (
            "CS224N",
            "Position representation vectors through sinusoids",
            "That sinusoids are periodic suggests that absolute position may be less important.",
        ),
    )
    durations = (40, 420)
    claim = (
        "Relative position matters more than absolute position: in “I walk my dog every day” and "
        "“every single day I walk my dog” the same words belong together, wherever they stand."
    )
    method = (
        f"A phrase of {_PHRASE} words stands among fillers, and each of its words must output the "
        f"previous one. All sentences have {_LENGTH} positions, so every position occurs in "
        f"training; but there the phrase starts at one of the first {_LAST_TRAINED + 1} only, and "
        "later positions hold only fillers, which a model with absolute positions learns too. "
        "Encoder-only models of one layer have absolute positions (the number t as one feature, "
        "learned, sinusoidal) or relative ones (rotary, Shaw) and are tested with the phrase at "
        "every position."
    )
    criterion = (
        "Supported if all except the number t, which the lecture rejects, learn the phrase at the "
        "trained positions, both relative ones transfer it to new positions, each with more than "
        f"{_LEARNED:.0%} of examples correct, and all "
        "absolute ones transfer it less, with 95 % intervals over seeds that do not overlap; "
        "partly supported if the relative ones transfer it better on average, but not all of this "
        "is true."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train at the first positions, test at all."""
        task = phrase_task()
        steps = 400 if size == "quick" else 1200
        setup = TrainingSetup(steps, batch_size=32, learning_rate=5e-3)
        starts = list(range(_LENGTH - _PHRASE + 1))
        numbers: Numbers = {"positions": starts, "steps": setup.steps, "accuracy": {}}
        for position, settings in _POSITIONS.items():
            numbers["accuracy"][position] = []
            for model_seed in derive_seeds(seed, 2 if size == "quick" else 6):
                model = build_encoder_only(task, model_seed, **_MODEL, **settings)
                train_model(model, task, setup, model_seed)
                row = [
                    accuracy(model, task, model_seed, count=100, length=start) for start in starts
                ]
                numbers["accuracy"][position].append(row)
        return numbers

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare at positions where the phrase did not occur in training."""
        trained = {name: _accuracy(numbers, name, is_trained=True) for name in _POSITIONS}
        new = {name: _accuracy(numbers, name, is_trained=False) for name in _POSITIONS}
        listed = ", ".join(
            f"{_LABELS[name]} ({'relative' if name in _RELATIVE else 'absolute'}) "
            f"{trained[name].mean:.0%} and {new[name].mean:.0%}"
            for name in _POSITIONS
        )
        explanation = f"Correct examples at trained and at new positions: {listed}."
        relative = [new[name] for name in _RELATIVE]
        absolute = [new[name] for name in _ABSOLUTE]
        is_separate = min(share.low for share in relative) > max(share.high for share in absolute)
        is_transferred = min(share.mean for share in relative) > _LEARNED
        is_learned = all(
            share.mean > _LEARNED for name, share in trained.items() if name != "naive"
        )
        is_better = mean(share.mean for share in relative) > mean(share.mean for share in absolute)
        verdict = grade(
            is_supported=is_learned and is_transferred and is_separate,
            is_partly_supported=is_better,
        )
        return Judgment(verdict, _SUMMARIES[verdict], explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Accuracy at every position; a panel for each kind, because many lines coincide."""
        panels = figure.subplots(1, len(_POSITIONS), sharey=True)
        starts = numbers["positions"]
        for axes, position in zip(panels, _POSITIONS, strict=True):
            color = BLUE if position in _RELATIVE else ORANGE
            axes.axvspan(-0.5, _LAST_TRAINED + 0.5, color=GRAY, alpha=0.15, linewidth=0)
            rows = numbers["accuracy"][position]
            for row in rows:
                axes.plot(starts, row, color=color, alpha=0.3, linewidth=0.8)
            means = [mean(column) for column in zip(*rows, strict=True)]
            axes.plot(starts, means, color=color, linewidth=2)
            axes.set_xticks([0, 8, 16])
            axes.set_ylim(-0.05, 1.15)
            axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
            kind = "relative" if position in _RELATIVE else "absolute"
            label_axes(axes, f"{_LABELS[position]}\n({kind})")
        percent_axis(panels[0])
        panels[0].set_ylabel("correct examples")
        for x, text in ((_LAST_TRAINED / 2, "trained"), ((_LAST_TRAINED + starts[-1]) / 2, "new")):
            panels[0].text(x, 1.06, text, ha="center", color=GRAY, fontsize=8)
        figure.supxlabel(
            "position where the phrase starts; thin: one seed, thick: mean", fontsize=9
        )


def _accuracy(numbers: Numbers, position: str, *, is_trained: bool) -> Interval:
    """The mean over the positions where the phrase was trained, or over the others."""
    return confidence_interval(
        [
            mean(
                row[start]
                for start in numbers["positions"]
                if (start <= _LAST_TRAINED) == is_trained
            )
            for row in numbers["accuracy"][position]
        ]
    )
