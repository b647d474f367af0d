"""C7: without the feed-forward network, does stacked self-attention only re-average values?

aᵢ = Σⱼ αᵢⱼ v(hⱼ) = Wᵥ Σⱼ αᵢⱼ hⱼ  is linear in h, if α stands still         (seeds 001, 004)

But α does not stand still: the softmax looks at both symbols of a pair, and the norm divides by a
length. So there are two questions: is it linear while the weights are held, and can "if … and …
then …" be learned when they are not?
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.chance import interval, seeds
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import BLUE, GREEN, GREY, ORANGE, dots, tidy
from dragoman.lab.task import Task, ruling
from dragoman.lab.teaching import (
    Lesson,
    Reader,
    accuracies,
    build_reader,
    trial,
    without_norms,
)
from dragoman.model.attention import Attention
from dragoman.model.parts import Reach
from dragoman.model.record import record
from dragoman.shapes import Bool, Float, Tensor

_SYMBOLS, _LENGTH = 8, 12
_PLACES = (-1, 0)
_MODEL = {"width": 32, "head_count": 2, "feed_forward_width": 64}
_ROUNDING = 1e-9
"""In float64, a sum of parts that differs by less from the parts of the sum is the same."""
_LEARNED, _NOT_LEARNED = 0.9, 0.5
_PUPILS = ("with", "without", "held")


class Nonlinearity(Experiment):
    """A book of rules for pairs of symbols, with and without the feed-forward network."""

    title = "What the feed-forward network is for"
    claim = (
        "Each layer of self-attention is linear in the one before, but for its softmax: stacked, "
        "it only averages values again, and “if … and … then …” cannot be learned. A feed-forward "
        "network mends it."
    )
    lectures = ("001", "004")
    method = (
        "First, without learning: real encoder layers read x, y and x + y, and are asked whether "
        "their answer to the sum is the sum of their answers; once with all attention weights "
        "held as they were for x, and then with one thing more each time. Second, readers learn a "
        f"book of {_SYMBOLS * _SYMBOLS} rules, each drawn by chance (“if this symbol, and that one "
        "before it, then say …”): with the feed-forward network; without it; and without it, "
        "without norms, and with weights held where they are best (one head on each of the two "
        "symbols), which can do nothing but average."
    )
    criterion = (
        "Two facts: (1) with weights held, the stack without feed-forward is linear to "
        f"{_ROUNDING:g}; (2) at every depth the reader with feed-forward says more than "
        f"{_LEARNED:.0%} of new examples without a fault, and the one without says less than "
        f"{_NOT_LEARNED:.0%}, by the near ends of their 95 % intervals. Holds if both are seen, in "
        "part if one is."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Superpose, then teach."""
        depths = [2] if size == "quick" else [1, 2, 4]
        steps = 400 if size == "quick" else 1000
        task = ruling(_SYMBOLS, _LENGTH, _PLACES)
        lesson = Lesson(steps, batch=32, rate=5e-3)
        numbers: Numbers = {
            "superposition": _superposition(task, seed),
            "depths": depths,
            "steps": steps,
            **{pupil: [] for pupil in _PUPILS},
        }
        for depth in depths:
            for pupil in _PUPILS:
                trials = [
                    trial(_pupil(pupil, task, depth, each), task, lesson, each)
                    for each in seeds(seed, 2 if size == "quick" else 4)
                ]
                numbers[pupil].append(trials)
        return numbers

    def judge(self, numbers: Numbers) -> Judgement:
        """Ask for both facts."""
        error = numbers["superposition"]["weights held"]
        is_linear = error < _ROUNDING
        with_it, without, held = (_accuracies(numbers, pupil) for pupil in _PUPILS)
        cannot = all(
            interval(one)[1] > _LEARNED and interval(other)[2] < _NOT_LEARNED
            for one, other in zip(with_it, without, strict=True)
        )
        told = "; ".join(
            f"at depth {depth}, {interval(a)[0]:.0%} with, {interval(b)[0]:.0%} without, "
            f"{interval(c)[0]:.0%} with held weights"
            for depth, a, b, c in zip(numbers["depths"], with_it, without, held, strict=True)
        )
        because = (
            f"“Only averages again” is {'so' if is_linear else 'not so'}: with weights held, the "
            f"stack is linear up to {error:.0e} (live weights: "
            f"{numbers['superposition']['weights live']:.0e}). “Cannot be learned” is "
            f"{'so' if cannot else 'not so'}: after {numbers['steps']} steps, examples without a "
            f"fault are, {told}."
        )
        if is_linear and cannot:
            return Judgement("holds", because)
        return Judgement("holds in part" if is_linear or cannot else "does not hold here", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The superposition, and who learned."""
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
        names = list(numbers["superposition"])
        errors = [max(numbers["superposition"][name], 1e-17) for name in names]
        left.barh(range(len(names)), errors, left=1e-17, color=[BLUE] + [GREY] * (len(names) - 1))
        left.set_xscale("log")
        left.set_yticks(range(len(names)), names)
        left.invert_yaxis()
        tidy(left, "Only held weights make it linear", "f(x + y) ≠ f(x) + f(y) by")
        labels = ("with feed-forward", "without", "and weights held")
        for pupil, label, colour, shift in zip(
            _PUPILS, labels, (BLUE, ORANGE, GREEN), (-0.3, 0.0, 0.3), strict=True
        ):
            for place, values in enumerate(_accuracies(numbers, pupil)):
                dots(right, place + shift - 0.07, values, interval(values), colour)
            right.plot([], [], "D", color=colour, label=label)
        right.set_xticks(range(len(numbers["depths"])), [str(each) for each in numbers["depths"]])
        right.set_xlim(-0.6, len(numbers["depths"]) - 0.3)
        right.set_ylim(-0.05, 1.05)
        right.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        right.legend(frameon=False, loc="center left")
        tidy(right, "Who learns “if … and … then …”", "layers", "examples without a fault")


class Held(Reach):
    """Weights that were given once, whatever the scores say."""

    def __init__(self, weights: Float[Tensor, "B H T S"]) -> None:
        super().__init__()
        self.weights = weights

    def forward(
        self, scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "#B 1 #T S"]
    ) -> Float[Tensor, "B H T S"]:
        """Ignore them."""
        return self.weights.expand_as(scores)


def hold(model: nn.Module, weights: list[Float[Tensor, "B H T S"]]) -> None:
    """Give every attention of a model its weights, from the bottom to the top, in place."""
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    for attention, held in zip(attentions, weights, strict=True):
        attention.reach = Held(held)


def superposition_error(
    reader: Reader, x: Float[Tensor, "B S M"], y: Float[Tensor, "B S M"]
) -> float:
    """How far f(x + y) is from f(x) + f(y), beside the length of f(x) + f(y)."""
    is_real = torch.ones(x.shape[:2], dtype=torch.bool)

    def read(states: Float[Tensor, "B S M"]) -> Float[Tensor, "B S M"]:
        read: Tensor = reader.encoder(states, is_real).heights[-1]
        return read

    together = read(x) + read(y)
    error: float = ((read(x + y) - together).norm() / together.norm()).item()
    return error


@torch.no_grad()
def _superposition(task: Task, seed: int) -> dict[str, float]:
    """The error of a stack, by what is left in it."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, 4, _LENGTH, _MODEL["width"], generator=generator, dtype=torch.float64)
    is_real = torch.ones(x.shape[:2], dtype=torch.bool)

    def error(feed_forward: str, has_norms: bool, is_held: bool) -> float:
        reader = build_reader(
            task, seed, **_MODEL, encoder_layers=3, position="none", feed_forward=feed_forward
        ).double()
        if not has_norms:
            without_norms(reader)
        if is_held:
            with record(reader) as maps:
                reader.encoder(x, is_real)
            hold(reader, [each.weights for each in maps])
        return superposition_error(reader, x, y)

    return {
        "weights held": error("none", has_norms=False, is_held=True),
        "weights live": error("none", has_norms=False, is_held=False),
        "held, norms": error("none", has_norms=True, is_held=True),
        "held, feed-forward": error("relu", has_norms=False, is_held=True),
    }


def _pupil(pupil: str, task: Task, depth: int, seed: int) -> Reader:
    feed_forward = "relu" if pupil == "with" else "none"
    reader = build_reader(task, seed, **_MODEL, encoder_layers=depth, feed_forward=feed_forward)
    if pupil == "held":
        without_norms(reader)
        hold(reader, [_best_weights()] * depth)
    return reader


def _best_weights() -> Float[Tensor, "1 H T S"]:
    """One head on each of the places that the rules ask for; the source ends with its END."""
    places = torch.arange(_LENGTH + 1)
    weights = torch.zeros(1, len(_PLACES), _LENGTH + 1, _LENGTH + 1)
    for head, away in enumerate(_PLACES):
        weights[0, head, places, (places + away).clamp(min=0)] = 1.0
    return weights


def _accuracies(numbers: Numbers, pupil: str) -> list[list[float]]:
    return [accuracies(trials) for trials in numbers[pupil]]
