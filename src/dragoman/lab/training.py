"""Train a small model on a toy task.

A plain loop: examples, loss, gradient, update. Adam with warm-up and linear decay to zero; no label
smoothing and no weight averaging, so that two models differ only in what the claim is about.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.lab.task import Examples, ToyTask
from dragoman.model.build import build_model
from dragoman.model.embedding import Embedding
from dragoman.model.initialization import initialize
from dragoman.model.resolve import resolve_parts
from dragoman.model.transformer import Encoder
from dragoman.recipe.schema import ModelRecipe
from dragoman.shapes import Bool, Float, Int, Tensor
from dragoman.tokenizer.interface import PADDING

SMALL: Mapping[str, Any] = {
    "width": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "heads": 4,
    "feed_forward_width": 128,
    "position_features": 16,
    "norm": "pre",
    "dropout": 0.0,
}
"""The default settings of a model in the lab."""

LEARNED = 0.1
"""The loss, in nats per symbol, below which a task counts as learned."""

CURVE_POINTS = 25
"""The number of points of a stored loss curve."""


@dataclass(frozen=True, slots=True)
class TrainingSetup:
    """The length and the hyperparameters of one training run."""

    steps: int
    batch_size: int = 64
    learning_rate: float = 2e-3
    warmup_steps: int = 50
    max_grad_norm: float = 1.0

    def learning_rate_at(self, step: int) -> float:
        """Linear warm-up, then linear decay to zero."""
        decay = (self.steps - step) / self.steps
        return self.learning_rate * min(step / self.warmup_steps, decay)


def build(task: ToyTask, seed: int, **settings: Any) -> nn.Module:
    """A small initialized model for a task; settings are those of a recipe's `model`."""
    recipe = ModelRecipe.model_validate(dict(SMALL) | settings)
    model: nn.Module = build_model(recipe, task.vocabulary, task.vocabulary)
    initialize(model, seed)
    return model


class EncoderOnlyModel(nn.Module):
    """An encoder that outputs one symbol at each position of its source.

    For tasks whose targets are as long as their sources. It shows what a single layer can do:
    there is no decoder that attends a second time.
    """

    def __init__(self, settings: ModelRecipe, vocabulary: int) -> None:
        super().__init__()
        resolved = resolve_parts(settings)
        self.embedding = Embedding(vocabulary, resolved.word_features, settings.width**0.5)
        self.encoder = Encoder(resolved)
        self.output = nn.Linear(settings.width, vocabulary)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        target: Int[Tensor, "B S"],
    ) -> Float[Tensor, "B S V"]:
        """Score the symbols at each position; the target is ignored."""
        memory = self.encoder(self.embedding(source), is_real)
        logits: Tensor = self.output(memory.layer_outputs[-1])
        return logits


def build_encoder_only(task: ToyTask, seed: int, **settings: Any) -> EncoderOnlyModel:
    """A small initialized encoder-only model; settings are those of a recipe's `model`."""
    model = EncoderOnlyModel(ModelRecipe.model_validate(dict(SMALL) | settings), task.vocabulary)
    initialize(model, seed)
    return model


