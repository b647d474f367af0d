"""C21: sinusoids of decreasing frequency can be read like a clock.

p(t) = (sin ωᵢt, cos ωᵢt)ᵢ,   ωᵢ = base^(−2i/d)          (Vaswani et al., 2017)   [CS182]
"""

from __future__ import annotations

from math import pi

import torch
from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size
from dragoman.lab.style import BLUE, GRAY, ORANGE, label_axes, percent_axis
from dragoman.model.position.sinusoidal import Sinusoidal
from dragoman.shapes import Float, Tensor

_WIDTHS = (64, 512)
"""Of the lab's models, and of the paper's base model."""
_COUNT = 128
_ROUNDING = 1e-9
"""In 64 bits, another order of summation changes the 16th digit, never the 10th."""
_MIN_ACCURACY = 0.9
"""From this accuracy at held-out positions on, a digit counts as readable."""


class SinusoidClock(Experiment):
    """Rotation of the feature pairs, and a linear readout of binary digits."""

    title = "Sinusoidal positions work like the hands of a clock"
    lectures = ("CS182",)
    durations = (1, 11)
    claim = (
        "Sinusoidal position vectors work like the hands of a clock, from fast to slow: the fast "
        "ones tell whether a position is even or odd, the slow ones whether it is in the first or "
        "the second half."
    )
    method = (
        f"Positions 0 to {_COUNT - 1} get vectors of {_WIDTHS[0]} and of {_WIDTHS[1]} features. "
        "First, the experiment checks whether they form a clock: each step rotates every pair of "
        "features by its own constant angle, and the dot product of two positions depends only on "
        "their distance. Second, a linear readout (least squares with a small ridge) is fitted at "
        "seven of eight positions, drawn at random, and tested at the others, many times. It "
        "predicts each binary digit of the position: the lowest is even/odd, the highest is the "
        "half."
    )
    criterion = (
        f"Supported if it is a clock (to {_ROUNDING:.0e}) and both even/odd and first/second half "
        f"are predicted correctly at {_MIN_ACCURACY:.0%} of the held-out positions, for one of the "
        "widths; partly supported if it is a clock and only one of the two is predicted."
    )
    is_seed_independent = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Check the rotation, and fit the readouts."""
        rounds = 20 if size == "quick" else 300
        blocks = [2**digit for digit in range((_COUNT - 1).bit_length())]
        numbers: Numbers = {"blocks": blocks, "held_out": {}, "fitted": {}, "periods": {}}
        errors = []
        for width in _WIDTHS:
            generator = torch.Generator().manual_seed(seed)
            vectors = Sinusoidal(width)(0, _COUNT, torch.empty(0, dtype=torch.float64))
            errors += [_rotation_error(vectors), _distance_error(vectors)]
            readouts = [_fit_readouts(vectors, block, rounds, generator) for block in blocks]
            numbers["fitted"][str(width)] = [fitted for fitted, _ in readouts]
            numbers["held_out"][str(width)] = [held_out for _, held_out in readouts]
            numbers["periods"][str(width)] = (2 * pi / _angles(vectors)).tolist()
        return numbers | {"error": max(errors)}

    def judge(self, numbers: Numbers) -> Judgment:
        """Check the lowest and the highest digit."""
        best = [max(shares) for shares in zip(*numbers["held_out"].values(), strict=True)]
        parity, half = best[0], best[-1]
        fitted_parity = max(shares[0] for shares in numbers["fitted"].values())
        error, fastest = numbers["error"], min(map(min, numbers["periods"].values()))
        explanation = (
            "A step rotates each pair of features by its own angle, and similarity depends on "
            f"distance, to {error:.0e}: a clock. At held-out positions, the half is predicted "
            f"correctly in {half:.0%} of cases, and even or odd in {parity:.0%} (at the fitted "
            f"positions in {fitted_parity:.0%}; a position resembles its neighbors, which have the "
            f"other parity). The fastest pair has a period of {fastest:.1f} positions; even or odd "
            "would need a period of two."
        )
        if error >= _ROUNDING or max(parity, half) < _MIN_ACCURACY:
            return Judgment("not supported", explanation)
        is_both = min(parity, half) >= _MIN_ACCURACY
        return Judgment("supported" if is_both else "partly supported", explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The sinusoids, and the accuracy of the readouts."""
        left, right = figure.subplots(1, 2)
        periods = torch.tensor(numbers["periods"][str(_WIDTHS[0])])
        sines = torch.sin(2 * pi * torch.arange(_COUNT) / periods.unsqueeze(1))
        left.imshow(sines.numpy(), cmap="RdBu", aspect="auto", vmin=-1, vmax=1)
        label_axes(left, "Sinusoids, from fast to slow", "position", "feature pair (its sine)")
        left.grid(visible=False)
        right.axhline(0.5, color=GRAY, linewidth=0.8, linestyle=":")
        x = range(len(numbers["blocks"]))
        for (width, shares), color in zip(numbers["held_out"].items(), (BLUE, ORANGE), strict=True):
            right.plot(x, shares, "o-", color=color, label=f"{width} features")
            right.plot(x, numbers["fitted"][width], ":", color=color)
        labels = ["1\n(even/odd)", *map(str, numbers["blocks"][1:-1]), f"{_COUNT // 2}\n(half)"]
        right.set_xticks(list(x), labels)
        right.set_ylim(0, 1.05)
        percent_axis(right)
        right.text(len(x) - 1, 0.48, "guessing", ha="right", va="top", color=GRAY)
        right.text(-0.1, 0.87, "dotted: fitted\npositions", va="bottom", fontsize=8)
        right.legend(frameon=False, loc="lower right")
        label_axes(
            right,
            "Linear readout: coarse digits only",
            "block size of the digit",
            "accuracy, held-out positions",
        )


