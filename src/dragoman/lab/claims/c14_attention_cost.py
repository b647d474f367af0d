"""C14: attention costs O(n²) and recurrence O(n), so their costs cross at some length.

self-attention: 8 n d² + 4 n² d FLOPs;   LSTM: 16 n d²   ⇒   equal at n = 2 d          [CS182]
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

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, Verdict, grade
from dragoman.lab.style import BLUE, GRAY, ORANGE, label_axes
from dragoman.model.attention import SelfAttention
from dragoman.model.cell import RecurrentLayer
from dragoman.model.parts import Position
from dragoman.model.resolve import resolve_parts
from dragoman.recipe.schema import ModelRecipe

_HEADS = 4
_ROUNDS = 9
_MIN_QUADRATIC = 1.5
_MAX_LINEAR = 1.25
"""Measured exponents of n: at least this counts as quadratic, at most this as linear."""
_SUMMARIES: dict[Verdict, str] = {
    "supported": "Attention is cheaper on short sentences, and recurrence is cheaper on long ones.",
    "partly supported": (
        "The cost of attention grows faster with the length of a sentence, but not for every size "
        "of network did we find a length from which recurrence is cheaper."
    ),
    "not supported": (
        "The cost of attention did not grow with the square of the length while that of "
        "recurrence grew in proportion to it."
    ),
}


class AttentionCost(Experiment):
    """One layer of each, on longer and longer sentences."""

    title = "When attention costs more than recurrence"
    sources = (
        (
            "CS182",
            "Layer Normalization (at its end)",
            "A Transformer costs O(n²), against O(n) of a recurrent network.",
        ),
    )
    durations = (2, 43)
    claim = (
        "Self-attention costs O(n²) in the sentence length n, and recurrence O(n); so attention is "
        "cheaper on short sentences, and recurrence on long ones."
    )
    method = (
        f"A self-attention layer with {_HEADS} heads (with its projections, and the fused kernel "
        "where the package uses it) and an LSTM layer of the same width read one sentence, "
        f"forward, on one core. The processor time is measured, the minimum of {_ROUNDS} rounds, "
        "because other work on the machine can only slow it down. FLOPs are counted by PyTorch. "
        "The growth is taken from the last two doublings of n, and the crossing is interpolated "
        "between the measured lengths."
    )
    criterion = (
        "Supported if for every width the time of attention grows at least as "
        f"n^{_MIN_QUADRATIC:g} and that of recurrence at most as n^{_MAX_LINEAR:g}, and attention "
        "is faster at the shortest length and slower at the longest; partly supported if they grow "
        "so, but do not cross within the measured lengths."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Measure the time of both, and count FLOPs."""
        is_quick = size == "quick"
        lengths = [2**power for power in range(4, 12 if is_quick else 13)]
        widths = [64] if is_quick else [64, 256]
        torch.manual_seed(seed)
        costs = {str(width): _costs(width, lengths) for width in widths}
        return {"lengths": lengths, "widths": costs}

    def judge(self, numbers: Numbers) -> Judgment:
        """Check the growth, then the crossing."""
        lengths = numbers["lengths"]
        sentences, is_growth, is_crossing = [], True, True
        for width, costs in numbers["widths"].items():
            attention, recurrence = costs["attention_seconds"], costs["recurrence_seconds"]
            quadratic, linear = _exponent(lengths, attention), _exponent(lengths, recurrence)
            is_growth &= quadratic >= _MIN_QUADRATIC and linear <= _MAX_LINEAR
            crossing = _crossing(lengths, attention, recurrence)
            is_crossing &= crossing is not None
            by_flops = _crossing(lengths, costs["attention_flops"], costs["recurrence_flops"])
            where = f"they cross at n ≈ {crossing:.0f}" if crossing else "they do not cross"
            flops_note = f" (by FLOPs: n = {by_flops:.0f})" if by_flops else ""
            sentences.append(
                f"Width {width}: attention grows as n^{quadratic:.2f}, recurrence as "
                f"n^{linear:.2f}; {where}{flops_note}."
            )
        explanation = " ".join(sentences)
        verdict = grade(is_supported=is_growth and is_crossing, is_partly_supported=is_growth)
        return Judgment(verdict, _SUMMARIES[verdict], explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Time over the length, for each width, with the crossing."""
        widths = numbers["widths"]
        panels = figure.subplots(1, len(widths), squeeze=False, sharey=True)[0]
        for axes, (width, costs) in zip(panels, widths.items(), strict=True):
            _draw_width(axes, numbers["lengths"], costs)
            label_axes(axes, f"Width {width}", "words in the sentence, n", "milliseconds")
            axes.legend(framealpha=1, edgecolor="none")  # Hides the line of a crossing.


def _draw_width(axes: Axes, lengths: list[int], costs: dict[str, list[float]]) -> None:
    for name, color in (("attention", BLUE), ("recurrence", ORANGE)):
        milliseconds = [1000 * seconds for seconds in costs[f"{name}_seconds"]]
        axes.loglog(lengths, milliseconds, "o-", color=color, label=name)
    for unit, line, title in (("seconds", "-", "equal time"), ("flops", ":", "equal FLOPs")):
        crossing = _crossing(lengths, costs[f"attention_{unit}"], costs[f"recurrence_{unit}"])
        if crossing is not None:
            label = f"{title}: n = {crossing:.0f}"
            axes.axvline(crossing, color=GRAY, linewidth=0.9, linestyle=line, label=label)
    axes.set_xticks(lengths[::2], [str(length) for length in lengths[::2]])
    axes.minorticks_off()


def _costs(width: int, lengths: Sequence[int]) -> dict[str, list[float]]:
    """Seconds and FLOPs of both layers at every length."""
    costs: dict[str, list[float]] = {}
    for length in lengths:
        for name, run in _layers(width, length, "cpu").items():
            costs.setdefault(f"{name}_seconds", []).append(_fastest(run))
        attention_flops = _flops(_layers(width, length, "meta")["attention"])
        costs.setdefault("attention_flops", []).append(attention_flops)
        # Every step of a recurrence costs the same.
        step_flops = _flops(_layers(width, 1, "meta")["recurrence"])
        costs.setdefault("recurrence_flops", []).append(length * step_flops)
    return costs


def _layers(width: int, length: int, device: str) -> dict[str, Callable[[], object]]:
    settings = ModelRecipe.model_validate({"width": width, "heads": _HEADS})
    resolved = resolve_parts(settings)
    position = Position(resolved.position_size)
    with torch.device(device):
        attention: nn.Module = SelfAttention(resolved, "encoder").eval()
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
    """The length from which attention costs more; None if it always does, or never."""
    log_ratios = [log(one / two) for one, two in zip(attention, recurrence, strict=True)]
    if log_ratios[0] >= 0 or log_ratios[-1] < 0:
        return None
    last = max(index for index, log_ratio in enumerate(log_ratios) if log_ratio < 0)
    share = -log_ratios[last] / (log_ratios[last + 1] - log_ratios[last])
    return exp(log(lengths[last]) + share * log(lengths[last + 1] / lengths[last]))
