"""C15: Transformers can be made deeper than recurrent networks.

A Transformer can have six layers where a recurrent network has three           [CS182]

Two recurrent stacks are compared: plain layers, as in early models; and layers with residual
connections, which GNMT needed for its depth (Wu et al., 2016; [APPLY-DL]).
"""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, Verdict, grade
from dragoman.lab.style import BLUE, GRAY, GREEN, ORANGE, VERMILION, label_axes, percent_axis
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
_SUMMARIES: dict[Verdict, str] = {
    "supported": (
        "Transformers still learned with more layers than both kinds of recurrent network."
    ),
    "partly supported": (
        "Transformers still learned with more layers than a plain recurrent network, but a "
        "recurrent network with residual connections can be at least as deep."
    ),
    "not supported": "Transformers did not learn with more layers than a plain recurrent network.",
    "inconclusive": (
        "One of the networks did not even learn with a single layer, so the test says nothing "
        "about depth."
    ),
}


class Depth(Experiment):
    """One task, more and more layers."""

    title = "Which architecture can be deep"
    sources = (
        (
            "CS182",
            "Layer Normalization (benefits, at its end)",
            "A Transformer can have more layers than a recurrent network, six instead of three.",
        ),
    )
    durations = (35, 520)
    claim = "Transformers can be made deeper than recurrent networks."
    method = (
        "Encoder-only models of growing depth learn to output the previous symbol at each "
        "position, which one layer can do: depth is not needed, but must not prevent learning. "
        "Transformers have their norm after the sum (the lectures) or before the sublayer; stacks "
        "of LSTMs, the bottom one bidirectional, have residual connections or not. All have the "
        "same width and number of steps. Up to three learning rates are tried, until all seeds "
        "learn; the best one counts (Adam, 50 warm-up steps, gradients clipped at norm 1). "
        "Training is short: a model that fails might learn with more steps."
    )
    criterion = (
        f"A stack learns if on average over seeds more than {_LEARNED:.0%} of new examples are "
        "correct. Supported if all stacks learn with one layer, and the better Transformer learns "
        "at a greater depth than both recurrent stacks; partly supported if at a greater depth "
        "than the plain recurrent stack only; not supported if not even that; inconclusive if a "
        "stack does not learn with one layer."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train at every depth."""
        is_quick = size == "quick"
        depths = [1, 6] if is_quick else [1, 3, 6, 12]
        rates = [1e-2, 4e-3] if is_quick else [1e-2, 5e-3, 2e-2]
        names = list(_MODELS)[1:] if is_quick else list(_MODELS)
        seeds = derive_seeds(seed, 1 if is_quick else 3)
        task = shift_task(8, 10, -1)
        numbers: Numbers = {"depths": depths, "rates": rates, "steps": 220 if is_quick else 400}

        def train_seeds(name: str, depth: int, rate: float) -> list[dict[str, Any]]:
            setup = TrainingSetup(numbers["steps"], batch_size=32, learning_rate=rate)
            return [
                run_trial(_build(name, task, depth, model_seed), task, setup, model_seed)
                for model_seed in seeds
            ]

        def try_rates(name: str, depth: int) -> list[list[dict[str, Any]]]:
            """Stop at the first learning rate at which all seeds learn: others add nothing."""
            tried = []
            for rate in rates:
                tried.append(train_seeds(name, depth, rate))
                if min(accuracies(tried[-1])) > _LEARNED:
                    break
            return tried

        numbers["trials"] = {name: [try_rates(name, depth) for depth in depths] for name in names}
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
            is_supported=transformer > max(deepest["plain"], deepest["residual"]),
            is_partly_supported=transformer > deepest["plain"],
        )
        if not all_learn:
            verdict = "inconclusive"
        return Judgment(verdict, _SUMMARIES[verdict], explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """Accuracy over depth; a panel for each stack, because many points coincide."""
        panels = figure.subplots(1, len(numbers["trials"]), sharey=True)
        x = range(len(numbers["depths"]))
        for axes, name in zip(panels, numbers["trials"], strict=True):
            label, color = _MODELS[name]
            axes.axhline(_LEARNED, color=GRAY, linestyle=":", linewidth=0.9)
            for index, by_rate in enumerate(numbers["trials"][name]):
                best = max((accuracies(trials) for trials in by_rate), key=sum)
                axes.plot([index] * len(best), best, "o", color=color, alpha=0.35, markersize=5)
            means = [share.mean for share in _best_accuracies(numbers, name)]
            axes.plot(x, means, "D-", color=color, markersize=4)
            axes.set_xticks(list(x), [str(depth) for depth in numbers["depths"]])
            axes.set_ylim(-0.05, 1.05)
            label_axes(axes, label.replace(", ", ",\n").replace(" with ", " with\n"), "layers")
        panels[0].text(-0.1, _LEARNED - 0.02, "learned", color=GRAY, fontsize=8, va="top")
        percent_axis(panels[0])
        panels[0].set_ylabel("correct examples (dots: seeds, line: mean)")


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