def remove_norms(model: nn.Module) -> None:
    """Replace every LayerNorm of a model with the identity, in place."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.LayerNorm):
                setattr(parent, name, nn.Identity())


def train_model(model: nn.Module, task: ToyTask, setup: TrainingSetup, seed: int) -> list[float]:
    """Train in place; return the loss of every step, in nats per symbol."""
    rng = random.Random(seed)  # noqa: S311  (for examples, not for secrets)
    torch.manual_seed(seed)  # For dropout.
    weights = list(model.parameters())
    optimizer = torch.optim.Adam(weights, lr=setup.learning_rate, betas=(0.9, 0.98), fused=True)
    losses = []
    model.train()
    for step in range(1, setup.steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = setup.learning_rate_at(step)
        loss = compute_loss(model, task.examples(setup.batch_size, rng))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(weights, setup.max_grad_norm)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses


def compute_loss(model: nn.Module, examples: Examples) -> torch.Tensor:
    """The mean cross-entropy of the expected symbols."""
    logits = model(examples.source, examples.is_real, examples.target)
    return F.cross_entropy(logits.flatten(0, 1), examples.truth.flatten(), ignore_index=PADDING)


@torch.no_grad()
def accuracy(
    model: nn.Module, task: ToyTask, seed: int, count: int = 500, length: int | None = None
) -> float:
    """The share of new examples whose whole output is correct.

    Each position is predicted after the true prefix. All predictions are correct exactly when
    greedy search finds the whole truth, because it would have followed the same prefixes.
    """
    rng = random.Random(f"unseen {seed}")  # noqa: S311
    examples = task.examples(count, rng, length)
    predicted = model(examples.source, examples.is_real, examples.target).argmax(dim=-1)
    is_correct = (predicted == examples.truth) | (examples.truth == PADDING)
    share: float = is_correct.all(dim=1).float().mean().item()
    return share


@torch.no_grad()
def accuracy_by_position(
    model: nn.Module, task: ToyTask, seed: int, length: int, count: int = 500
) -> list[float]:
    """The share of correct symbols at each target position, for new examples of one length.

    As in `accuracy`, each position is predicted after the true prefix; the END token is left out.
    """
    rng = random.Random(f"unseen {seed} {length}")  # noqa: S311
    examples = task.examples(count, rng, length)
    predicted = model(examples.source, examples.is_real, examples.target).argmax(dim=-1)
    is_correct = predicted == examples.truth
    shares: list[float] = is_correct.float().mean(dim=0)[:-1].tolist()
    return shares


def run_trial(model: nn.Module, task: ToyTask, setup: TrainingSetup, seed: int) -> dict[str, Any]:
    """Train, evaluate, and return the numbers to store."""
    start = time.process_time()
    losses = train_model(model, task, setup, seed)
    seconds = time.process_time() - start
    return {
        "accuracy": accuracy(model, task, seed),
        "reached": _first_learned_step(losses),
        "curve": _downsample(losses),
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "seconds": seconds,
    }


def compare_models(
    models: Mapping[str, Mapping[str, Any]],
    task: ToyTask,
    setup: TrainingSetup,
    seeds: Sequence[int],
    builder: Callable[..., nn.Module] = build_encoder_only,
) -> dict[str, list[dict[str, Any]]]:
    """Train models with different settings on one task, each with the same seeds."""
    return {
        name: [run_trial(builder(task, seed, **settings), task, setup, seed) for seed in seeds]
        for name, settings in models.items()
    }


def accuracies(trials: Sequence[Mapping[str, Any]]) -> list[float]:
    """The accuracy of each seed."""
    return [trial["accuracy"] for trial in trials]


def steps_until_learned(trials: Sequence[Mapping[str, Any]], steps: int) -> list[float]:
    """The steps that each seed needed; a seed that never learned counts as all steps."""
    return [float(trial["reached"] or steps) for trial in trials]


def _first_learned_step(losses: list[float]) -> int | None:
    """The first step at which the mean of the last ten losses is below `LEARNED`."""
    for step in range(10, len(losses) + 1):
        if mean(losses[step - 10 : step]) < LEARNED:
            return step
    return None


def _downsample(losses: list[float]) -> list[float]:
    """The mean loss of each of `CURVE_POINTS` segments of equal length."""
    ends = [round(len(losses) * number / CURVE_POINTS) for number in range(CURVE_POINTS + 1)]
    return [mean(losses[start:end]) for start, end in pairwise(ends)]


def curve_steps(steps: int) -> list[float]:
    """The step in the middle of each segment of a stored loss curve."""
    return [(number + 0.5) * steps / CURVE_POINTS for number in range(CURVE_POINTS)]
