"""C29: by its self-attention the decoder knows what it has already said.

p(yₜ | y₁ … yₜ₋₁, x), not p(yₜ | yₜ₋₁, t, x)                            [CS224N] [APPLY-DL]
"""

from __future__ import annotations

import random
from math import lgamma
from statistics import mean

import torch
from matplotlib.figure import Figure
from torch import nn

from dragoman.lab.experiment import Experiment, Judgment, Numbers, Size, grade
from dragoman.lab.style import BLUE, ORANGE, label_axes, plot_seeds
from dragoman.lab.task import ToyTask
from dragoman.lab.training import TrainingSetup, build, train_model
from dragoman.lab.uncertainty import confidence_interval, derive_seeds, difference_interval
from dragoman.model.cache import KeysValues
from dragoman.model.layer import DecoderLayer
from dragoman.model.parts import Position
from dragoman.shapes import Bool, Float, Tensor
from dragoman.tokenizer.interface import BEGIN

_SYMBOLS, _LENGTH = 12, 6
_MIN_WITH, _MAX_WITHOUT = 0.8, 0.4
_LABELS = {"with": "with self-attention", "without": "without"}
_COLORS = {"with": BLUE, "without": ORANGE}
_TAIL = 20
"""Steps over which the final loss is averaged."""


class DecoderSelfAttention(Experiment):
    """Say every symbol of the source once, in any order."""

    title = "The decoder without self-attention"
    sources = (
        (
            "CS224N",
            "Fixing the third self-attention problem: Mask",
            "Decoders use self-attention too, and only must not look at the future.",
        ),
        (
            "CS182",
            "introduction",
            "Without recurrent connections, a step of the decoder cannot access the decoder's "
            "earlier states; self-attention fixes this.",
        ),
        (
            "APPLY-DL",
            "decoder",
            "In each layer the decoder attends to its own output so far, and then to the encoder.",
        ),
    )
    durations = (45, 330)
    claim = (
        "The decoder needs self-attention to its own output: without it a word depends only on "
        "the source, its position and the last word, so words are repeated and left out."
    )
    method = (
        f"A source has {_LENGTH} different symbols of {_SYMBOLS}. The target has the same symbols "
        "in random order, so the next symbol may be any that was not output yet. Transformers "
        "with two layers are trained with and without self-attention in the decoder. Measured "
        "are the share of sampled outputs that contain every symbol exactly once, and the loss, "
        "compared with its minimum: the entropy of a random order."
    )
    criterion = (
        f"Supported if with self-attention at least {_MIN_WITH:.0%} of the outputs contain every "
        f"symbol once and without it at most {_MAX_WITHOUT:.0%} (means over seeds), with the "
        "95 % interval of the difference above zero; partly supported if only the difference is "
        "above zero."
    )

    def measure(self, size: Size, seed: int) -> Numbers:
        """Train both decoders, then sample from them."""
        is_quick = size == "quick"
        setup = TrainingSetup(400 if is_quick else 1_000)
        task = any_order_task()
        numbers: Numbers = {"minimum": lgamma(_LENGTH + 1) / (_LENGTH + 1)}
        for name in _LABELS:
            rows = []
            for model_seed in derive_seeds(seed, 1 if is_quick else 3):
                model = build(task, model_seed)
                if name == "without":
                    remove_self_attention(model)
                losses = train_model(model, task, setup, model_seed)
                rows.append(
                    {
                        "complete": _share_complete(model, task, model_seed),
                        "loss": mean(losses[-_TAIL:]),
                    }
                )
            numbers[name] = rows
        return numbers

    def judge(self, numbers: Numbers) -> Judgment:
        """Compare the shares of complete outputs."""
        shares = {name: [row["complete"] for row in numbers[name]] for name in _LABELS}
        losses = {name: mean(row["loss"] for row in numbers[name]) for name in _LABELS}
        means = {name: confidence_interval(values).mean for name, values in shares.items()}
        gain = difference_interval(shares["without"], shares["with"])
        is_clear = means["with"] >= _MIN_WITH and means["without"] <= _MAX_WITHOUT
        explanation = (
            f"Every symbol exactly once: {means['with']:.0%} of the outputs with self-attention, "
            f"{means['without']:.0%} without ({100 * gain.mean:+.0f} points, from "
            f"{100 * gain.low:+.0f} to {100 * gain.high:+.0f}). The loss is {losses['with']:.2f} "
            f"and {losses['without']:.2f} nats per token (six symbols and the end token); the "
            f"minimum is {numbers['minimum']:.2f}."
        )
        verdict = grade(is_supported=is_clear and gain.low > 0, is_partly_supported=gain.low > 0)
        if verdict == "supported":
            summary = (
                "Without self-attention the decoder does not know what it has already said: it "
                "repeats words and leaves words out."
            )
        elif verdict == "partly supported":
            summary = (
                "With self-attention the decoder repeats and omits fewer words, but still some."
            )
        else:
            summary = "The decoder did not clearly need self-attention to avoid repetitions."
        return Judgment(verdict, summary, explanation)

    def draw(self, numbers: Numbers, figure: Figure) -> None:
        """The shares of complete outputs, and the losses."""
        left, right = figure.subplots(1, 2)
        for index, (name, label) in enumerate(_LABELS.items()):
            rows = numbers[name]
            plot_seeds(left, index, [row["complete"] for row in rows], _COLORS[name])
            plot_seeds(right, index, [row["loss"] for row in rows], _COLORS[name])
            for axes in (left, right):
                axes.plot([], [], "D", color=_COLORS[name], label=label)
        right.axhline(numbers["minimum"], color="black", linewidth=0.8, linestyle=":")
        for axes in (left, right):
            axes.set_xticks(range(len(_LABELS)), list(_LABELS.values()))
            axes.set_xlim(-0.5, len(_LABELS) - 0.3)
        left.set_ylim(-0.04, 1.06)
        right.set_ylim(0, 1.15 * max(row["loss"] for name in _LABELS for row in numbers[name]))
        label_axes(left, "Every symbol exactly once", "", "share of sampled outputs")
        label_axes(right, "Loss (dotted: minimum)", "", "nats per token")


