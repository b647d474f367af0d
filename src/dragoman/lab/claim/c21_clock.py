"""C21: can sinusoids of falling frequency be read like a clock?

p(t) = (sin ωᵢt, cos ωᵢt)ᵢ,   ωᵢ = base^(−2i/d)          (Vaswani et al., 2017; seed 004)
"""

from __future__ import annotations

from math import pi

import torch
from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import BLUE, GREY, ORANGE, tidy
from dragoman.model.position.sinusoidal import Sinusoidal
from dragoman.shapes import Float, Tensor

_WIDTHS = (64, 512)
"""Of the lab's models, and of the paper's base model."""
_PLACES = 128
_ROUNDING = 1e-9
"""In 64 bits, sums in another order differ in the last of sixteen digits, never in the tenth."""
_READ = 0.9
"""The share of right answers at places never seen from which on a question counts as readable."""


class Clock(Experiment):
    """Hands, turns, and what a linear eye can read from them."""

    title = "Sinusoids as a clock"
    claim = (
        "Position vectors of sinusoids work like the hands of a clock, from fast to slow: the "
        "fast ones tell whether a place is even or odd, the slow ones whether it is in the first "
        "or the second half."
    )
    lectures = ("004",)
    method = (
        f"Places 0 to {_PLACES - 1} get vectors of {_WIDTHS[0]} and of {_WIDTHS[1]} features. "
        "First, is it a clock: does one step on turn every pair of features by its own fixed "
        "angle, and does the likeness of two places depend on their distance alone? Then, can it "
        "be read: a linear readout (least squares with a little ridge) is fitted at seven of "
        "eight places, drawn at random, and asked at the others, many times. It is asked for each "
        "binary digit of the place: the lowest is even or odd, the highest is the half."
    )
    criterion = (
        f"Holds if it is a clock (to {_ROUNDING:.0e}) and both even/odd and first/second half are "
        f"answered rightly at {_READ:.0%} of the places never seen, with one of the sizes. In part "
        "if it is a clock and only one of the two questions is answered."
    )
    is_certain = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Turn it, compare places, and read it."""
        rounds = 20 if size == "quick" else 300
        blocks = [2**digit for digit in range((_PLACES - 1).bit_length())]
        numbers: Numbers = {"blocks": blocks, "unseen": {}, "fitted": {}, "periods": {}}
        errors = []
        for width in _WIDTHS:
            generator = torch.Generator().manual_seed(seed)
            vectors = Sinusoidal(width)(0, _PLACES, torch.empty(0, dtype=torch.float64))
            errors += [_turning_error(vectors), _distance_error(vectors)]
            readings = [_read(vectors, block, rounds, generator) for block in blocks]
            numbers["fitted"][str(width)] = [fitted for fitted, _ in readings]
            numbers["unseen"][str(width)] = [unseen for _, unseen in readings]
            numbers["periods"][str(width)] = (2 * pi / _speeds(vectors)).tolist()
        return numbers | {"error": max(errors)}

    def judge(self, numbers: Numbers) -> Judgement:
        """Look at the lowest and the highest digit."""
        best = [max(shares) for shares in zip(*numbers["unseen"].values(), strict=True)]
        parity, halves = best[0], best[-1]
        known = max(shares[0] for shares in numbers["fitted"].values())
        error, fastest = numbers["error"], min(map(min, numbers["periods"].values()))
        because = (
            f"A step turns each hand by its own angle, and likeness goes by distance, to "
            f"{error:.0e}: a clock. At places never seen, the half is read rightly in {halves:.0%} "
            f"of cases, and even or odd in {parity:.0%} (at the places of the fit itself, in "
            f"{known:.0%}; a place looks like its neighbours, which are of the other kind). The "
            f"fastest hand takes {fastest:.1f} places for a round; even or odd "
            "would need one that takes two."
        )
        if error >= _ROUNDING or max(parity, halves) < _READ:
            return Judgement("does not hold here", because)
        return Judgement("holds" if min(parity, halves) >= _READ else "holds in part", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The hands, and what can be read."""
        left, right = figure.subplots(1, 2)
        periods = torch.tensor(numbers["periods"][str(_WIDTHS[0])])
        hands = torch.sin(2 * pi * torch.arange(_PLACES) / periods.unsqueeze(1))
        left.imshow(hands.numpy(), cmap="RdBu", aspect="auto", vmin=-1, vmax=1)
        tidy(left, "The hands, from fast to slow", "place", "hand (its sine)")
        left.grid(visible=False)
        right.axhline(0.5, color=GREY, linewidth=0.8, linestyle=":")
        across = range(len(numbers["blocks"]))
        for (width, shares), colour in zip(numbers["unseen"].items(), (BLUE, ORANGE), strict=True):
            right.plot(across, shares, "o-", color=colour, label=f"{width} features")
            right.plot(across, numbers["fitted"][width], ":", color=colour)
        labels = ["1\n(even/odd)", *map(str, numbers["blocks"][1:-1]), f"{_PLACES // 2}\n(half)"]
        right.set_xticks(list(across), labels)
        right.set_ylim(0, 1.05)
        right.text(len(across) - 1, 0.48, "guessing", ha="right", va="top", color=GREY)
        right.text(-0.1, 0.82, "dotted: at places\nof the fit", va="bottom", fontsize=8)
        right.legend(frameon=False, loc="lower right")
        tidy(
            right, "Coarse digits can be read, fine ones not", "places in a block", "right answers"
        )


