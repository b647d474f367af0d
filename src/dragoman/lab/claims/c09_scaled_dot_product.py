"""C9: dot products grow with d and saturate the softmax; dividing by √d fixes it.

q, k ~ N(0, 1)ᵈ   ⇒   Var(qᵀk) = d      (Vaswani et al., 2017)   [CS224N] [NLP10] [APPLY-DL]
"""

from __future__ import annotations

from math import log

import torch
from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, ORANGE, label_axes
from dragoman.model.parts import Similarity
from dragoman.model.similarity.dot import Dot
from dragoman.model.similarity.scaled_dot import ScaledDot

_KEYS = 32
_MIN_SCALED = 0.5
"""With scaling, the least share of the gradient that must remain at the largest d."""
_MAX_UNSCALED = 0.1
_TOLERANCE = 0.1
"""How far the measured exponent of d may deviate from one half."""


class ScaledDotProduct(Experiment):
    """Random queries and keys of growing size, with and without division by √d."""

    title = "Why attention divides by √d"
    lectures = ("CS224N", "NLP10", "APPLY-DL")
    durations = (1, 63)
    claim = (
        "Dot products grow with the size of the vectors; then the softmax saturates and its "
        "gradients vanish. Dividing by √d fixes this."
    )
    method = (
        f"Queries and {_KEYS} keys are drawn from a normal distribution and compared by the parts "
        "`dot` and `scaled_dot`. Measured are the standard deviation of the scores, the largest "
        "softmax weight (mean over many queries), and the norm of the softmax's Jacobian, through "
        "which every gradient passes (median: a mean would be dominated by the few near ties)."
    )
    criterion = (
        "Supported if the standard deviation of unscaled dot products grows as d to the power "
        f"0.5 ± {_TOLERANCE}, their gradient at the largest d is below {_MAX_UNSCALED:.0%} of that "
        f"at the smallest, and with scaling it stays above {_MIN_SCALED:.0%}; partly supported if "
        "only the growth is present."
    )
    is_seed_independent = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Draw vectors and compare them."""
        sizes = [4, 16, 64, 256, 1024]
        count = 500 if size == "quick" else 20_000
        generator = torch.Generator().manual_seed(seed)
        rows: dict[str, list[dict[str, float]]] = {"dot": [], "scaled_dot": []}
        for d in sizes:
            queries = torch.randn(count, 1, 1, d, generator=generator)
            keys = torch.randn(count, 1, _KEYS, d, generator=generator)
            rows["dot"].append(_statistics(Dot(d), queries, keys))
            rows["scaled_dot"].append(_statistics(ScaledDot(d), queries, keys))
        return {"sizes": sizes, **rows}

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare the smallest size with the largest."""
        small, large = numbers["sizes"][0], numbers["sizes"][-1]
        first, last = numbers["dot"][0], numbers["dot"][-1]
        exponent = log(last["spread"] / first["spread"]) / log(large / small)
        remaining = {
            name: numbers[name][-1]["gradient"] / numbers[name][0]["gradient"]
            for name in ("dot", "scaled_dot")
        }
        explanation = (
            f"The standard deviation grows as d^{exponent:.2f}. From d = {small} to {large} the "
            f"gradient of unscaled dot products falls to {remaining['dot']:.1%} of its value, and "
            f"the largest of {_KEYS} weights is {last['largest']:.2f} on average; divided by √d, "
            f"{remaining['scaled_dot']:.0%} of the gradient remains and the largest weight is "
            f"{numbers['scaled_dot'][-1]['largest']:.2f}."
        )
        grows = abs(exponent - 0.5) <= _TOLERANCE
        verdict = grade(
            is_supported=grows
            and remaining["dot"] < _MAX_UNSCALED
            and remaining["scaled_dot"] > _MIN_SCALED,
            is_partly_supported=grows,
        )
        return Judgment(verdict, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Three panels over d."""
        panels = (
            ("spread", "Scores grow", "standard deviation"),
            ("largest", "The softmax saturates", "largest weight"),
            ("gradient", "Its gradient vanishes", "norm of the Jacobian"),
        )
        for axes, (name, title, y_label) in zip(figure.subplots(1, 3), panels, strict=True):
            for kind, color, label in (("dot", ORANGE, "qᵀk"), ("scaled_dot", BLUE, "qᵀk / √d")):
                values = [row[name] for row in numbers[kind]]
                axes.plot(numbers["sizes"], values, "o-", color=color, label=label)
            axes.set_xscale("log", base=2)
            label_axes(axes, title, "head size d", y_label)
            axes.set_ylim(bottom=0)
        figure.axes[0].legend(frameon=False)


def _statistics(
    similarity: Similarity, queries: torch.Tensor, keys: torch.Tensor
) -> dict[str, float]:
    """The spread of the scores, the largest weight, and the norm of the softmax's Jacobian."""
    scores = similarity(queries, keys)
    weights = scores.softmax(dim=-1)
    # The Jacobian of the softmax is diag(w) − w wᵀ; its norm bounds the gradient of the scores.
    jacobian = torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)
    return {
        "spread": scores.std().item(),
        "largest": weights.amax(dim=-1).mean().item(),
        "gradient": jacobian.flatten(-2).norm(dim=-1).median().item(),
    }
