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

from dragoman.lab.chance import interval
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
        f"Two signs. The first {_PART} symbols are right less often than the last {_PART}, by "
        f"{_LOSS} or more (over seeds, the 95 % interval of this loss is above zero), and the "
        f"Transformer's loss is below {_SHARE:.0%} of it. After learning, exchanging one of the "
        f"last {_PART} moves the state at least {_TRACE} times as far as one of the first. Holds "
        "if both are seen; in part if one is."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Teach both orders, ask each place, exchange each symbol."""
        seeds, steps = (1, 250) if size == "quick" else (5, 600)
        found: Numbers = {"right": {name: [] for name in _PUPILS}, "before": [], "after": []}
        for each in range(seed, seed + seeds):
            for name, settings in _PUPILS.items():
                asked = [_ask(name, settings, order, steps, each) for order in (False, True)]
                # Both orders weigh the same, whatever the size of their states.
                found["right"][name].append(_mean(right for right, _, _ in asked))
                if name == FORGETFUL:
                    found["before"].append(_mean(_scaled(before) for _, before, _ in asked))
                    found["after"].append(_mean(_scaled(after) for _, _, after in asked))
        return found

    def judge(self, numbers: Numbers) -> Judgement:
        """Compare the beginning with the end."""
        lost = {
            name: interval([mean(row[-_PART:]) - mean(row[:_PART]) for row in rows])
            for name, rows in numbers["right"].items()
        }
        traces = {
            when: mean(mean(row[-_PART:]) / mean(row[:_PART]) for row in numbers[when])
            for when in ("before", "after")
        }
        loss, lower, _ = lost[FORGETFUL]
        is_harder = loss >= _LOSS and lower > 0 and lost[TRANSFORMER][0] < _SHARE * loss
        is_fainter = traces["after"] >= _TRACE
        words = (
            f"The first {_PART} of {_LENGTH} symbols are right less often than the last by "
            f"{loss:.2f} (LSTM) and {lost[TRANSFORMER][0]:.2f} (Transformer). Exchanging one of "
            f"the last moves the state {traces['before']:.1f} times as far as one of the first "
            f"before learning, {traces['after']:.1f} times after it."
        )
        if is_harder and is_fainter:
            return Judgement("holds", words)
        is_seen = is_harder or is_fainter
        return Judgement("holds in part" if is_seen else "does not hold here", words)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Right symbols, and traces in the state, by place."""
        places = range(1, _LENGTH + 1)
        right, trace = figure.subplots(1, 2)
        for name, colour in ((FORGETFUL, VERMILION), (TRANSFORMER, BLUE)):
            rows = numbers["right"][name]
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
    name: str, settings: dict[str, Any], is_backwards: bool, steps: int, seed: int
) -> tuple[list[float], list[float], list[float]]:
    """By place in the source: the share of right symbols, and the traces before and after."""
    task = (reversing if is_backwards else copying)(10, _LENGTH, _LENGTH)
    model = build(task, seed, **settings)
    before = _traces(model, task, seed) if name == FORGETFUL else []
    teach(model, task, Lesson(steps, rate=4e-3), seed)
    after = _traces(model, task, seed) if name == FORGETFUL else []
    right = accuracy_by_place(model, task, seed, _LENGTH)
    return right[::-1] if is_backwards else right, before, after


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


def _scaled(row: list[float]) -> list[float]:
    middle = mean(row)
    return [each / middle for each in row]


def _mean(rows: Any) -> list[float]:
    return [mean(column) for column in zip(*rows, strict=True)]
