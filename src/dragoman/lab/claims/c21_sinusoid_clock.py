"""C21: sinusoids of decreasing frequency can be read like a clock.

p(t) = (sin ωᵢt, cos ωᵢt)ᵢ,   ωᵢ = base^(−2i/d)          (Vaswani et al., 2017)   [CS182]
"""

from __future__ import annotations

from math import pi

import torch
from matplotlib.figure import Figure
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, GRAY, ORANGE, label_axes, percent_axis
from dragoman.model.position.sinusoidal import Sinusoidal
from dragoman.shapes import Bool, Float, Tensor

_WIDTHS = (64, 512)
"""Of the lab's models, and of the paper's base model."""
_COUNT = 128
_ROUNDING = 1e-9
"""In 64 bits, another order of summation changes the 16th digit, never the 10th."""
_MIN_ACCURACY = 0.9
"""From this accuracy at held-out positions on, a digit counts as readable."""
_READOUTS = {"linear": "Linear readout", "network": "Small network"}
_HIDDEN, _STEPS, _LEARNING_RATE = 64, 200, 1e-2
"""Of the small network."""


class SinusoidClock(Experiment):
    """Rotation of the feature pairs, and two readouts of binary digits."""

    title = "Sinusoidal positions work like the hands of a clock"
    sources = (
        (
            "CS182",
            "Positional encoding",
            "Sinusoids of falling frequency indicate whether a position is even or odd, and "
            "whether it is in the first or the second half.",
        ),
    )
    durations = (10, 60)
    claim = (
        "Sinusoidal position vectors work like the hands of a clock, from fast to slow: the fast "
        "ones tell whether a position is even or odd, the slow ones whether it is in the first or "
        "the second half."
    )
    method = (
        f"Positions 0 to {_COUNT - 1} get vectors of {_WIDTHS[0]} and of {_WIDTHS[1]} features. "
        "First, the experiment checks whether they form a clock: each step rotates every pair of "
        "features by its own constant angle, and the dot product of two positions depends only on "
        "their distance. Second, two readouts are fitted at seven of eight positions, drawn at "
        "random, and tested at the others, many times: a linear one (least squares with a small "
        f"ridge), and a network with one hidden layer of {_HIDDEN} units, trained for {_STEPS} "
        "steps. They predict each binary digit of the position: the lowest is even/odd, the "
        "highest is the half."
    )
    criterion = (
        f"Supported if it is a clock (to {_ROUNDING:.0e}) and both even/odd and first/second half "
        f"are predicted correctly at {_MIN_ACCURACY:.0%} of the held-out positions, by one of the "
        "readouts for one of the widths; partly supported if it is a clock and only one of the two "
        "is predicted."
    )
    is_seed_independent = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Check the rotation, and fit the readouts."""
        rounds, networks = (20, 2) if size == "quick" else (300, 8)
        blocks = [2**digit for digit in range((_COUNT - 1).bit_length())]
        numbers: Numbers = {"blocks": blocks, "periods": {}, "linear": {}, "network": {}}
        errors = []
        for width in _WIDTHS:
            generator = torch.Generator().manual_seed(seed)
            vectors = Sinusoidal(width)(0, _COUNT, torch.empty(0, dtype=torch.float64))
            errors += [_rotation_error(vectors), _distance_error(vectors)]
            numbers["periods"][str(width)] = (2 * pi / _angles(vectors)).tolist()
            for readout, fit, count in (
                ("linear", _fit_linear, rounds),
                ("network", _fit_network, networks),
            ):
                shares = [fit(vectors, block, count, generator) for block in blocks]
                numbers[readout][str(width)] = {
                    "fitted": [fitted for fitted, _ in shares],
                    "held_out": [held_out for _, held_out in shares],
                }
        return numbers | {"error": max(errors)}

    def judge(self, numbers: Numbers) -> Judgment:
        """Check the lowest and the highest digit."""
        parity, half = (
            {name: _best(numbers, name, digit) for name in _READOUTS} for digit in (0, -1)
        )
        fitted = {name: _fitted_parity(numbers, name) for name in _READOUTS}
        error, fastest = numbers["error"], min(map(min, numbers["periods"].values()))
        explanation = (
            "A step rotates each pair of features by its own angle, and similarity depends on "
            f"distance, to {error:.0e}. At held-out positions, the linear readout predicts the "
            f"half correctly in {half['linear']:.0%} of cases and even or odd in "
            f"{parity['linear']:.0%}, the small network {half['network']:.0%} and "
            f"{parity['network']:.0%} (even or odd at the fitted positions, at the better width: "
            f"{fitted['linear']:.0%} and {fitted['network']:.0%}). A position resembles its "
            "neighbors, which have the other "
            f"parity: the fastest pair has a period of {fastest:.1f} positions, and even or "
            "odd would need a period of two."
        )
        is_clock = error < _ROUNDING
        is_parity, is_half = (max(best.values()) >= _MIN_ACCURACY for best in (parity, half))
        verdict = grade(
            is_supported=is_clock and is_parity and is_half,
            is_partly_supported=is_clock and (is_parity or is_half),
        )
        return Judgment(
            verdict, _summary(is_clock=is_clock, is_parity=is_parity, is_half=is_half), explanation
        )

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The sinusoids, and the accuracy of the readouts."""
        left, *panels = figure.subplots(1, 3, width_ratios=(1, 1.2, 1.2))
        periods = torch.tensor(numbers["periods"][str(_WIDTHS[0])])
        sines = torch.sin(2 * pi * torch.arange(_COUNT) / periods.unsqueeze(1))
        left.imshow(sines.numpy(), cmap="RdBu", aspect="auto", vmin=-1, vmax=1)
        label_axes(left, "Sinusoids, fast to slow", "position", "feature pair (its sine)")
        left.grid(visible=False)
        x = range(len(numbers["blocks"]))
        labels = ["even/\nodd", *map(str, numbers["blocks"][1:-1]), "half"]
        for axes, (name, title) in zip(panels, _READOUTS.items(), strict=True):
            axes.axhline(0.5, color=GRAY, linewidth=0.8, linestyle=":")
            for (width, shares), color in zip(numbers[name].items(), (BLUE, ORANGE), strict=True):
                axes.plot(x, shares["held_out"], "o-", color=color, label=f"{width} features")
                axes.plot(x, shares["fitted"], ":", color=color)
            axes.set_xticks(list(x), labels, fontsize=8)
            axes.set_ylim(0, 1.05)
            percent_axis(axes)
            axes.text(len(x) - 1, 0.48, "guessing", ha="right", va="top", color=GRAY)
            label_axes(axes, title, "binary digit (block size)")
        panels[0].set_ylabel("correct (dotted: fitted positions)")
        panels[0].legend(frameon=False, loc="lower right", title="held-out positions")


