"""C25: how do soft, hard and local attention compare?

soft    aᵢ = softmax(s)ᵢ                        every key weighs
hard    aᵢ = 1 for i = argmax s, else 0         only the best key
local   softmax over |i − t| ≤ window           a window of keys            (seed 002)
"""

from __future__ import annotations

import random
from statistics import mean
from typing import Any

import torch
from matplotlib.figure import Figure

from dragoman.lab.chance import interval, seeds
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import BLUE, GREEN, ORANGE, dots, tidy
from dragoman.lab.task import Task, shifting
from dragoman.lab.teaching import Lesson, accuracies, build_reader, trial
from dragoman.model.record import record

_LENGTH, _WINDOW = 14, 2
_AWAY = {"near": -1, "far": -6}
_MODEL = {"width": 32, "head_count": 1, "encoder_layers": 1, "feed_forward_width": 64}
_REACHES: dict[str, tuple[Any, str]] = {
    "soft": ("soft", BLUE),
    "hard": ("hard", ORANGE),
    "local": ({"name": "local", "window": _WINDOW}, GREEN),
}
_LEARNED, _NOT_LEARNED = 0.9, 0.5


class Reaches(Experiment):
    """A task for near neighbours and one for far ones, learned with each reach."""

    title = "Soft, hard and local attention"
    claim = (
        "Attention may weigh every key, only the best one, or the keys of a window. The lecture "
        "lists them; that each serves, the last within its window, is our reading."
    )
    lectures = ("002",)
    method = (
        "Readers of one layer and one head, which differ in nothing but their reach, learn to say "
        f"the symbol {-_AWAY['near']} place before, and in another lesson the symbol "
        f"{-_AWAY['far']} places before. The window reaches {_WINDOW} places either way. The hard "
        "choice has no gradient; it is trained straight through, by that of the softmax behind it. "
        "Afterwards the weights are recorded."
    )
    criterion = (
        f"Learned means that seeds on average say more than {_LEARNED:.0%} of new examples without "
        f"a fault, not learned less than {_NOT_LEARNED:.0%}. Holds if soft and hard learn both "
        "tasks, and local learns the near one and not the far one. In part if soft learns both "
        "and one of the other two does what is said of it. Else not."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Teach, and look at the weights."""
        lesson = Lesson(300 if size == "quick" else 800, batch=32, rate=5e-3)
        own = seeds(seed, 1 if size == "quick" else 5)
        numbers: Numbers = {"steps": lesson.steps, "maps": {}}
        for distance, away in _AWAY.items():
            task = shifting(10, _LENGTH, away)
            numbers[distance], numbers["maps"][distance] = {}, {}
            for name, (reach, _) in _REACHES.items():
                trials = []
                for each in own:
                    reader = build_reader(task, each, **_MODEL, reach=reach)
                    trials.append(trial(reader, task, lesson, each))
                    if each == own[0]:
                        numbers["maps"][distance][name] = _look(reader, task, seed)
                numbers[distance][name] = trials
        return numbers

    def judge(self, numbers: Numbers) -> Judgement:
        """Ask what is said of each."""
        share = {
            name: {each: interval(accuracies(numbers[each][name])) for each in _AWAY}
            for name in _REACHES
        }
        told = ", ".join(
            f"{name} {share[name]['near'][0]:.0%} and {share[name]['far'][0]:.0%}"
            for name in _REACHES
        )
        because = (
            f"Examples without a fault after {numbers['steps']} steps, for near and far symbols: "
            f"{told}. In the mean of many near examples, the largest weight of a word is "
            + ", ".join(f"{_sharpness(numbers, name):.2f} for {name}" for name in _REACHES)
            + "."
        )
        soft, hard = (
            min(middle for middle, _, _ in share[name].values()) > _LEARNED
            for name in ("soft", "hard")
        )
        near, far = share["local"]["near"][0], share["local"]["far"][0]
        local = near > _LEARNED and far < _NOT_LEARNED
        if soft and hard and local:
            return Judgement("holds", because)
        in_part = soft and (hard or local)
        return Judgement("holds in part" if in_part else "does not hold here", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Who learned what, and the weights of each."""
        grid = figure.add_gridspec(2, 4, width_ratios=(2.2, 1, 1, 1))
        left = figure.add_subplot(grid[:, 0])
        for place, (name, (_, colour)) in enumerate(_REACHES.items()):
            for shift, distance in ((-0.2, "near"), (0.2, "far")):
                values = accuracies(numbers[distance][name])
                dots(left, place + shift, values, interval(values), colour)
                left.text(place + shift + 0.07, -0.11, distance, ha="center", fontsize=8)
        left.set_xticks(range(len(_REACHES)), list(_REACHES))
        left.set_xlim(-0.5, len(_REACHES) - 0.4)
        left.set_ylim(-0.18, 1.05)
        left.set_yticks([0, 0.5, 1])
        left.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        tidy(left, "Who learns to look where", "", "examples without a fault")
        for row, distance in enumerate(_AWAY):
            for column, name in enumerate(_REACHES):
                axes = figure.add_subplot(grid[row, column + 1])
                axes.imshow(numbers["maps"][distance][name], cmap="Blues", vmin=0, vmax=1)
                axes.set_xticks([])
                axes.set_yticks([])
                axes.set_title(f"{name}, {distance}", loc="left", fontsize=8)
        figure.axes[-2].set_xlabel("keys")
        figure.axes[-3].set_ylabel("queries")


@torch.no_grad()
def _look(reader: torch.nn.Module, task: Task, seed: int) -> list[list[float]]:
    """The weights in the mean over new examples: what is looked at whatever stands there."""
    examples = task.examples(50, random.Random(f"look {seed}"))  # noqa: S311
    with record(reader) as maps:
        reader(examples.source, examples.is_real, examples.target)
    weights: list[list[float]] = maps[0].weights.mean(dim=0)[0, :_LENGTH, :_LENGTH].tolist()
    return weights


def _sharpness(numbers: Numbers, name: str) -> float:
    rows: list[list[float]] = numbers["maps"]["near"][name]
    return mean(max(row) for row in rows)
