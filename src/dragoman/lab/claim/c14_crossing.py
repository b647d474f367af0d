"""C14: attention costs O(n²), recurrence O(n): where do they cross on this machine?

self-attention: 8 n d² + 4 n² d FLOPs;   LSTM: 16 n d²   ⇒   equal at n = 2 d          (seed 004)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import exp, log

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import BLUE, GREY, ORANGE, tidy
from dragoman.model.attention import SelfAttention
from dragoman.model.blueprint import draw_blueprint
from dragoman.model.cell import RecurrentLayer
from dragoman.model.parts import Position
from dragoman.recipe import ModelRecipe

_HEADS = 4
_ROUNDS = 9
_SQUARE = 1.5
_STRAIGHT = 1.25
"""Measured exponents of n: from here on as a square, and up to here as a straight line."""


class Crossing(Experiment):
    """One layer of each, over longer and longer sentences."""

    title = "When attention gets dearer than recurrence"
    claim = (
        "Self-attention costs O(n²) in the length of the sentence and recurrence O(n); so on short "
        "sentences attention is the cheaper one, and on long ones recurrence."
    )
    lectures = ("004",)
    method = (
        f"A self-attention of {_HEADS} heads (with its projections, and the fused kernel where the "
        "package takes it) and an LSTM layer of the same width read one sentence, forward, on one "
        "core. Its own time is taken, not the clock's, and the fastest of "
        f"{_ROUNDS} rounds, for other "
        "work on the machine can only slow it down. FLOPs are counted by PyTorch. How steeply "
        "each grows is taken from the last two doublings of n, and the crossing read off between "
        "the lengths that were tried."
    )
    criterion = (
        f"Holds if for every width the time of attention grows at least as n^{_SQUARE:g} and that "
        f"of recurrence at most as n^{_STRAIGHT:g}, and attention is faster at the shortest length "
        "and slower at the longest. In part if they grow so, but do not cross within the lengths "
        "that were tried."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Time both, and count."""
        is_quick = size == "quick"
        lengths = [2**power for power in range(4, 12 if is_quick else 13)]
        widths = [64] if is_quick else [64, 256]
        torch.manual_seed(seed)
        found = {str(width): _look(width, lengths) for width in widths}
        return {"lengths": lengths, "widths": found}

    def judge(self, numbers: Numbers) -> Judgement:
        """Look at the growth, then for the crossing."""
        lengths = numbers["lengths"]
        told, is_growth, is_crossing = [], True, True
        for width, measured in numbers["widths"].items():
            attention, recurrence = measured["attention_seconds"], measured["recurrence_seconds"]
            steep, straight = _exponent(lengths, attention), _exponent(lengths, recurrence)
            is_growth &= steep >= _SQUARE and straight <= _STRAIGHT
            crossing = _crossing(lengths, attention, recurrence)
            is_crossing &= crossing is not None
            counted = _crossing(lengths, measured["attention_flops"], measured["recurrence_flops"])
            where = f"they cross at n ≈ {crossing:.0f}" if crossing else "they do not cross"
            by_count = f" (by FLOPs: n = {counted:.0f})" if counted else ""
            told.append(
                f"Width {width}: attention grows as n^{steep:.2f}, recurrence as n^{straight:.2f}; "
                f"{where}{by_count}."
            )
        because = " ".join(told)
        if not is_growth:
            return Judgement("does not hold here", because)
        return Judgement("holds" if is_crossing else "holds in part", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Time over the length, for each width, with the crossing."""
        widths = numbers["widths"]
        panels = figure.subplots(1, len(widths), squeeze=False, sharey=True)[0]
        for axes, (width, measured) in zip(panels, widths.items(), strict=True):
            _draw_width(axes, numbers["lengths"], measured)
            tidy(axes, f"Width {width}", "words in the sentence, n", "milliseconds")
            axes.legend(frameon=False)


def _draw_width(axes: Axes, lengths: list[int], measured: dict[str, list[float]]) -> None:
    for key, colour in (("attention", BLUE), ("recurrence", ORANGE)):
        milliseconds = [1000 * each for each in measured[f"{key}_seconds"]]
        axes.loglog(lengths, milliseconds, "o-", color=colour, label=key)
    for kind, line, word in (("seconds", "-", "equal time"), ("flops", ":", "equal FLOPs")):
        crossing = _crossing(lengths, measured[f"attention_{kind}"], measured[f"recurrence_{kind}"])
        if crossing is not None:
            label = f"{word}: n = {crossing:.0f}"
            axes.axvline(crossing, color=GREY, linewidth=0.9, linestyle=line, label=label)
    axes.set_xticks(lengths[::2], [str(each) for each in lengths[::2]])
    axes.minorticks_off()


def _look(width: int, lengths: Sequence[int]) -> dict[str, list[float]]:
    """Seconds and FLOPs of both at every length."""
    found: dict[str, list[float]] = {}
    for length in lengths:
        for name, run in _pair(width, length, "cpu").items():
            found.setdefault(f"{name}_seconds", []).append(_fastest(run))
        counted = _flops(_pair(width, length, "meta")["attention"])
        found.setdefault("attention_flops", []).append(counted)
        # Every step of a recurrence costs the same.
        step = _flops(_pair(width, 1, "meta")["recurrence"])
        found.setdefault("recurrence_flops", []).append(length * step)
    return found


def _pair(width: int, length: int, device: str) -> dict[str, Callable[[], object]]:
    settings = ModelRecipe.model_validate({"width": width, "head_count": _HEADS})
    blueprint = draw_blueprint(settings)
    position = Position(blueprint.position_size)
    with torch.device(device):
        attention: nn.Module = SelfAttention(blueprint).eval()
        recurrence: nn.Module = RecurrentLayer("lstm", width, width).eval()
        x = torch.randn(1, length, width)
        mask = torch.ones(1, 1, 1, length, dtype=torch.bool)
    return {
        "attention": lambda: attention(x, mask, position),
        "recurrence": lambda: recurrence(x),
    }


@torch.no_grad()
def _fastest(run: Callable[[], object]) -> float:
    run()
    seconds = []
    for _ in range(_ROUNDS):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


@torch.no_grad()
def _flops(run: Callable[[], object]) -> float:
    counter = FlopCounterMode(display=False)
    with counter:
        run()
    return float(counter.get_total_flops())


def _exponent(lengths: Sequence[int], costs: Sequence[float]) -> float:
    return log(costs[-1] / costs[-3]) / log(lengths[-1] / lengths[-3])


def _crossing(
    lengths: Sequence[int], attention: Sequence[float], recurrence: Sequence[float]
) -> float | None:
    """From which length on attention costs more; nothing if it does from the first, or never."""
    ahead = [log(one / two) for one, two in zip(attention, recurrence, strict=True)]
    if ahead[0] >= 0 or ahead[-1] < 0:
        return None
    last = max(index for index, each in enumerate(ahead) if each < 0)
    share = -ahead[last] / (ahead[last + 1] - ahead[last])
    return exp(log(lengths[last]) + share * log(lengths[last + 1] / lengths[last]))
