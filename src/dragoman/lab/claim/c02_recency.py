"""C2: does a recurrent encoder remember mostly the final words?

s = cell(… cell(cell(0, x₁), x₂) …, x_S)      x₁ goes through S − 1 more steps   (seed 000)
"""

from __future__ import annotations

import random
from itertools import chain
from statistics import mean
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.chance import interval, seeds
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.rivals import FORGETFUL, LABELS, TRANSFORMER
from dragoman.lab.style import BLUE, GREY, VERMILION, tidy
from dragoman.lab.task import FIRST, Task, copying, reversing
from dragoman.lab.teaching import Lesson, accuracy_by_place, build, teach
from dragoman.model.recurrent import Recurrent

_PUPILS: dict[str, dict[str, Any]] = {
    FORGETFUL: {
        "architecture": "recurrent",
        "recurrent": {"attends": False, "both_ways": False},
        "encoder_layers": 1,
        "decoder_layers": 1,
    },
    TRANSFORMER: {"architecture": "transformer"},
}
_ORDERS = {"forwards": copying, "backwards": reversing}
_LENGTH = 12
_PART = 3
"""Words at the beginning, and at the end, that are compared."""
_LOSS = 0.05
_SHARE = 0.5
_TRACE = 1.25


class Recency(Experiment):
    """Who is remembered, by the place in the source?"""

    title = "What the state remembers of a sentence"
    claim = (
        "A recurrent encoder's state represents mostly the final words of the source, so target "
        "words that depend on its first words are harder to get right."
    )
    lectures = ("000",)
    method = (
        "An LSTM without attention that reads from left to right, and a Transformer, learn to say "
        f"{_LENGTH} symbols again: one pupil in their order, another one backwards. In the mean of "
        "both orders the decoder waits equally long for every symbol, and what differs is how long "
        "ago it was read. Asked are the share of right symbols by their place in the source, and "
        "how far the state moves if the symbol at a place is exchanged, before and after learning."
    )
    criterion = (
        f"Three signs, in 95 % intervals over seeds. The last {_PART} symbols are right more often "
        f"than the first {_PART}, surely and by {_LOSS} or more, and the Transformer's gain is "
        f"below {_SHARE:.0%} of that. The first {_PART} are surely right less often than those in "
        f"the middle. After learning, exchanging one of the last {_PART} moves the state surely "
        f"further than one of the first, and at least {_TRACE} times as far. Holds if all three "
        "are seen; in part if one is."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Teach both orders, ask each place, exchange each symbol."""
        count, steps = (1, 250) if size == "quick" else (5, 600)
        found: Numbers = {
            "orders": {name: {order: [] for order in _ORDERS} for name in _PUPILS},
            "before": [],
            "after": [],
        }
        for each in seeds(seed, count):
            for name, settings in _PUPILS.items():
                asked = [_ask(name, settings, order, steps, each) for order in _ORDERS]
                for order, (right, _, _) in zip(_ORDERS, asked, strict=True):
                    found["orders"][name][order].append(right)
                # Both orders weigh the same, whatever the size of their states.
                if name == FORGETFUL:
                    found["before"].append(_mean(_scaled(before) for _, before, _ in asked))
                    found["after"].append(_mean(_scaled(after) for _, _, after in asked))
        return found

    def judge(self, numbers: Numbers) -> Judgement:
        """Compare the beginning with the end."""
        rows = {name: _rows(numbers, name) for name in _PUPILS}
        gains = {
            name: interval([mean(row[-_PART:]) - mean(row[:_PART]) for row in rows[name]])
            for name in _PUPILS
        }
        early = interval([mean(row[_PART:-_PART]) - mean(row[:_PART]) for row in rows[FORGETFUL]])
        traces = {
            when: interval([mean(row[-_PART:]) / mean(row[:_PART]) for row in numbers[when]])
            for when in ("before", "after")
        }
        gain, lower, _ = gains[FORGETFUL]
        signs = (
            gain >= _LOSS and lower > 0 and gains[TRANSFORMER][0] < _SHARE * gain,
            early[1] > 0,
            traces["after"][0] >= _TRACE and traces["after"][1] > 1,
        )
        words = (
            f"The last {_PART} of {_LENGTH} symbols are right more often than the first by "
            f"{gain:.2f} (LSTM; from {lower:.2f} to {gains[FORGETFUL][2]:.2f}) and "
            f"{gains[TRANSFORMER][0]:.2f} (Transformer). The first are right less often than those "
            f"in the middle by {early[0]:.2f} (from {early[1]:.2f} to {early[2]:.2f}). Exchanging "
            f"one of the last moves the state {traces['before'][0]:.1f} times as far as one of the "
            f"first before learning, {traces['after'][0]:.2f} times after it (from "
            f"{traces['after'][1]:.2f} to {traces['after'][2]:.2f})."
        )
        if all(signs):
            return Judgement("holds", words)
        return Judgement("holds in part" if any(signs) else "does not hold here", words)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Right symbols, and traces in the state, by place."""
        places = range(1, _LENGTH + 1)
        right, trace = figure.subplots(1, 2)
        for name, colour in ((FORGETFUL, VERMILION), (TRANSFORMER, BLUE)):
            rows = _rows(numbers, name)
            right.plot(places, _mean(rows), "o-", color=colour, label=LABELS[name])
            for row in rows if len(rows) > 1 else ():
                right.plot(places, row, color=colour, alpha=0.2)
        right.set_ylim(0, 1.03)
        right.legend(frameon=False, loc="lower left")
        tidy(right, "Who is said right", "place in the source", "share of right symbols")
        for when, colour in (("before", GREY), ("after", VERMILION)):
            label = f"{when} learning"
            trace.plot(places, _mean(numbers[when]), "o-", color=colour, label=label)
        trace.set_ylim(bottom=0)
        trace.legend(frameon=False, loc="upper left")
        tidy(trace, "Who leaves a trace in the state", "place in the source", "how far it moves")


def _ask(
    name: str, settings: dict[str, Any], order: str, steps: int, seed: int
) -> tuple[list[float], list[float], list[float]]:
    """By place in the source: the share of right symbols, and the traces before and after."""
    task = _ORDERS[order](10, _LENGTH, _LENGTH)
    model = build(task, seed, **settings)
    before = _traces(model, task, seed) if name == FORGETFUL else []
    teach(model, task, Lesson(steps, rate=4e-3), seed)
    after = _traces(model, task, seed) if name == FORGETFUL else []
    right = accuracy_by_place(model, task, seed, _LENGTH)
    return right[::-1] if order == "backwards" else right, before, after


@torch.no_grad()
def _traces(model: nn.Module, task: Task, seed: int) -> list[float]:
    """How far the state moves, in the mean, if the symbol at a place is exchanged."""
    assert isinstance(model, Recurrent)
    examples = task.examples(200, random.Random(f"exchanged {seed}"), _LENGTH)  # noqa: S311

    def state(source: torch.Tensor) -> torch.Tensor:
        ended = model.encode(source, examples.is_real).ended
        return torch.cat(list(chain.from_iterable(ended)), dim=-1)

    moved = []
    for place in range(_LENGTH):
        other = examples.source.clone()
        other[:, place] = FIRST + (other[:, place] - FIRST + 1) % task.symbols
        distance = (state(other) - state(examples.source)).norm(dim=-1)
        moved.append(distance.mean().item())
    return moved


def _rows(numbers: Numbers, name: str) -> list[list[float]]:
    """Of each seed, the share of right symbols by place, in the mean of both orders."""
    orders = numbers["orders"][name].values()
    return [_mean(both) for both in zip(*orders, strict=True)]


def _scaled(row: list[float]) -> list[float]:
    middle = mean(row)
    return [each / middle for each in row]


def _mean(rows: Any) -> list[float]:
    return [mean(column) for column in zip(*rows, strict=True)]