def _angles(vectors: Float[Tensor, "T P"]) -> Tensor:
    """The angle by which each pair rotates from position 0 to position 1."""
    sine, cosine = vectors[1, 0::2], vectors[1, 1::2]
    return torch.atan2(sine, cosine)


def _rotation_error(vectors: Float[Tensor, "T P"]) -> float:
    """How far a step is from rotating each pair by its own angle, at every position."""
    angles = _angles(vectors)
    sine, cosine = vectors[:-1, 0::2], vectors[:-1, 1::2]
    rotated_sine = sine * angles.cos() + cosine * angles.sin()
    rotated_cosine = cosine * angles.cos() - sine * angles.sin()
    rotated = torch.stack([rotated_sine, rotated_cosine], dim=-1).flatten(-2)
    return (rotated - vectors[1:]).abs().max().item()


def _distance_error(vectors: Float[Tensor, "T P"]) -> float:
    """How much the dot product varies among pairs of positions at the same distance."""
    products = vectors @ vectors.T
    diagonals = (products.diagonal(distance) for distance in range(len(vectors)))
    return max((diagonal.max() - diagonal.min()).item() for diagonal in diagonals)


def _fit_readouts(
    vectors: Float[Tensor, "T P"], block: int, rounds: int, generator: torch.Generator
) -> tuple[float, float]:
    """Predict whether a position is in an even or an odd block: accuracy fitted and held out.

    As many even as odd positions are held out; otherwise the more frequent answer would bias the
    fit against the held-out positions.
    """
    truth = 1.0 - 2.0 * (torch.arange(_COUNT) // block % 2).double()
    classes = [(truth == sign).nonzero().flatten() for sign in (1, -1)]
    kernel = 1 + vectors @ vectors.T  # The one is the bias of the readout.
    ridge = 1e-6 * torch.eye(_COUNT, dtype=vectors.dtype)
    fitted, held_out = [], []
    for _ in range(rounds):
        is_fitted = torch.ones(_COUNT, dtype=torch.bool)
        for members in classes:
            order = torch.randperm(len(members), generator=generator)
            is_fitted[members[order[: len(members) // 8]]] = False
        system = (kernel + ridge)[is_fitted][:, is_fitted]
        # Solved for weights of positions, not of features: the same readout, fewer unknowns.
        weights = torch.linalg.solve(system, truth[is_fitted])
        is_correct = (kernel[:, is_fitted] @ weights).sign() == truth
        fitted.append(is_correct[is_fitted].double().mean().item())
        held_out.append(is_correct[~is_fitted].double().mean().item())
    return sum(fitted) / rounds, sum(held_out) / rounds
