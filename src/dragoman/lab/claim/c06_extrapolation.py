"""C6: do positions reach beyond the sentences that were learned from?

learned: p₁ … p_T, and no more;   sinusoidal: p(t) for every t, but is it understood?
                                                              (seeds 001, 004)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean
from typing import Any

from matplotlib.figure import Figure
from torch import nn

from dragoman.errors import LengthError
from dragoman.lab.chance import interval, seeds
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import BLUE, GREEN, GREY, ORANGE, PURPLE, tidy
from dragoman.lab.task import Task, shifting
from dragoman.lab.teaching import Lesson, accuracy_by_place, build_reader, teach

_LONGEST = 12
"""Words in the longest sentence of the lesson."""
_ASKED = 3 * _LONGEST
_POSITIONS: Mapping[str, Any] = {
    # A sentence and its end mark: these are the places of the lesson, and the matrix has no more.
    "learned": {"name": "learned", "maximum": _LONGEST + 1},
    "sinusoidal": "sinusoidal",
    "rotary": "rotary",
    "shaw": "shaw",
}
_LABELS = {
    "learned": ("learned", ORANGE),
    "sinusoidal": ("sinusoidal", BLUE),
    "rotary": ("rotary (not in the lectures)", PURPLE),
    "shaw": ("Shaw's relative ones", GREEN),
}
_KNOWN = 0.9
_BAD = 0.5


class Extrapolation(Experiment):
    """Short sentences in the lesson, long ones in the examination."""

    title = "Beyond the longest sentence of the lesson"
    claim = (
        "Learned positions cannot be used past the length T that they were made for. Sinusoids "
        "exist for every place, so they might carry on to longer sentences; in practice they do "
        "badly."
    )
    lectures = ("001", "004")
    method = (
        "Readers of one encoder layer learn to say, at each place, the word that stands before it: "
        f"a rule that is the same everywhere. The lesson has sentences of 2 to {_LONGEST} words; "
        f"then sentences of {_ASKED} are asked for. Learned positions get as many places as the "
        "lesson has. Shaw's relative positions show whether the rule itself can be carried on to "
        "long sentences."
    )
    criterion = (
        f"Holds if learned positions refuse a sentence of {_LONGEST + 1} words, and sinusoids are "
        f"right at {_KNOWN:.0%} of places in sentences of {_LONGEST} words but, beyond that place "
        f"in long ones, at fewer than {_BAD:.0%} (the 95 % interval over seeds lies below). In "
        "part if learned positions refuse, and sinusoids get worse, but not so much."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Teach short sentences, ask for long ones."""
        is_quick = size == "quick"
        task = replace(shifting(10, _LONGEST, -1), shortest=2)
        lesson = Lesson(350 if is_quick else 1000, rate=3e-3)
        numbers: Numbers = {"steps": lesson.steps, "refuses": {}, "known": {}, "asked": {}}
        for name, position in _POSITIONS.items():
            for each in seeds(seed, 1 if is_quick else 5):
                model = build_reader(task, each, position=position, encoder_layers=1)
                teach(model, task, lesson, each)
                known = accuracy_by_place(model, task, each, _LONGEST)
                numbers["known"].setdefault(name, []).append(known)
                refuses = _refuses(model, task, each)
                numbers["refuses"].setdefault(name, []).append(refuses)
                if not refuses:
                    asked = accuracy_by_place(model, task, each, _ASKED)
                    numbers["asked"].setdefault(name, []).append(asked)
        return numbers

    def judge(self, numbers: Numbers) -> Judgement:
        """Who refuses, who goes on, and how well."""
        known = interval([mean(row) for row in numbers["known"]["sinusoidal"]])
        beyond = {
            name: interval([mean(row[_LONGEST:]) for row in rows])
            for name, rows in numbers["asked"].items()
        }
        does_refuse = all(numbers["refuses"]["learned"])
        others = ", ".join(
            f"{_LABELS[name][0]} {middle:.0%}"
            for name, (middle, _, _) in beyond.items()
            if name != "sinusoidal"
        )
        if "sinusoidal" not in beyond:
            return Judgement("does not hold here", "Sinusoids refuse long sentences.")
        carried, _, most = beyond["sinusoidal"]
        because = (
            f"Learned positions {'refuse' if does_refuse else 'take'} a sentence that is longer "
            f"than their matrix. With sinusoids, {known[0]:.0%} of the words are right in "
            f"sentences as long as the longest of the lesson, and {carried:.0%} beyond that place "
            "in sentences three times as long. That the rule can be carried on, others show: "
            f"{others}."
        )
        if does_refuse and known[0] >= _KNOWN and most < _BAD:
            return Judgement("holds", because)
        is_worse = most < known[1]
        return Judgement(
            "holds in part" if does_refuse and is_worse else "does not hold here", because
        )

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Right answers by place."""
        axes = figure.subplots()
        axes.axvspan(0.5, _LONGEST + 0.5, color=GREY, alpha=0.15, linewidth=0)
        axes.text(_LONGEST / 2 + 0.5, 1.06, "places of the lesson", ha="center", color=GREY)
        for name, (label, colour) in _LABELS.items():
            rows = numbers["asked"].get(name) or numbers["known"][name]
            middle, low, high = zip(*map(interval, zip(*rows, strict=True)), strict=True)
            places = range(1, len(middle) + 1)
            axes.plot(places, middle, "o-", color=colour, label=label, markersize=3)
            axes.fill_between(
                places,
                [max(0.0, each) for each in low],
                [min(1.0, each) for each in high],
                color=colour,
                alpha=0.12,
                linewidth=0,
            )
            if name not in numbers["asked"]:
                axes.plot(len(middle), middle[-1], "X", color=colour, markersize=10)
                axes.annotate(
                    "no more places",
                    (len(middle), middle[-1]),
                    xytext=(12, -22),
                    textcoords="offset points",
                    color=colour,
                )
        axes.set_ylim(0, 1.15)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False)
        title = f"Taught in sentences of up to {_LONGEST} words, asked in longer ones"
        tidy(axes, title, "place in the sentence", "right answers")


def _refuses(model: nn.Module, task: Task, seed: int) -> bool:
    """Whether one word more than in the lesson is too much."""
    try:
        accuracy_by_place(model, task, seed, _LONGEST + 1, count=1)
    except LengthError:
        return True
    return False
