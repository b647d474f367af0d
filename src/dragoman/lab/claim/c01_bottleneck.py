"""C1: is a state of fixed size a bottleneck for long sentences, and does attention repair it?

the decoder knows h_S, always as large; or h₁ … h_S, as large as the sentence   (seeds 000, 003)
"""

from __future__ import annotations

from math import hypot, log
from statistics import mean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dragoman.lab.chance import interval, seeds
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.rivals import FORGETFUL, LABELS, RECURRENT, TRANSFORMER, bout
from dragoman.lab.style import BLUE, ORANGE, VERMILION, tidy
from dragoman.lab.task import copying
from dragoman.lab.teaching import Lesson, accuracy_by_place, build, teach
from dragoman.lab.translating import compare_all, make

_PUPILS: dict[str, dict[str, Any]] = {
    FORGETFUL: {"architecture": "recurrent", "recurrent": {"attends": False}},
    RECURRENT: {"architecture": "recurrent", "similarity": "additive"},
    TRANSFORMER: {"architecture": "transformer"},
}
_COLOURS = {FORGETFUL: VERMILION, RECURRENT: ORANGE, TRANSFORMER: BLUE}
_LENGTHS = (4, 8, 12, 16)
_EDGES = (9, 12, 16)
"""Words of a source; a bin reaches up to each of these, the last beyond."""
_FALL = 0.2
_REPAIR = 0.5
_LUCK = 0.05


class Bottleneck(Experiment):
    """Quality by length, for one decoder that knows a state and two that may look back."""

    title = "A state of fixed size is a bottleneck"
    claim = (
        "A recurrent encoder must press a sentence of any length into a state of one size, so "
        "quality falls as sentences grow; attention repairs it."
    )
    lectures = ("000", "003")
    method = (
        f"LSTMs without and with attention and a Transformer learn to copy 2 to {_LENGTHS[-1]} "
        "symbols; the share of right symbols is asked for each length. In full, several seeds, and "
        "translators of like size that learned from Multi30k (the runs of C16, and one without "
        "attention) are scored by the length of the source; there, one seed."
    )
    criterion = (
        f"Copying shows it if without attention the share of right symbols falls by {_FALL} or "
        f"more from length {_LENGTHS[0]} to {_LENGTHS[-1]} (over seeds, the 95 % interval of the "
        f"fall is above zero), and with attention by less than {_REPAIR:.0%} of that. Translating "
        "shows it if in the longest sentences attention is better with "
        f"p < {_LUCK} (paired bootstrap), and surely worth more there: from the shortest to the "
        "longest, the BLEU without attention as a share of that with it falls by more than the 95 "
        "% interval of that fall (on a scale of logarithms; the four intervals taken as "
        "independent). Holds if all that was tried shows it; in part if one of the two does."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Copy; in full, translate too."""
        count, steps = (1, 250) if size == "quick" else (3, 800)
        translated = {"translating": _translated(seed)} if size == "full" else {}
        copied = _copied(seeds(seed, count), steps)
        return {"lengths": list(_LENGTHS), "copying": copied, **translated}

    def judge(self, numbers: Numbers) -> Judgement:
        """How far does each fall?"""
        falls = {
            name: interval([row[0] - row[-1] for row in rows])
            for name, rows in numbers["copying"].items()
        }
        lost, lower, _ = falls[FORGETFUL]
        shows = [lost >= _FALL and lower > 0 and falls[RECURRENT][0] < _REPAIR * lost]
        first, last = numbers["lengths"][0], numbers["lengths"][-1]
        words = f"From {first} to {last} symbols the share of right ones falls by " + ", ".join(
            f"{fall[0]:.2f} ({LABELS[name]})" for name, fall in falls.items()
        )
        if "translating" in numbers:
            is_shown, told = _translating(numbers["translating"][0], numbers["translating"][-1])
            shows.append(is_shown)
            words += f". In translating, {told}"
        words += "."
        if all(shows):
            return Judgement("holds", words)
        return Judgement("holds in part" if any(shows) else "does not hold here", words)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Quality over length."""
        places = figure.subplots(1, 2 if "translating" in numbers else 1, squeeze=False)[0]
        for name, rows in numbers["copying"].items():
            middle = [mean(column) for column in zip(*rows, strict=True)]
            _line(places[0], numbers["lengths"], middle, name)
            for row in rows if len(rows) > 1 else ():
                places[0].plot(numbers["lengths"], row, color=_COLOURS[name], alpha=0.2)
        places[0].set_ylim(0, 1.03)
        tidy(places[0], "Copying symbols", "length of the source", "share of right symbols")
        if "translating" in numbers:
            bins = numbers["translating"]
            for name in _PUPILS:
                _line(
                    places[1], [each["words"] for each in bins], [each[name] for each in bins], name
                )
            places[1].set_ylim(bottom=0)
            tidy(places[1], "Translating captions", "words of the source, mean", "BLEU")
        places[0].legend(frameon=False, loc="lower left")


def _translating(short: dict[str, Any], long: dict[str, Any]) -> tuple[bool, str]:
    """Whether attention is surely worth more in the longest sentences; and in words."""
    scores = [(each, name) for each in (short, long) for name in (FORGETFUL, RECURRENT)]
    if min(each[name] for each, name in scores) <= 0:
        return False, "a translator has learned nothing"
    kept = [each[FORGETFUL] / each[RECURRENT] for each in (short, long)]
    fall = log(kept[0] / kept[1])
    margin = hypot(*(each["margins"][name] / each[name] for each, name in scores))
    is_better = long[RECURRENT] > long[FORGETFUL] and long["luck"] < _LUCK
    return is_better and fall > margin, (
        f"the BLEU without attention is {kept[0]:.0%} of that with it in the shortest sentences "
        f"and {kept[1]:.0%} in the longest (a fall of {fall:.2f} ± {margin:.2f} on a scale of "
        "logarithms)"
    )


def _line(axes: Axes, across: list[float], up: list[float], name: str) -> None:
    axes.plot(across, up, "o-", color=_COLOURS[name], label=LABELS[name])


def _copied(own: list[int], steps: int) -> dict[str, list[list[float]]]:
    """Of each pupil and seed, the share of right symbols at each length."""
    task = copying(10, 2, _LENGTHS[-1])
    lesson = Lesson(steps, rate=4e-3)
    found: dict[str, list[list[float]]] = {}
    for name, settings in _PUPILS.items():
        layers = {} if name == TRANSFORMER else {"encoder_layers": 1, "decoder_layers": 1}
        for each in own:
            model = build(task, each, **settings, **layers)
            teach(model, task, lesson, each)
            row = [mean(accuracy_by_place(model, task, each, length)) for length in _LENGTHS]
            found.setdefault(name, []).append(row)
    return found


def _translated(seed: int) -> list[dict[str, Any]]:
    """BLEU of each translator by the length of the source, and the luck of attention there."""
    match = bout("full")
    text = match.text(seed)
    order = (RECURRENT, FORGETFUL, TRANSFORMER)
    trained = {name: make(text, match.settings(name), seed) for name in order}
    lengths = [len(source.split()) for source, _ in text.test]
    found = []
    for low, high in zip((0, *_EDGES), (*_EDGES, max(lengths)), strict=True):
        rows = [row for row, length in enumerate(lengths) if low < length <= high]
        compared = compare_all(text, trained, rows)
        found.append(
            {"words": mean(lengths[row] for row in rows), "sentences": len(rows)}
            | {name: each.bleu for name, each in compared.items()}
            | {"margins": {name: each.margin for name, each in compared.items()}}
            | {"luck": compared[FORGETFUL].luck}
        )
    return found