def _summary(*, is_clock: bool, is_parity: bool, is_half: bool) -> str:
    if not is_clock:
        return "The position vectors do not turn like the hands of a clock."
    clock = "Position vectors turn like the hands of a clock"
    if is_parity and is_half:
        return f"{clock}, and both the half and even or odd can be read from them."
    if is_half:
        return (
            f"{clock}, and the half can be read from them, but even or odd cannot be read at "
            "positions that were not seen before."
        )
    if is_parity:
        return f"{clock}, and even or odd can be read from them, but the half cannot."
    return f"{clock}, but neither the half nor even or odd can be read from them."


def _best(numbers: Numbers, readout: str, digit: int) -> float:
    """The accuracy for a digit at held-out positions, at the better width."""
    best: float = max(shares["held_out"][digit] for shares in numbers[readout].values())
    return best


def _fitted_parity(numbers: Numbers, readout: str) -> float:
    """The accuracy for even or odd at fitted positions, at the better width."""
    best: float = max(shares["fitted"][0] for shares in numbers[readout].values())
    return best


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


def _blocks(block: int) -> Float[Tensor, " T"]:
    """1 for a position in an even block, -1 for one in an odd block."""
    return 1.0 - 2.0 * (torch.arange(_COUNT) // block % 2).double()


def _split(truth: Float[Tensor, " T"], generator: torch.Generator) -> Bool[Tensor, " T"]:
    """Choose the positions to fit.

    As many positions of even blocks as of odd ones are held out; otherwise the more frequent answer
    would bias the fit against the held-out positions.
    """
    is_fitted = torch.ones(_COUNT, dtype=torch.bool)
    for sign in (1, -1):
        members = (truth == sign).nonzero().flatten()
        order = torch.randperm(len(members), generator=generator)
        is_fitted[members[order[: len(members) // 8]]] = False
    return is_fitted


def _fit_linear(
    vectors: Float[Tensor, "T P"], block: int, rounds: int, generator: torch.Generator
) -> tuple[float, float]:
    """Predict whether a position is in an even or an odd block: accuracy fitted and held out."""
    truth = _blocks(block)
    kernel = 1 + vectors @ vectors.T  # The one is the bias of the readout.
    ridge = 1e-6 * torch.eye(_COUNT, dtype=vectors.dtype)
    fitted, held_out = [], []
    for _ in range(rounds):
        is_fitted = _split(truth, generator)
        system = (kernel + ridge)[is_fitted][:, is_fitted]
        # Solved for weights of positions, not of features: the same readout, fewer unknowns.
        weights = torch.linalg.solve(system, truth[is_fitted])
        is_correct = (kernel[:, is_fitted] @ weights).sign() == truth
        fitted.append(is_correct[is_fitted].double().mean().item())
        held_out.append(is_correct[~is_fitted].double().mean().item())
    return sum(fitted) / rounds, sum(held_out) / rounds


def _fit_network(
    vectors: Float[Tensor, "T P"], block: int, rounds: int, generator: torch.Generator
) -> tuple[float, float]:
    """The same with a small network; the networks of all rounds are trained at once."""
    truth = _blocks(block).float()
    is_fitted = torch.stack([_split(truth, generator) for _ in range(rounds)])
    x, width = vectors.float(), vectors.shape[1]

    def draw(*shape: int, inputs: int) -> torch.Tensor:
        weights: torch.Tensor = torch.randn(rounds, *shape, generator=generator) / inputs**0.5
        weights.requires_grad = True
        return weights

    parameters = [
        draw(width, _HIDDEN, inputs=width),
        draw(1, _HIDDEN, inputs=width),
        draw(_HIDDEN, 1, inputs=_HIDDEN),
        draw(1, 1, inputs=_HIDDEN),
    ]
    inner, inner_bias, outer, outer_bias = parameters
    optimizer = torch.optim.Adam(parameters, lr=_LEARNING_RATE)

    def predict() -> torch.Tensor:
        hidden = (x @ inner + inner_bias).relu()
        logits: torch.Tensor = (hidden @ outer + outer_bias).squeeze(-1)
        return logits

    for _ in range(_STEPS):
        losses = F.softplus(-truth * predict()) * is_fitted
        optimizer.zero_grad()
        losses.sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        is_correct = predict().sign() == truth
    return is_correct[is_fitted].float().mean().item(), is_correct[~is_fitted].float().mean().item()
