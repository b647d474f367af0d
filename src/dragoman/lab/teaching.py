"""How is a small model taught a small task?

The plain loop: examples, loss, gradient, step. Adam, a warm-up and a straight fall to zero; no
smoothing and no averages, so that nothing but what is asked about differs between two pupils.
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

from dragoman.lab.task import Examples, Task
from dragoman.model.blueprint import draw_blueprint
from dragoman.model.build import build_model
from dragoman.model.embedding import Embedding
from dragoman.model.initialisation import initialise
from dragoman.model.transformer import Encoder
from dragoman.recipe import ModelRecipe
from dragoman.shapes import Bool, Float, Int, Tensor
from dragoman.tokenizer.interface import PADDING

SMALL: Mapping[str, Any] = {
    "width": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "head_count": 4,
    "feed_forward_width": 128,
    "position_features": 16,
    "norm": "pre",
    "dropout": 0.0,
}
"""What a model of the lab is where nothing else is said."""

LEARNED = 0.1
"""The loss, in nats a symbol, below which a task counts as learned."""

CURVE = 25
"""How many stretches of a lesson a curve tells of."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """How long and how fast is learned."""

    steps: int
    batch: int = 64
    rate: float = 2e-3
    warmup: int = 50
    clip: float = 1.0

    def rate_at(self, step: int) -> float:
        """Up while warming, then straight down to zero."""
        return self.rate * min(step / self.warmup, (self.steps - step) / self.steps)


def build(task: Task, seed: int, **settings: Any) -> nn.Module:
    """A small model for a task, with its first weights; settings are those of a recipe's model."""
    recipe = ModelRecipe.model_validate(dict(SMALL) | settings)
    model: nn.Module = build_model(recipe, task.vocabulary, task.vocabulary)
    initialise(model, seed)
    return model


class Reader(nn.Module):
    """An encoder alone that says one symbol at each place of its source.

    For tasks whose targets are as long as their sources. One asks it what a single layer can do:
    there is no decoder that would look a second time.
    """

    def __init__(self, settings: ModelRecipe, vocabulary: int) -> None:
        super().__init__()
        blueprint = draw_blueprint(settings)
        self.embedding = Embedding(vocabulary, blueprint.word_features, settings.width**0.5)
        self.encoder = Encoder(blueprint)
        self.output = nn.Linear(settings.width, vocabulary)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        is_real: Bool[Tensor, "B S"],
        target: Int[Tensor, "B S"],
    ) -> Float[Tensor, "B S V"]:
        """Score what may be said at each place; what was said before is not looked at."""
        memory = self.encoder(self.embedding(source), is_real)
        logits: Tensor = self.output(memory.heights[-1])
        return logits


def build_reader(task: Task, seed: int, **settings: Any) -> Reader:
    """A small reader for a task, with its first weights; settings are those of a recipe's model."""
    reader = Reader(ModelRecipe.model_validate(dict(SMALL) | settings), task.vocabulary)
    initialise(reader, seed)
    return reader


def without_norms(model: nn.Module) -> None:
    """Take every LayerNorm of a model away, in place."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.LayerNorm):
                setattr(parent, name, nn.Identity())


def teach(model: nn.Module, task: Task, lesson: Lesson, seed: int) -> list[float]:
    """Teach in place; give the loss of every step, in nats a symbol."""
    chance = random.Random(seed)  # noqa: S311  (for examples, not for secrets)
    torch.manual_seed(seed)  # Of dropout.
    weights = list(model.parameters())
    optimizer = torch.optim.Adam(weights, lr=lesson.rate, betas=(0.9, 0.98), fused=True)
    losses = []
    model.train()
    for step in range(1, lesson.steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = lesson.rate_at(step)
        loss = loss_of(model, task.examples(lesson.batch, chance))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(weights, lesson.clip)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses


def loss_of(model: nn.Module, examples: Examples) -> torch.Tensor:
    """The mean surprise of the symbols that are to be said."""
    logits = model(examples.source, examples.is_real, examples.target)
    return F.cross_entropy(logits.flatten(0, 1), examples.truth.flatten(), ignore_index=PADDING)


@torch.no_grad()
def accuracy(
    model: nn.Module, task: Task, seed: int, count: int = 500, length: int | None = None
) -> float:
    """The share of new examples that are said without a fault.

    Each place is asked what follows the true beginning. All are right exactly when a greedy search
    would find the whole truth, for it would have walked through the same beginnings.
    """
    chance = random.Random(f"unseen {seed}")  # noqa: S311
    examples = task.examples(count, chance, length)
    said = model(examples.source, examples.is_real, examples.target).argmax(dim=-1)
    is_right = (said == examples.truth) | (examples.truth == PADDING)
    share: float = is_right.all(dim=1).float().mean().item()
    return share


@torch.no_grad()
def accuracy_by_place(
    model: nn.Module, task: Task, seed: int, length: int, count: int = 500
) -> list[float]:
    """The share of new examples of one length whose symbol is right, at each place of the target.

    As in `accuracy`, each place is asked what follows the true beginning; the end is not counted.
    """
    chance = random.Random(f"unseen {seed} {length}")  # noqa: S311
    examples = task.examples(count, chance, length)
    said = model(examples.source, examples.is_real, examples.target).argmax(dim=-1)
    is_right = said == examples.truth
    shares: list[float] = is_right.float().mean(dim=0)[:-1].tolist()
    return shares


def trial(model: nn.Module, task: Task, lesson: Lesson, seed: int) -> dict[str, Any]:
    """Teach, and tell what came of it, as numbers to keep."""
    start = time.process_time()
    losses = teach(model, task, lesson, seed)
    seconds = time.process_time() - start
    return {
        "accuracy": accuracy(model, task, seed),
        "reached": _reached(losses),
        "curve": _thinned(losses),
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "seconds": seconds,
    }


def contest(
    pupils: Mapping[str, Mapping[str, Any]],
    task: Task,
    lesson: Lesson,
    seeds: Sequence[int],
    make: Callable[..., nn.Module] = build_reader,
) -> dict[str, list[dict[str, Any]]]:
    """Teach one task to pupils that differ in their settings, each with the same seeds."""
    return {
        name: [trial(make(task, seed, **settings), task, lesson, seed) for seed in seeds]
        for name, settings in pupils.items()
    }


def accuracies(trials: Sequence[Mapping[str, Any]]) -> list[float]:
    """The share of new examples said without a fault, seed by seed."""
    return [each["accuracy"] for each in trials]


def steps_until_learned(trials: Sequence[Mapping[str, Any]], steps: int) -> list[float]:
    """How many steps each seed needed; never counts as the whole lesson."""
    return [float(each["reached"] or steps) for each in trials]


def _reached(losses: list[float]) -> int | None:
    """After how many steps the loss was below that, in the mean of the last ten; or never."""
    for step in range(10, len(losses) + 1):
        if mean(losses[step - 10 : step]) < LEARNED:
            return step
    return None


def _thinned(losses: list[float]) -> list[float]:
    """The mean loss of each of so many stretches of equal length."""
    ends = [round(len(losses) * number / CURVE) for number in range(CURVE + 1)]
    return [mean(losses[start:end]) for start, end in pairwise(ends)]
