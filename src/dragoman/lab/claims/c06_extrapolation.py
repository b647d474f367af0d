"""C6: positions do not extrapolate to sentences longer than those in training.

learned: p₁ … p_T, and no more;   sinusoidal: p(t) is defined for every t   [CS224N] [CS182]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean
from typing import Any

from matplotlib.figure import Figure
from torch import nn

from dragoman.errors import LengthError
from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, Verdict, grade
from dragoman.lab.style import APART, BLUE, GRAY, GREEN, ORANGE, PURPLE, label_axes, percent_axis
from dragoman.lab.task import ToyTask, shift_task
from dragoman.lab.training import (
    TrainingSetup,
    accuracy_by_position,
    build_encoder_only,
    train_model,
)
from dragoman.lab.uncertainty import confidence_interval, derive_seeds

_LONGEST = 12
"""Words in the longest training sentence."""
_TEST_LENGTH = 3 * _LONGEST
_POSITIONS: Mapping[str, Any] = {
    # As many positions as in training: the longest sentence and its END token.
    "learned": {"name": "learned", "maximum": _LONGEST + 1},
    "sinusoidal": "sinusoidal",
    "rotary": "rotary",
    "shaw": "shaw",
}
_LABELS = {
    "learned": ("learned", ORANGE),
    "sinusoidal": ("sinusoidal", BLUE),
    "rotary": ("rotary (not in the lectures)", PURPLE),
    "shaw": ("relative (Shaw)", GREEN),
}
_MIN_TRAINED = 0.9
_MAX_LONGER = 0.5


class Extrapolation(Experiment):
    """Short sentences in training, long ones in the test."""

    title = "Absolute positions extrapolate poorly to longer sentences"
    sources = (
        (
            "CS224N",
            "Position representation vectors through sinusoids",
            "Sinusoids may extrapolate to longer sequences because their periods start again, but "
            "in practice the extrapolation does not really work.",
        ),
        (
            "CS224N",
            "Position representation vectors learned from scratch",
            "Learned positions are flexible, but they definitely cannot extrapolate beyond the "
            "positions 1 to T of the learned matrix.",
        ),
        (
            "CS182",
            "Positional encoding",
            "Learned positions need a maximum length that is chosen beforehand.",
        ),
    )
    durations = (26, 389)
    claim = (
        "Learned positions cannot be used beyond the length T that they were created for. "
        "Sinusoids are defined for every position, so they might extrapolate to longer sentences; "
        "in practice they do so poorly."
    )
    method = (
        "Encoder-only models of one layer learn to output, at each position, the previous word: a "
        f"rule that is the same everywhere. The training sentences have 2 to {_LONGEST} words; the "
        f"test sentences have {_TEST_LENGTH}. Learned positions get as many positions as training "
        "has. Shaw's relative and rotary positions show whether the rule itself can be applied to "
        "long sentences."
    )
    criterion = (
        f"Supported if learned positions reject a sentence of {_LONGEST + 1} words, and sinusoids "
        f"are correct at {_MIN_TRAINED:.0%} of the positions in sentences of {_LONGEST} words but, "
        f"at later positions of long sentences, at fewer than {_MAX_LONGER:.0%} (the 95 % interval "
        "over seeds is below); partly supported if learned positions reject it and sinusoids get "
        "worse, but less than that."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train on short sentences, test on long ones."""
        is_quick = size == "quick"
        task = replace(shift_task(10, _LONGEST, -1), shortest=2)
        setup = TrainingSetup(350 if is_quick else 1000, learning_rate=3e-3)
        numbers: Numbers = {"steps": setup.steps, "rejects": {}, "trained": {}, "longer": {}}
        for name, position in _POSITIONS.items():
            for model_seed in derive_seeds(seed, 1 if is_quick else 5):
                model = build_encoder_only(task, model_seed, position=position, encoder_layers=1)
                train_model(model, task, setup, model_seed)
                trained = accuracy_by_position(model, task, model_seed, _LONGEST)
                numbers["trained"].setdefault(name, []).append(trained)
                rejects = _rejects_longer(model, task, model_seed)
                numbers["rejects"].setdefault(name, []).append(rejects)
                if not rejects:
                    longer = accuracy_by_position(model, task, model_seed, _TEST_LENGTH)
                    numbers["longer"].setdefault(name, []).append(longer)
        return numbers

    def judge(self, numbers: Numbers) -> Judgment:
        """Which positions reject long sentences, and how accurate the others are."""
        trained = confidence_interval([mean(row) for row in numbers["trained"]["sinusoidal"]])
        longer = {
            name: confidence_interval([mean(row[_LONGEST:]) for row in rows])
            for name, rows in numbers["longer"].items()
        }
        does_reject = all(numbers["rejects"]["learned"])
        if "sinusoidal" not in longer:
            summary = "A model with sinusoids does not accept longer sentences at all."
            return Judgment("not supported", summary, "Sinusoids reject long sentences.")
        others = ", ".join(
            f"{_LABELS[name][0]} {share.mean:.0%}"
            for name, share in longer.items()
            if name != "sinusoidal"
        )
        sinusoidal = longer["sinusoidal"]
        explanation = (
            f"Learned positions {'reject' if does_reject else 'accept'} a sentence longer than "
            f"their matrix. With sinusoids, {trained.mean:.0%} of the words are correct in "
            f"sentences of the longest training length, and {sinusoidal.mean:.0%} at later "
            "positions of sentences three times as long. Other positions show that the rule can be "
            f"applied there: {others}."
        )
        is_worse = sinusoidal.high < trained.low
        verdict = grade(
            is_supported=does_reject
            and trained.mean >= _MIN_TRAINED
            and sinusoidal.high < _MAX_LONGER,
            is_partly_supported=does_reject and is_worse,
        )
        return Judgment(verdict, _summarize(does_reject, verdict, is_worse), explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Accuracy by position."""
        axes = figure.subplots()
        axes.axvspan(0.5, _LONGEST + 0.5, color=GRAY, alpha=0.15, linewidth=0)
        axes.text(_LONGEST / 2 + 0.5, 1.06, "positions in training", ha="center", color=GRAY)
        for index, (name, (label, color)) in enumerate(_LABELS.items()):
            rows = numbers["longer"].get(name) or numbers["trained"][name]
            intervals = map(confidence_interval, zip(*rows, strict=True))
            means, lows, highs = zip(*intervals, strict=True)
            positions = range(1, len(means) + 1)
            # Lines at the same height are moved apart by a little.
            means = tuple(share + 0.01 * (1.5 - index) for share in means)
            axes.plot(positions, means, "o-", color=color, label=label, markersize=3)
            axes.fill_between(
                positions,
                [max(0.0, low) for low in lows],
                [min(1.0, high) for high in highs],
                color=color,
                alpha=0.12,
                linewidth=0,
            )
            if name not in numbers["longer"]:
                axes.plot(len(means), means[-1], "X", color=color, markersize=10)
                axes.annotate(
                    "no further positions",
                    (len(means), means[-1]),
                    xytext=(8, 6),
                    textcoords="offset points",
                    color=color,
                )
        axes.set_ylim(0, 1.15)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        percent_axis(axes)
        handles = axes.get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False, title=APART)
        title = f"Trained on up to {_LONGEST} words, tested on {_TEST_LENGTH}"
        label_axes(axes, title, "position in the sentence", "correct symbols")


def _summarize(does_reject: bool, verdict: Verdict, is_worse: bool) -> str:
    """What was found, for a student."""
    learned = "cannot be used" if does_reject else "can be used"
    if verdict == "supported":
        sinusoids = "can be used but give mostly wrong outputs there"
    else:
        sinusoids = "get worse there" if is_worse else "do not get clearly worse there"
    return (
        f"In sentences longer than those in training, learned positions {learned}, and sinusoids "
        f"{sinusoids}."
    )


def _rejects_longer(model: nn.Module, task: ToyTask, seed: int) -> bool:
    """Whether a model rejects a sentence with one word more than in training."""
    try:
        accuracy_by_position(model, task, seed, _LONGEST + 1, count=1)
    except LengthError:
        return True
    return False
