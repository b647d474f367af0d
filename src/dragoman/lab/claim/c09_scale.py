"""C9: do dot products grow with d, does the softmax saturate, and does ÷ √d mend it?

q, k ~ N(0, 1)ᵈ   ⇒   qᵀk has the variance d         (Vaswani et al., 2017; seeds 001, 002, 003)
"""

from __future__ import annotations

from math import log

import torch
from matplotlib.figure import Figure

from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import BLUE, ORANGE, tidy
from dragoman.model.parts import Similarity
from dragoman.model.similarity.dot import Dot
from dragoman.model.similarity.scaled_dot import ScaledDot

_KEYS = 32
_ALIVE = 0.5
"""Of the gradient at the smallest size, what must be left at the largest to count as alive."""
_DEAD = 0.1
_GROWTH = 0.1
"""How far the measured exponent of d may lie from a half."""


class Scale(Experiment):
    """Random queries and keys of growing size, with and without the root."""

    title = "Why attention divides by √d"
    claim = (
        "Dot products grow with the size of the vectors, the softmax then saturates and its "
        "gradients vanish; dividing by √d mends it."
    )
    lectures = ("001", "002", "003")
    method = (
        f"Queries and {_KEYS} keys are drawn from a normal distribution and compared by the parts "
        "`dot` and `scaled_dot`; of the softmax over the keys, the largest weight (mean over many "
        "queries) and the length of its Jacobian, through which every gradient comes (median: a "
        "mean would be that of the few near ties), are looked at."
    )
    criterion = (
        f"Holds if the spread of plain dot products grows as d to the power 0.5 ± {_GROWTH}, their "
        f"gradient at the largest d is below {_DEAD:.0%} of that at the smallest, and with the "
        f"division stays above {_ALIVE:.0%}. In part if only the growth is seen."
    )
    is_certain = True

    def measure(self, size: Size, seed: int) -> Numbers:
        """Draw, compare, weigh."""
        sizes = [4, 16, 64, 256, 1024]
        count = 500 if size == "quick" else 20_000
        generator = torch.Generator().manual_seed(seed)
        rows: dict[str, list[dict[str, float]]] = {"dot": [], "scaled_dot": []}
        for d in sizes:
            queries = torch.randn(count, 1, 1, d, generator=generator)
            keys = torch.randn(count, 1, _KEYS, d, generator=generator)
            rows["dot"].append(_look(Dot(d), queries, keys))
            rows["scaled_dot"].append(_look(ScaledDot(d), queries, keys))
        return {"sizes": sizes, **rows}

    def judge(self, numbers: Numbers) -> Judgement:
        """Compare the smallest size with the largest."""
        small, large = numbers["sizes"][0], numbers["sizes"][-1]
        first, last = numbers["dot"][0], numbers["dot"][-1]
        exponent = log(last["spread"] / first["spread"]) / log(large / small)
        left = {
            name: numbers[name][-1]["gradient"] / numbers[name][0]["gradient"]
            for name in ("dot", "scaled_dot")
        }
        because = (
            f"The spread grows as d^{exponent:.2f}. From d = {small} to {large} the gradient of "
            f"plain dot products falls to {left['dot']:.1%} of what it was, and the largest of "
            f"{_KEYS} weights is {last['largest']:.2f} on average; divided by √d, "
            f"{left['scaled_dot']:.0%} of the gradient is left and the largest weight is "
            f"{numbers['scaled_dot'][-1]['largest']:.2f}."
        )
        grows = abs(exponent - 0.5) <= _GROWTH
        if grows and left["dot"] < _DEAD and left["scaled_dot"] > _ALIVE:
            return Judgement("holds", because)
        return Judgement("holds in part" if grows else "does not hold here", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Three panels over d."""
        panels = (
            ("spread", "The scores grow …", "standard deviation"),
            ("largest", "… so the softmax saturates …", "largest weight"),
            ("gradient", "… and its gradient dies", "length of the gradient"),
        )
        for axes, (name, title, up) in zip(figure.subplots(1, 3), panels, strict=True):
            for kind, colour, label in (("dot", ORANGE, "qᵀk"), ("scaled_dot", BLUE, "qᵀk / √d")):
                values = [row[name] for row in numbers[kind]]
                axes.plot(numbers["sizes"], values, "o-", color=colour, label=label)
            axes.set_xscale("log", base=2)
            tidy(axes, title, "size of a head, d", up)
            axes.set_ylim(bottom=0)
        figure.axes[0].legend(frameon=False)


def _look(similarity: Similarity, queries: torch.Tensor, keys: torch.Tensor) -> dict[str, float]:
    """The spread of scores, the largest weight, and how much gradient comes through the softmax."""
    scores = similarity(queries, keys)
    weights = scores.softmax(dim=-1)
    # The Jacobian of the softmax is diag(w) − w wᵀ; its length is what can reach the scores.
    jacobian = torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)
    return {
        "spread": scores.std().item(),
        "largest": weights.amax(dim=-1).mean().item(),
        "gradient": jacobian.flatten(-2).norm(dim=-1).median().item(),
    }