def _speeds(vectors: Float[Tensor, "T P"]) -> Tensor:
    """By what angle each hand turns from place 0 to place 1."""
    sine, cosine = vectors[1, 0::2], vectors[1, 1::2]
    return torch.atan2(sine, cosine)


def _turning_error(vectors: Float[Tensor, "T P"]) -> float:
    """How far a step is from turning each hand by its own angle, the same at every place."""
    angles = _speeds(vectors)
    sine, cosine = vectors[:-1, 0::2], vectors[:-1, 1::2]
    turned_sine = sine * angles.cos() + cosine * angles.sin()
    turned_cosine = cosine * angles.cos() - sine * angles.sin()
    turned = torch.stack([turned_sine, turned_cosine], dim=-1).flatten(-2)
    return (turned - vectors[1:]).abs().max().item()


def _distance_error(vectors: Float[Tensor, "T P"]) -> float:
    """How much the likeness of two places varies among pairs of the same distance."""
    likeness = vectors @ vectors.T
    diagonals = (likeness.diagonal(distance) for distance in range(len(vectors)))
    return max((each.max() - each.min()).item() for each in diagonals)


def _read(
    vectors: Float[Tensor, "T P"], block: int, rounds: int, generator: torch.Generator
) -> tuple[float, float]:
    """Ask whether a place is in an even or an odd block; the shares of right answers.

    As many even as odd ones are left out, or the more frequent answer would be a wrong hint.
    """
    truth = 1.0 - 2.0 * (torch.arange(_PLACES) // block % 2).double()
    kinds = [(truth == sign).nonzero().flatten() for sign in (1, -1)]
    likeness = 1 + vectors @ vectors.T  # The one is the readout's bias.
    ridge = 1e-6 * torch.eye(_PLACES, dtype=vectors.dtype)
    fitted, unseen = [], []
    for _ in range(rounds):
        is_fitted = torch.ones(_PLACES, dtype=torch.bool)
        for kind in kinds:
            order = torch.randperm(len(kind), generator=generator)
            is_fitted[kind[order[: len(kind) // 8]]] = False
        known = (likeness + ridge)[is_fitted][:, is_fitted]
        # The weights of places, not of features: the same readout, and fewer unknowns.
        weights = torch.linalg.solve(known, truth[is_fitted])
        is_right = (likeness[:, is_fitted] @ weights).sign() == truth
        fitted.append(is_right[is_fitted].double().mean().item())
        unseen.append(is_right[~is_fitted].double().mean().item())
    return sum(fitted) / rounds, sum(unseen) / rounds
