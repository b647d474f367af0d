"""C15: can Transformers be made deeper than recurrent networks?

"can make it deep (more layers) than RNNs"                                      (seed 004)

Recurrent networks are met twice: layers plainly above each other, as they were; and with residual
connections, as GNMT had to have them to be deep at all (Wu et al., 2016; seed 003).
"""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.chance import interval, seeds
from dragoman.lab.experiment import Experiment, Judgement, Numbers, Size
from dragoman.lab.style import BLUE, GREEN, ORANGE, VERMILION, tidy
from dragoman.lab.task import Task, shifting
from dragoman.lab.teaching import Lesson, accuracies, build_reader, trial
from dragoman.model.cell import RecurrentLayer
from dragoman.model.embedding import Embedding
from dragoman.model.initialisation import initialise
from dragoman.shapes import Bool, Float, Int, Tensor

_WIDTH = 32
_MODEL = {"width": _WIDTH, "head_count": 2, "feed_forward_width": 64}
_PUPILS = {
    "post": ("Transformer, norm after (lectures)", GREEN),
    "pre": ("Transformer, norm before", BLUE),
    "plain": ("LSTM, plain", VERMILION),
    "residual": ("LSTM with residuals (GNMT)", ORANGE),
}
_LEARNED = 0.9


class Depth(Experiment):
    """One task, more and more layers."""

    title = "Who can be deep"
    claim = "Transformers can be made deeper than recurrent networks."
    lectures = ("004",)
    method = (
        "Readers of growing depth learn to say at each place the symbol before, which "
        "one layer can do: depth is not needed, but must not be in the way. "
        "Transformers have their norm after the sum (the lectures) or before the sublayer; stacks "
        "of LSTMs, the bottom one reading both ways, have residual connections or not. All have "
        "the same width and the same lesson; of several learning rates, the best counts. The "
        "lesson is short: who fails might learn in a longer one."
    )
    criterion = (
        f"A stack learns if seeds on average say more than {_LEARNED:.0%} of new examples without "
        "a fault. Holds if all learn with one layer, and the better kind of Transformer learns at "
        "a greater depth than both kinds of recurrent stacks; in part if at a greater depth than "
        "the plain recurrent stack only; else not."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Teach at every depth."""
        is_quick = size == "quick"
        depths = [1, 6] if is_quick else [1, 3, 6, 12]
        rates = [4e-3, 1e-2] if is_quick else [5e-3, 1e-2, 2e-2]
        pupils = list(_PUPILS)[1:] if is_quick else list(_PUPILS)
        own = seeds(seed, 1 if is_quick else 3)
        task = shifting(8, 10, -1)
        numbers: Numbers = {"depths": depths, "rates": rates, "steps": 220 if is_quick else 300}

        def taught(pupil: str, depth: int, rate: float) -> list[dict[str, Any]]:
            lesson = Lesson(numbers["steps"], batch=32, rate=rate)
            return [trial(_pupil(pupil, task, depth, each), task, lesson, each) for each in own]

        numbers["trials"] = {
            pupil: [[taught(pupil, depth, rate) for rate in rates] for depth in depths]
            for pupil in pupils
        }
        return numbers

    def judge(self, numbers: Numbers) -> Judgement:
        """Find the greatest depth at which each still learns."""
        deepest = {
            pupil: max(
                (
                    depth
                    for depth, values in zip(numbers["depths"], _best(numbers, pupil), strict=True)
                    if interval(values)[0] > _LEARNED
                ),
                default=0,
            )
            for pupil in numbers["trials"]
        }
        told = "; ".join(
            f"{_PUPILS[pupil][0]}: "
            + ", ".join(f"{interval(values)[0]:.0%}" for values in _best(numbers, pupil))
            for pupil in numbers["trials"]
        )
        depths = ", ".join(str(each) for each in numbers["depths"])
        because = (
            f"Examples without a fault after {numbers['steps']} steps at the best rate, at "
            f"{depths} layers: {told}."
        )
        transformer = max(deepest.get("post", 0), deepest["pre"])
        can_all = min(interval(_best(numbers, pupil)[0])[0] for pupil in deepest) > _LEARNED
        if can_all and transformer > max(deepest["plain"], deepest["residual"]):
            return Judgement("holds", because)
        is_deeper = can_all and transformer > deepest["plain"]
        return Judgement("holds in part" if is_deeper else "does not hold here", because)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Accuracy over depth."""
        axes = figure.subplots()
        for number, pupil in enumerate(numbers["trials"]):
            label, colour = _PUPILS[pupil]
            ends = [interval(values) for values in _best(numbers, pupil)]
            middle = [each[0] for each in ends]
            reach = [[each[0] - each[1] for each in ends], [each[2] - each[0] for each in ends]]
            # Beside each other, or equal points would hide one another.
            across = [depth * (1 + 0.03 * number) for depth in numbers["depths"]]
            style = "o-" if pupil in ("post", "pre") else "s--"
            axes.errorbar(
                across, middle, yerr=reach, fmt=style, color=colour, label=label, capsize=3
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks(numbers["depths"], [str(each) for each in numbers["depths"]])
        axes.set_ylim(-0.05, 1.05)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False)
        tidy(axes, "Who still learns when layers are added", "layers", "without a fault")


class RecurrentReader(nn.Module):
    """A stack of LSTMs that says one symbol at each place of its source."""

    def __init__(self, vocabulary: int, depth: int, *, is_residual: bool) -> None:
        super().__init__()
        self.embedding = Embedding(vocabulary, _WIDTH, _WIDTH**0.5)
        self.layers = nn.ModuleList(
            RecurrentLayer("lstm", _WIDTH, _WIDTH, both_ways=height == 0) for height in range(depth)
        )
        self.is_residual = is_residual
        self.output = nn.Linear(_WIDTH, vocabulary)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        target: Int[Tensor, "B S"],
    ) -> Float[Tensor, "B S V"]:
        """Score what may be said at each place; all sources are of one length."""
        x = self.embedding(source)
        for height, layer in enumerate(self.layers):
            read, _ = layer(x)
            x = x + read if self.is_residual and height else read
        logits: torch.Tensor = self.output(x)
        return logits


def _pupil(pupil: str, task: Task, depth: int, seed: int) -> nn.Module:
    if pupil in ("post", "pre"):
        return build_reader(task, seed, **_MODEL, encoder_layers=depth, norm=pupil)
    reader = RecurrentReader(task.vocabulary, depth, is_residual=pupil == "residual")
    initialise(reader, seed)
    return reader


def _best(numbers: Numbers, pupil: str) -> list[list[float]]:
    """For each depth, the accuracies at the rate that suits it best."""
    return [
        max((accuracies(trials) for trials in at_rates), key=sum)
        for at_rates in numbers["trials"][pupil]
    ]
