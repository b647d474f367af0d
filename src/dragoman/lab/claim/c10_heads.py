"""C10: can one head look at two things at once, or does it take several?

"q · k cannot focus two things, e.g. get verb and noun in one time"             (seeds 000, 004)

One softmax can share its weight between two keys; what it gives is then the mean of two values. So
it matters whether the mean still tells them apart.
"""

from __future__ import annotations

import random

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dragoman.lab.chance import interval, seeds
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import BLUE, GREEN, ORANGE, dots, tidy
from dragoman.lab.task import Task, ruling
from dragoman.lab.teaching import Lesson, accuracies, build_reader, steps_until_learned, trial
from dragoman.model.record import record

_HEADS = (1, 2, 4)
_LENGTH = 12
_KINDS = 6
_PLACES = (-1, 1)
_MODEL = {"width": 32, "encoder_layers": 1, "feed_forward_width": 64}
_TASKS = ("places", "kinds")
_ASKED = 5
"""The place whose weights are shown."""


def noun_and_verb(kinds: int, length: int, seed: int = 0) -> Task:
    """One noun and one verb stand anywhere among fillers; each place says what the two make."""
    chance = random.Random(f"rules {seed}")  # noqa: S311
    rules = [[chance.randrange(kinds) for _ in range(kinds)] for _ in range(kinds)]

    def draw(chance: random.Random, length: int) -> tuple[list[int], list[int]]:
        noun, verb = chance.randrange(kinds), chance.randrange(kinds)
        source = [2 * kinds] * length
        here, there = chance.sample(range(length), 2)
        source[here], source[there] = noun, kinds + verb
        return source, [rules[noun][verb]] * length

    return Task(draw, 2 * kinds + 1, length, length)


class Heads(Experiment):
    """One layer, one width, and the width shared by one head, two or four."""

    title = "Why attention has several heads"
    claim = (
        "One head cannot look at two things at once, as a noun and a verb; several heads can, for "
        "each has queries, keys and values of its own."
    )
    lectures = ("000", "004")
    method = (
        "A single encoder layer must look at two places in one moment and say what a book of rules "
        "says of the two symbols. Either the two are told apart by where they stand (one before, "
        f"one behind), any of {_KINDS} symbols at each; or by what they are (one of {_KINDS} "
        f"nouns, one of {_KINDS} verbs, anywhere among fillers), as in the lecture's example. The "
        "width stays the same: with more heads, each is smaller."
    )
    criterion = (
        "Holds if, for both ways of telling the two apart, readers with two heads say more new "
        "examples without a fault than readers with one (95 % interval of the difference, seed by "
        "seed, above zero). In part if for one of them; or if one head can do it too, but surely "
        "needs more steps until it has learned (never counts as the whole lesson)."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Teach, and look at one sentence."""
        heads = _HEADS[:2] if size == "quick" else _HEADS
        steps = {"places": 450, "kinds": 250} if size == "quick" else dict.fromkeys(_TASKS, 1500)
        tasks = {
            "places": ruling(_KINDS, _LENGTH, _PLACES),
            "kinds": noun_and_verb(_KINDS, _LENGTH),
        }
        numbers: Numbers = {"heads": list(heads), "steps": steps, "maps": {}}
        for name, task in tasks.items():
            numbers[name] = {}
            lesson = Lesson(steps[name], batch=32, rate=5e-3)
            for count in heads:
                trials = []
                for each in seeds(seed, 3 if size == "quick" else 5):
                    reader = build_reader(task, each, **_MODEL, head_count=count)
                    trials.append(trial(reader, task, lesson, each))
                    if name == "places" and each == seeds(seed, 1)[0]:
                        numbers["maps"][str(count)] = _look(reader, task, seed)
                numbers[name][str(count)] = trials
        return numbers

    def judge(self, numbers: Numbers) -> Judgement:
        """Compare two heads with one, seed by seed."""
        told, helped, sooner = [], [], []
        for name, words in (("places", "by where they stand"), ("kinds", "by what they are")):
            one, two = (_accuracies(numbers, name, count) for count in (1, 2))
            gain = interval([b - a for a, b in zip(one, two, strict=True)])
            helped.append(gain[1] > 0)
            steps = [
                steps_until_learned(numbers[name][count], numbers["steps"][name])
                for count in ("1", "2")
            ]
            saved = interval([b - a for a, b in zip(*steps, strict=True)])
            sooner.append(saved[2] < 0)
            told.append(
                f"told apart {words}, after {numbers['steps'][name]} steps: {interval(one)[0]:.0%} "
                f"with one head, {interval(two)[0]:.0%} with two (a gain of {100 * gain[0]:.0f} "
                f"points, from {100 * gain[1]:.0f} to {100 * gain[2]:.0f}), learned after "
                f"{interval(steps[0])[0]:.0f} and {interval(steps[1])[0]:.0f} steps "
                f"({saved[0]:+.0f}, from {saved[1]:+.0f} to {saved[2]:+.0f})"
            )
        because = f"Examples without a fault, {'; '.join(told)}."
        if all(helped):
            return Judgement("holds", because)
        is_part = any(helped) or any(sooner)
        return Judgement("holds in part" if is_part else "does not hold here", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Who learned, and where the heads looked."""
        left, one, two = figure.subplots(1, 3, width_ratios=(1.5, 1, 1))
        colours = (BLUE, ORANGE)
        labels = ("told apart by place", "told apart by kind")
        for name, colour, label, shift in zip(_TASKS, colours, labels, (-0.15, 0.15), strict=True):
            for place, count in enumerate(numbers["heads"]):
                values = _accuracies(numbers, name, count)
                dots(left, place + shift, values, interval(values), colour)
            left.plot([], [], "D", color=colour, label=label)
        left.set_xticks(range(len(numbers["heads"])), [str(each) for each in numbers["heads"]])
        left.set_xlim(-0.5, len(numbers["heads"]) - 0.3)
        left.set_ylim(-0.05, 1.05)
        left.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        left.legend(frameon=False, loc="lower right")
        tidy(left, "Two things at once, by one layer", "heads", "examples without a fault")
        _draw_looks(one, numbers["maps"]["1"], "One head looks")
        _draw_looks(two, numbers["maps"]["2"], "Two heads look")


def _draw_looks(axes: Axes, weights: list[list[float]], title: str) -> None:
    """The weights of each head at one place, side by side."""
    across = torch.arange(len(weights[0])) - _ASKED
    size = 0.8 / len(weights)
    for head, (row, colour) in enumerate(zip(weights, (GREEN, ORANGE), strict=False)):
        axes.bar(across + (head - (len(weights) - 1) / 2) * size, row, size, color=colour)
    for away in _PLACES:
        axes.annotate("▾", (away, 1.0), ha="center")
    axes.set_ylim(0, 1.1)
    axes.set_xlim(-4.5, 4.5)
    axes.set_xticks(range(-4, 5, 2))
    tidy(axes, title, "places away (▾ asked)", "weight")


@torch.no_grad()
def _look(reader: torch.nn.Module, task: Task, seed: int) -> list[list[float]]:
    """The weights of every head at one place, in the mean over new examples."""
    examples = task.examples(100, random.Random(f"look {seed}"))  # noqa: S311
    with record(reader) as maps:
        reader(examples.source, examples.is_real, examples.target)
    weights: list[list[float]] = maps[0].weights.mean(dim=0)[:, _ASKED].tolist()
    return weights


def _accuracies(numbers: Numbers, name: str, count: int) -> list[float]:
    return accuracies(numbers[name][str(count)])
