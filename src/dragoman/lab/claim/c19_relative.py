"""C19: does relative position matter more than absolute?

    "I walk my dog every day"  /  "every single day I walk my dog"              (seed 004)

That "my dog" follows "I walk" matters, not that it begins at the third place. So a phrase is taught
at some places, and asked for at others where it has never stood.
"""

from __future__ import annotations

import random
from statistics import mean

from matplotlib.figure import Figure

from dragoman.lab.chance import interval, seeds
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import BLUE, GREEN, GREY, ORANGE, PURPLE, tidy
from dragoman.lab.task import Task
from dragoman.lab.teaching import Lesson, accuracy, build_reader, teach

_WORDS, _PHRASE, _LENGTH = 8, 4, 20
_TAUGHT = 7
"""The last place at which a phrase begins in the lesson."""
_MODEL = {"width": 32, "head_count": 2, "encoder_layers": 1, "feed_forward_width": 64}
_POSITIONS = {
    "learned": ("learned (absolute)", ORANGE),
    "sinusoidal": ("sinusoidal (absolute)", PURPLE),
    "rotary": ("rotary (relative)", BLUE),
    "shaw": ("Shaw's (relative)", GREEN),
}
_RELATIVE, _ABSOLUTE = ("rotary", "shaw"), ("learned", "sinusoidal")
_CARRIED = 0.9


def phrase() -> Task:
    """A phrase stands among fillers, and each of its words says the word before it.

    The number that this task draws is not a length but the place where the phrase begins.
    """

    def draw(chance: random.Random, begin: int) -> tuple[list[int], list[int]]:
        words = [chance.randrange(_WORDS) for _ in range(_PHRASE)]
        source, target = [_WORDS] * _LENGTH, [_WORDS] * _LENGTH
        source[begin : begin + _PHRASE] = words
        target[begin + 1 : begin + _PHRASE] = words[:-1]
        return source, target

    return Task(draw, _WORDS + 1, 0, _TAUGHT)


class Relative(Experiment):
    """A phrase, moved to where it never stood."""

    title = "A phrase keeps its meaning when it moves"
    claim = (
        "Relative position matters more than absolute: in “I walk my dog every day” and “every "
        "single day I walk my dog” the same words belong together, wherever they stand."
    )
    lectures = ("004",)
    method = (
        f"A phrase of {_PHRASE} words stands among fillers, and each of its words must say the "
        f"word before it. All sentences have {_LENGTH} places, so every place is known; but in the "
        f"lesson the phrase begins at one of the first {_TAUGHT + 1} only, and later places have "
        "nothing but fillers, which whoever goes by places learns too. Readers of one layer "
        "are told their places absolutely (learned, sinusoidal) or by how far words are apart "
        "(rotary, Shaw's), and are then asked at every place."
    )
    criterion = (
        "Holds if all four learn the phrase where it was taught, both relative ones carry it to "
        f"places where it was not, each above {_CARRIED:.0%} of examples without a fault, and both "
        "absolute ones carry it less, by 95 % intervals over seeds that do not touch. In part if "
        "the relative ones carry it better on average, but not all of this is seen."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Teach at the first places, ask at all."""
        task = phrase()
        lesson = Lesson(400 if size == "quick" else 1200, batch=32, rate=5e-3)
        places = list(range(_LENGTH - _PHRASE + 1))
        numbers: Numbers = {"places": places, "steps": lesson.steps, "accuracy": {}}
        for position in _POSITIONS:
            numbers["accuracy"][position] = []
            for each in seeds(seed, 2 if size == "quick" else 6):
                reader = build_reader(task, each, **_MODEL, position=position)
                teach(reader, task, lesson, each)
                at = [accuracy(reader, task, each, count=100, length=place) for place in places]
                numbers["accuracy"][position].append(at)
        return numbers

    def judge(self, numbers: Numbers) -> Judgement:
        """Compare at places where the phrase was not taught."""
        known = {each: interval(_means(numbers, each, is_taught=True)) for each in _POSITIONS}
        carried = {each: interval(_means(numbers, each, is_taught=False)) for each in _POSITIONS}
        told = ", ".join(
            f"{label} {known[name][0]:.0%} and {carried[name][0]:.0%}"
            for name, (label, _) in _POSITIONS.items()
        )
        because = f"Without a fault where taught, and where the phrase never stood: {told}."
        relative = [carried[name] for name in _RELATIVE]
        absolute = [carried[name] for name in _ABSOLUTE]
        is_apart = min(low for _, low, _ in relative) > max(high for _, _, high in absolute)
        is_carried = min(middle for middle, _, _ in relative) > _CARRIED
        is_learned = min(middle for middle, _, _ in known.values()) > _CARRIED
        if is_learned and is_carried and is_apart:
            return Judgement("holds", because)
        better = mean(each[0] for each in relative) > mean(each[0] for each in absolute)
        return Judgement("holds in part" if better else "does not hold here", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Accuracy at every place."""
        axes = figure.subplots()
        axes.axvspan(-0.5, _TAUGHT + 0.5, color=GREY, alpha=0.15, linewidth=0)
        axes.text(_TAUGHT / 2, 1.06, "taught here", ha="center", color=GREY)
        axes.text((_TAUGHT + numbers["places"][-1]) / 2, 1.06, "never stood here", color=GREY)
        for position, (label, colour) in _POSITIONS.items():
            rows = numbers["accuracy"][position]
            ends = [interval(column) for column in zip(*rows, strict=True)]
            style = "o-" if position in _RELATIVE else "s--"
            middle = [each[0] for each in ends]
            axes.plot(numbers["places"], middle, style, color=colour, label=label, markersize=4)
            low = [max(0.0, each[1]) for each in ends]
            high = [min(1.0, each[2]) for each in ends]
            axes.fill_between(numbers["places"], low, high, color=colour, alpha=0.12, linewidth=0)
        axes.set_xticks(numbers["places"][::4])
        axes.set_ylim(-0.05, 1.15)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False)
        title = "A phrase, taught at some places and asked for at all"
        tidy(axes, title, "place where the phrase begins", "without a fault")


def _means(numbers: Numbers, position: str, *, is_taught: bool) -> list[float]:
    """For each seed, the mean over the places where the phrase was taught, or was not."""
    return [
        mean(row[place] for place in numbers["places"] if (place <= _TAUGHT) == is_taught)
        for row in numbers["accuracy"][position]
    ]
