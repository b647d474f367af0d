"""C12: does layer norm make training faster, and depend on neither batch nor neighbours?

norm(x) = (x − mean x) / std x · g + b          over the features of one token
                                                (Ba et al., 2016; seeds 000, 003, 004)
"""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.chance import interval, seeds
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import BLUE, GREEN, ORANGE, dots, tidy
from dragoman.lab.task import Task, shifting
from dragoman.lab.teaching import (
    CURVE,
    Lesson,
    Reader,
    build_reader,
    steps_until_learned,
    trial,
    without_norms,
)
from dragoman.shapes import Float, Tensor

_MODEL = {"width": 32, "head_count": 2, "encoder_layers": 4, "feed_forward_width": 64}
_RATES = (4e-3, 1e-2, 2e-2, 4e-2)
"""Each pupil is judged at the rate that suits it best."""
_PUPILS = {"post": ("norm after (lectures)", GREEN), "pre": ("norm before", BLUE)} | {
    "none": ("no norm", ORANGE)
}


class Norm(Experiment):
    """Neighbours exchanged, and lessons with and without norms."""

    title = "What layer norm does, and what it does not look at"
    claim = (
        "Layer normalisation makes training faster; unlike batch normalisation it depends on "
        "neither the batch nor the neighbouring words."
    )
    lectures = ("000", "003", "004")
    method = (
        "First, one token's state is kept while the other sentences of its batch, or the other "
        "places of its sentence, are exchanged: does the norm of a real layer give the same to "
        "the last bit, and does batch normalisation? Second, readers of four layers learn to say "
        "at each place the symbol before, with the norm after the sum (the lectures), "
        "before the sublayer, and without any; each at several learning rates, of which the best "
        "counts."
    )
    criterion = (
        "Two facts: (1) the layer norm's answer is the same to the bit after both exchanges, and "
        "batch normalisation's is not; (2) at its best rate, the reader with the lectures' norm "
        "needs fewer steps until the task is learned than the one without (95 % interval of the "
        "difference, seed by seed, below zero; never counts as the whole lesson). Holds if both "
        "are seen, in part if one is."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Exchange, then teach."""
        task = shifting(8, 10, -1)
        steps = 250 if size == "quick" else 500
        rates = _RATES[:1] if size == "quick" else _RATES
        trials: dict[str, list[list[dict[str, Any]]]] = {pupil: [] for pupil in _PUPILS}
        for pupil, at_rates in trials.items():
            for rate in rates:
                lesson = Lesson(steps, batch=32, rate=rate)
                at_rates.append(
                    [
                        trial(_pupil(pupil, task, each), task, lesson, each)
                        for each in seeds(seed, 3 if size == "quick" else 4)
                    ]
                )
        return {"exchange": exchange(seed), "rates": list(rates), "steps": steps, "trials": trials}

    def judge(self, numbers: Numbers) -> Judgement:
        """Ask for both facts."""
        changes = numbers["exchange"]
        is_alone = changes["layer"] == {"batch": 0.0, "neighbours": 0.0}
        looks_round = min(changes["batch_norm"].values()) > 0
        best = {pupil: _best(numbers, pupil) for pupil in _PUPILS}
        steps = {pupil: _steps(numbers, pupil, best[pupil]) for pupil in _PUPILS}
        saved = interval([a - b for a, b in zip(steps["post"], steps["none"], strict=True)])
        is_faster = saved[2] < 0
        facts = (is_alone and looks_round, is_faster)
        told = ", ".join(
            f"{interval(steps[pupil])[0]:.0f} with {label} (rate {numbers['rates'][best[pupil]]:g})"
            for pupil, (label, _) in _PUPILS.items()
        )
        because = (
            f"“Neither batch nor neighbours” is {'so' if facts[0] else 'not so'}: exchanging them "
            f"changes the answer of layer norm by {max(changes['layer'].values()):g}, of batch "
            f"norm by up to {max(changes['batch_norm'].values()):.2g}. “Faster” is "
            f"{'so' if is_faster else 'not so'}: steps until learned are {told}; the lectures' "
            f"norm changes them by {saved[0]:+.0f} (from {saved[1]:+.0f} to {saved[2]:+.0f})."
        )
        if all(facts):
            return Judgement("holds", because)
        return Judgement("holds in part" if any(facts) else "does not hold here", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The curves at the best rates, and the steps of every seed."""
        left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))
        across = [(number + 0.5) * numbers["steps"] / CURVE for number in range(CURVE)]
        for place, (pupil, (label, colour)) in enumerate(_PUPILS.items()):
            best = _best(numbers, pupil)
            for number, each in enumerate(numbers["trials"][pupil][best]):
                left.plot(across, each["curve"], color=colour, label="" if number else label)
            values = _steps(numbers, pupil, best)
            dots(right, place, values, interval(values), colour)
        left.set_ylim(0, 3.5)  # Without norms, the first guesses are far above.
        left.legend(frameon=False)
        tidy(left, "Loss while learning, at each one's best rate", "steps", "nats a symbol")
        right.set_xticks(range(len(_PUPILS)), ["after", "before", "none"])
        right.set_xlim(-0.5, len(_PUPILS) - 0.4)
        right.set_ylim(bottom=0)
        tidy(right, "Steps until learned", "norm")


def _pupil(pupil: str, task: Task, seed: int) -> Reader:
    reader = build_reader(task, seed, **_MODEL, norm="pre" if pupil == "pre" else "post")
    if pupil == "none":
        without_norms(reader)
    return reader


def exchange(seed: int) -> dict[str, dict[str, float]]:
    """By how much the norm of one token changes, at most, when others are exchanged."""
    reader = build_reader(shifting(8, 10, -1), seed, **_MODEL, norm="post")
    layer = next(module for module in reader.modules() if isinstance(module, nn.LayerNorm))
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(8, 10, _MODEL["width"], generator=generator)
    others = torch.randn(states.shape, generator=generator)
    new_batch, new_neighbours = others.clone(), states.clone()
    new_batch[0] = states[0]
    new_neighbours[0, 1:] = others[0, 1:]
    batch_norm = nn.BatchNorm1d(_MODEL["width"])

    def by_batch(x: Float[Tensor, "B S M"]) -> Float[Tensor, "B S M"]:
        normed: Tensor = batch_norm(x.transpose(1, 2))
        return normed.transpose(1, 2)

    return {
        name: {
            "batch": (norm(new_batch) - norm(states))[0, 0].abs().max().item(),
            "neighbours": (norm(new_neighbours) - norm(states))[0, 0].abs().max().item(),
        }
        for name, norm in (("layer", layer), ("batch_norm", by_batch))
    }


def _steps(numbers: Numbers, pupil: str, rate: int) -> list[float]:
    return steps_until_learned(numbers["trials"][pupil][rate], numbers["steps"])


def _best(numbers: Numbers, pupil: str) -> int:
    """The number of the rate at which a pupil needs the fewest steps."""
    counts = [sum(_steps(numbers, pupil, rate)) for rate in range(len(numbers["rates"]))]
    return counts.index(min(counts))