def any_order_task() -> ToyTask:
    """Output the symbols of the source in random order."""

    def draw(rng: random.Random, length: int) -> tuple[list[int], list[int]]:
        source = rng.sample(range(_SYMBOLS), length)
        return source, rng.sample(source, length)

    return ToyTask(draw, _SYMBOLS, _LENGTH, _LENGTH)


class _NoSelfAttention(nn.Module):
    """Adds nothing, and has nothing to cache."""

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "#B 1 #T S"],
        position: Position,
        past: KeysValues | None = None,
    ) -> tuple[Float[Tensor, "B T M"], KeysValues]:
        """Return zeros."""
        empty = x.new_zeros(len(x), 1, x.shape[1], 1)
        return torch.zeros_like(x), KeysValues(empty, empty)


def remove_self_attention(model: nn.Module) -> None:
    """Remove the self-attention of every decoder layer, in place."""
    for module in list(model.modules()):
        if isinstance(module, DecoderLayer):
            module.self_attention = _NoSelfAttention()  # type: ignore[assignment]


@torch.no_grad()
def _share_complete(model: nn.Module, task: ToyTask, seed: int, count: int = 500) -> float:
    """Sample outputs; return the share that contain each symbol of the source exactly once."""
    examples = task.examples(count, random.Random(f"unseen {seed}"))  # noqa: S311
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.full((count, 1), BEGIN)
    for _ in range(examples.truth.shape[1]):
        logits = model(examples.source, examples.is_real, outputs)[:, -1]
        chosen = torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)
        outputs = torch.cat([outputs, chosen], dim=1)
    # The source ends with the END token, as the output must.
    is_complete = (outputs[:, 1:].sort(dim=1).values == examples.source.sort(dim=1).values).all(1)
    share: float = is_complete.float().mean().item()
    return share
