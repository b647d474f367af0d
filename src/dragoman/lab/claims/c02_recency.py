"""C2: the final state of a recurrent encoder represents mostly the last words.

s = cell(… cell(cell(0, x₁), x₂) …, x_S)      x₁ passes through S − 1 more steps   [NLU]
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import chain
from statistics import mean
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.baselines import LABELS, NO_ATTENTION, TRANSFORMER
from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, GRAY, VERMILION, label_axes
from dragoman.lab.task import FIRST, ToyTask, copy_task, reverse_task
from dragoman.lab.training import TrainingSetup, accuracy_by_position, build, train_model
from dragoman.lab.uncertainty import confidence_interval, derive_seeds
from dragoman.model.recurrent import Recurrent, RecurrentMemory

_MODELS: dict[str, dict[str, Any]] = {
    NO_ATTENTION: {
        "architecture": "recurrent",
        "recurrent": {"attention": False, "bidirectional": False},
        "encoder_layers": 1,
        "decoder_layers": 1,
    },
    TRANSFORMER: {"architecture": "transformer"},
}
_ORDERS = {"forwards": copy_task, "backwards": reverse_task}
_LENGTH = 12
_END_SYMBOLS = 3
"""The number of symbols at the beginning and at the end that are compared."""
_MIN_GAIN = 0.05
_MAX_SHARE = 0.5
_MIN_RATIO = 1.25


class Recency(Experiment):
    """What the state keeps, by position in the source."""

    title = "A recurrent state represents mostly the last words"
    sources = (
        (
            "NLU",
            "RNN problem",
            "The representation of the encoder favors recent words: it represents mostly the final "
            "words of the input, so target words that belong to the beginning of the source are "
            "harder to generate correctly.",
        ),
    )
    durations = (39, 600)
    claim = (
        "The state of a recurrent encoder represents mostly the last words of the source, so "
        "target words that depend on its first words are harder to get right."
    )
    method = (
        "An LSTM without attention that reads from left to right, and a Transformer, learn to "
        f"output {_LENGTH} symbols: one model in the same order, another in reverse. In the mean "
        "of both orders the decoder outputs every symbol equally late, so only the time since the "
        "symbol was read differs. Measured are the share of correct symbols by position in the "
        "source, and how far the state moves if the symbol at a position is replaced, before and "
        "after training."
    )
    criterion = (
        f"Three signs, each with 95 % intervals over seeds. (1) The last {_END_SYMBOLS} symbols "
        f"are correct significantly more often than the first {_END_SYMBOLS}, by {_MIN_GAIN} or "
        f"more, and the Transformer's gain is below {_MAX_SHARE:.0%} of that. (2) The first "
        f"{_END_SYMBOLS} are correct significantly less often than those in the middle. (3) After "
        f"training, replacing one of the last {_END_SYMBOLS} symbols moves the state significantly "
        f"further than replacing one of the first, and at least {_MIN_RATIO} times as far. "
        "Supported if all three signs are present; partly supported if at least one is."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train in both orders, then evaluate every position."""
        count, steps = (1, 250) if size == "quick" else (5, 600)
        numbers: Numbers = {
            "orders": {name: {order: [] for order in _ORDERS} for name in _MODELS},
            "before": [],
            "after": [],
        }
        for model_seed in derive_seeds(seed, count):
            for name, settings in _MODELS.items():
                results = [
                    _train_and_evaluate(name, settings, order, steps, model_seed)
                    for order in _ORDERS
                ]
                for order, (shares, _, _) in zip(_ORDERS, results, strict=True):
                    numbers["orders"][name][order].append(shares)
                # Normalized, so that both orders have equal weight.
                if name == NO_ATTENTION:
                    before = [_normalize(distances) for _, distances, _ in results]
                    after = [_normalize(distances) for _, _, distances in results]
                    numbers["before"].append(_column_means(before))
                    numbers["after"].append(_column_means(after))
        return numbers

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare the beginning with the end."""
        rows = {name: _mean_of_orders(numbers, name) for name in _MODELS}
        gains = {
            name: confidence_interval(
                [mean(row[-_END_SYMBOLS:]) - mean(row[:_END_SYMBOLS]) for row in rows[name]]
            )
            for name in _MODELS
        }
        middle = confidence_interval(
            [
                mean(row[_END_SYMBOLS:-_END_SYMBOLS]) - mean(row[:_END_SYMBOLS])
                for row in rows[NO_ATTENTION]
            ]
        )
        ratios = {
            when: confidence_interval(
                [mean(row[-_END_SYMBOLS:]) / mean(row[:_END_SYMBOLS]) for row in numbers[when]]
            )
            for when in ("before", "after")
        }
        gain, ratio = gains[NO_ATTENTION], ratios["after"]
        signs = (
            gain.mean >= _MIN_GAIN
            and gain.low > 0
            and gains[TRANSFORMER].mean < _MAX_SHARE * gain.mean,
            middle.low > 0,
            ratio.mean >= _MIN_RATIO and ratio.low > 1,
        )
        explanation = (
            f"The last {_END_SYMBOLS} of {_LENGTH} symbols are correct more often than the first "
            f"by {gain.mean:.2f} (LSTM; from {gain.low:.2f} to {gain.high:.2f}) and "
            f"{gains[TRANSFORMER].mean:.2f} (Transformer). The share correct of the first minus "
            f"that of the middle is {-middle.mean:+.2f} (from {-middle.high:+.2f} to "
            f"{-middle.low:+.2f}). Replacing one of the last symbols moves the state "
            f"{ratios['before'].mean:.1f} times as far as replacing one of the first before "
            f"training, and {ratio.mean:.2f} times after it (from {ratio.low:.2f} to "
            f"{ratio.high:.2f})."
        )
        verdict = grade(is_supported=all(signs), is_partly_supported=any(signs))
        return Judgment(verdict, _summarize(*signs), explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Correct symbols, and sensitivity of the state, by position."""
        positions = range(1, _LENGTH + 1)
        left, right = figure.subplots(1, 2)
        for name, color in ((NO_ATTENTION, VERMILION), (TRANSFORMER, BLUE)):
            rows = _mean_of_orders(numbers, name)
            left.plot(positions, _column_means(rows), "o-", color=color, label=LABELS[name])
            for row in rows if len(rows) > 1 else ():
                left.plot(positions, row, color=color, alpha=0.2)
        left.set_ylim(0, 1.03)
        left.legend(frameon=False, loc="lower left")
        label_axes(left, "Accuracy by position", "source position", "share of correct symbols")
        for when, color in (("before", GRAY), ("after", VERMILION)):
            label = f"{when} training"
            right.plot(positions, _column_means(numbers[when]), "o-", color=color, label=label)
            for row in numbers[when] if len(numbers[when]) > 1 else ():
                right.plot(positions, row, color=color, alpha=0.2)
        right.set_ylim(bottom=0)
        right.legend(frameon=False, loc="upper left")
        label_axes(
            right,
            "Effect of replacing a symbol",
            "source position",
            "movement of the state (mean = 1)",
        )


