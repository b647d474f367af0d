"""C15: Transformers can be made deeper than recurrent networks.

"can make it deep (more layers) than RNNs"                                      [CS182]

Two recurrent stacks are compared: plain layers, as in early models; and layers with residual
connections, which GNMT needed for its depth (Wu et al., 2016; [APPLY-DL]).
"""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, GREEN, ORANGE, VERMILION, label_axes, percent_axis
from dragoman.lab.task import ToyTask, shift_task
from dragoman.lab.training import TrainingSetup, accuracies, build_encoder_only, run_trial
from dragoman.lab.uncertainty import Interval, confidence_interval, derive_seeds
from dragoman.model.cell import RecurrentLayer
from dragoman.model.embedding import Embedding
from dragoman.model.initialization import initialize
from dragoman.shapes import Bool, Float, Int, Tensor

_WIDTH = 32
_MODEL = {"width": _WIDTH, "heads": 2, "feed_forward_width": 64}
_MODELS = {
    "post": ("Transformer, post-norm (lectures)", GREEN),
    "pre": ("Transformer, pre-norm", BLUE),
    "plain": ("LSTM, plain", VERMILION),
    "residual": ("LSTM with residuals (GNMT)", ORANGE),
}
_LEARNED = 0.9


class Depth(Experiment):
    """One task, more and more layers."""

    title = "Which architecture can be deep"
    lectures = ("CS182",)
    durations = (40, 790)
    claim = "Transformers can be made deeper than recurrent networks."
    method = (
        "Encoder-only models of growing depth learn to output the previous symbol at each "
        "position, which one layer can do: depth is not needed, but must not prevent learning. "
        "Transformers have their norm after the sum (the lectures) or before the sublayer; stacks "
        "of LSTMs, the bottom one bidirectional, have residual connections or not. All have the "
        "same width and number of steps; of several learning rates, the best counts. Training is "
        "short: a model that fails might learn with more steps."
    )
    criterion = (
        f"A stack learns if on average over seeds more than {_LEARNED:.0%} of new examples are "
        "correct. Supported if all stacks learn with one layer, and the better Transformer learns "
        "at a greater depth than both recurrent stacks; partly supported if at a greater depth "
        "than the plain recurrent stack only."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train at every depth."""
        is_quick = size == "quick"
        depths = [1, 6] if is_quick else [1, 3, 6, 12]
        rates = [4e-3, 1e-2] if is_quick else [5e-3, 1e-2, 2e-2]
        names = list(_MODELS)[1:] if is_quick else list(_MODELS)
        seeds = derive_seeds(seed, 1 if is_quick else 3)
        task = shift_task(8, 10, -1)
        numbers: Numbers = {"depths": depths, "rates": rates, "steps": 220 if is_quick else 300}

        def trials(name: str, depth: int, rate: float) -> list[dict[str, Any]]:
            setup = TrainingSetup(numbers["steps"], batch_size=32, learning_rate=rate)
            return [
                run_trial(_build(name, task, depth, model_seed), task, setup, model_seed)
                for model_seed in seeds
            ]

        numbers["trials"] = {
            name: [[trials(name, depth, rate) for rate in rates] for depth in depths]
            for name in names
        }
        return numbers

    def judge(self, numbers: Numbers) -> Judgment:
        """Find the greatest depth at which each stack still learns."""
        shares = {name: _best_accuracies(numbers, name) for name in numbers["trials"]}
        deepest = {
            name: max(
                (
                    depth
                    for depth, share in zip(numbers["depths"], intervals, strict=True)
                    if share.mean > _LEARNED
                ),
                default=0,
            )
            for name, intervals in shares.items()
        }
        listed = "; ".join(
            f"{_MODELS[name][0]}: " + ", ".join(f"{share.mean:.0%}" for share in intervals)
            for name, intervals in shares.items()
        )
        depths = ", ".join(str(depth) for depth in numbers["depths"])
        explanation = (
            f"Correct examples after {numbers['steps']} steps at the best learning rate, with "
            f"{depths} layers: {listed}."
        )
        transformer = max(deepest.get("post", 0), deepest["pre"])
        all_learn = min(intervals[0].mean for intervals in shares.values()) > _LEARNED
        verdict = grade(
            is_supported=all_learn and transformer > max(deepest["plain"], deepest["residual"]),
            is_partly_supported=all_learn and transformer > deepest["plain"],
        )
        return Judgment(verdict, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Accuracy over depth."""
        axes = figure.subplots()
        for number, name in enumerate(numbers["trials"]):
            label, color = _MODELS[name]
            intervals = _best_accuracies(numbers, name)
            errors = [
                [share.mean - share.low for share in intervals],
                [share.high - share.mean for share in intervals],
            ]
            # Shifted sideways, because equal points would hide each other.
            x = [depth * (1 + 0.03 * number) for depth in numbers["depths"]]
            y = [share.mean for share in intervals]
            style = "o-" if name in ("post", "pre") else "s--"
            axes.errorbar(x, y, yerr=errors, fmt=style, color=color, label=label, capsize=3)
        axes.set_xscale("log", base=2)
        axes.set_xticks(numbers["depths"], [str(depth) for depth in numbers["depths"]])
        axes.set_ylim(-0.05, 1.05)
        percent_axis(axes)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False)
        label_axes(axes, "Accuracy by number of layers", "layers", "correct examples")


class RecurrentEncoder(nn.Module):
    """A stack of LSTMs that outputs one symbol at each position of its source."""

    def __init__(self, vocabulary: int, depth: int, *, is_residual: bool) -> None:
        super().__init__()
        self.embedding = Embedding(vocabulary, _WIDTH, _WIDTH**0.5)
        self.layers = nn.ModuleList(
            RecurrentLayer("lstm", _WIDTH, _WIDTH, bidirectional=index == 0)
            for index in range(depth)
        )
        self.is_residual = is_residual
        self.output = nn.Linear(_WIDTH, vocabulary)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        target: Int[Tensor, "B S"],
    ) -> Float[Tensor, "B S V"]:
        """Score the symbols at each position; all sources have the same length."""
        x = self.embedding(source)
        for index, layer in enumerate(self.layers):
            states, _ = layer(x)
            x = x + states if self.is_residual and index else states
        logits: torch.Tensor = self.output(x)
        return logits


def _build(name: str, task: ToyTask, depth: int, seed: int) -> nn.Module:
    if name in ("post", "pre"):
        return build_encoder_only(task, seed, **_MODEL, encoder_layers=depth, norm=name)
    model = RecurrentEncoder(task.vocabulary, depth, is_residual=name == "residual")
    initialize(model, seed)
    return model


def _best_accuracies(numbers: Numbers, name: str) -> list[Interval]:
    """For each depth, the accuracy at the best learning rate."""
    return [
        confidence_interval(max((accuracies(trials) for trials in by_rate), key=sum))
        for by_rate in numbers["trials"][name]
    ]