def _summarize(is_last_better: bool, is_first_worse: bool, is_last_stronger: bool) -> str:
    """What the three signs mean, for a student."""
    if is_last_better and is_first_worse and is_last_stronger:
        return (
            "The memory of a recurrent network is dominated by the words that it read last, and "
            "the first words are the hardest to recall."
        )
    if not (is_last_better or is_first_worse or is_last_stronger):
        return "A trained recurrent network recalls the first words as well as the last ones."
    observations = [
        "recalls the last words better than the first"
        if is_last_better
        else "does not recall the last words clearly better than the first",
        "recalls the first words worse than those in the middle"
        if is_first_worse
        else "does not recall the first words worse than those in the middle",
        "its memory depends more on the last words than on the first"
        if is_last_stronger
        else "its memory depends on the first words about as much as on the last",
    ]
    first, second, third = observations
    return f"The trained recurrent network {first}, {second}, and {third}."


def _train_and_evaluate(
    name: str, settings: dict[str, Any], order: str, steps: int, seed: int
) -> tuple[list[float], list[float], list[float]]:
    """By source position: the share of correct symbols, and the state's movement before, after."""
    task = _ORDERS[order](10, _LENGTH, _LENGTH)
    model = build(task, seed, **settings)
    before = _state_movements(model, task, seed) if name == NO_ATTENTION else []
    train_model(model, task, TrainingSetup(steps, learning_rate=4e-3), seed)
    after = _state_movements(model, task, seed) if name == NO_ATTENTION else []
    shares = accuracy_by_position(model, task, seed, _LENGTH)
    return shares[::-1] if order == "backwards" else shares, before, after


@torch.no_grad()
def _state_movements(model: nn.Module, task: ToyTask, seed: int) -> list[float]:
    """How far the state moves on average if the symbol at each position is replaced."""
    assert isinstance(model, Recurrent)
    examples = task.examples(200, random.Random(f"exchanged {seed}"), _LENGTH)  # noqa: S311

    def final_state(source: torch.Tensor) -> torch.Tensor:
        memory = model.encode(source, examples.is_real)
        assert isinstance(memory, RecurrentMemory)
        states = memory.final_states
        return torch.cat(list(chain.from_iterable(states)), dim=-1)

    movements = []
    for position in range(_LENGTH):
        replaced = examples.source.clone()
        replaced[:, position] = FIRST + (replaced[:, position] - FIRST + 1) % task.symbols
        distance = (final_state(replaced) - final_state(examples.source)).norm(dim=-1)
        movements.append(distance.mean().item())
    return movements


def _mean_of_orders(numbers: Numbers, name: str) -> list[list[float]]:
    """For each seed, the share of correct symbols by position, averaged over both orders."""
    orders = numbers["orders"][name].values()
    return [_column_means(both) for both in zip(*orders, strict=True)]


def _normalize(row: list[float]) -> list[float]:
    middle = mean(row)
    return [value / middle for value in row]


def _column_means(rows: Iterable[list[float]]) -> list[float]:
    return [mean(column) for column in zip(*rows, strict=True)]
