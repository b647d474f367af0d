"""Tokens, epochs, parameters and FLOPs of a recipe, before it is trained.

A prepared corpus gives exact numbers: its manifest counts pairs and tokens, and the sampler plans
the batches of its first shard as training will; of a corpus in a store, this shard is fetched.
Without one, the number of pairs and the tokens per
pair are the user's, and batches are assumed to be filled like those of real text.

FLOPs count every position of a batch, also padding, because the device computes it too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dragoman.data.manifest import MANIFEST
from dragoman.data.sampler import Sampler
from dragoman.data.store import Prepared
from dragoman.errors import DataError
from dragoman.model.cost import ModuleCost, measure
from dragoman.planning.figures import Basis
from dragoman.recipe.schema import Recipe, TrainingRecipe
from dragoman.storage import mirror
from dragoman.tokenizer.folder import load_tokenizer

TOKENS_PER_PAIR = 30.0
"""Tokens per side of a pair of news or parliament text, with a vocabulary of some ten thousand."""
FILLED = 0.9
"""Share of a batch's positions that are not padding, on real text."""
_BATCHES = 2000
"""Planned batches to take means from."""


@dataclass(frozen=True, slots=True)
class CorpusSize:
    """The training pairs."""

    pairs: int
    source_tokens: float
    target_tokens: float
    longest: int
    """Tokens of the longest side, with END."""
    basis: Basis
    prepared: Prepared | None = None
    """None if the corpus is not prepared, or is not on this machine."""


@dataclass(frozen=True, slots=True)
class UpdateSize:
    """The mean content of one update, over all micro-batches and ranks."""

    pairs: float
    source_positions: float
    """With padding."""
    target_positions: float
    target_tokens: float
    """Without padding."""

    @property
    def positions(self) -> float:
        """Positions of both sides."""
        return self.source_positions + self.target_positions


@dataclass(frozen=True, slots=True)
class ModelSize:
    """A model, and its cost for a pair of mean length."""

    recipe: Recipe
    """With the vocabulary of the prepared corpus."""
    parameters: int
    position_flops: float
    """Forward pass, for one position on each side (`dragoman show --model`)."""
    cost: ModuleCost


def corpus_size(recipe: Recipe, folder: Path, pairs: int, tokens_per_pair: float) -> CorpusSize:
    """Read the manifest of the prepared folder; otherwise use what the user states."""
    if not pairs and mirror.exists(folder / MANIFEST):
        prepared = Prepared.open(folder)
        shards = prepared.manifest.train
        pairs = sum(shard.rows for shard in shards)
        if not pairs:
            raise DataError(
                f"{mirror.path_text(folder)!r} has no training pair, expected at least one; "
                "report.html in that folder says why pairs were dropped"
            )
        return CorpusSize(
            pairs=pairs,
            source_tokens=sum(shard.source_tokens for shard in shards),
            target_tokens=sum(shard.target_tokens for shard in shards),
            longest=1 + max(shard.longest for shard in shards),
            basis="computed",
            prepared=prepared,
        )
    if not pairs:
        raise DataError(
            f"there is no prepared corpus in {mirror.path_text(folder)!r}, so its size is not "
            "known; state it, for example: --pairs 4500000. Or first type: dragoman prepare RECIPE"
        )
    tokens = pairs * (tokens_per_pair or TOKENS_PER_PAIR)
    longest = recipe.corpus.max_tokens + 1
    return CorpusSize(pairs, tokens, tokens, longest, "estimated")


def with_real_vocabulary(recipe: Recipe, corpus: CorpusSize) -> Recipe:
    """Return the recipe with the vocabulary of the prepared corpus: it can be smaller."""
    if corpus.prepared is None:
        return recipe
    size = load_tokenizer(corpus.prepared.folder / "tokenizer" / "target").size
    tokenizer = recipe.tokenizer.model_copy(update={"vocabulary_size": size})
    return recipe.model_copy(update={"tokenizer": tokenizer})


def update_size(recipe: Recipe, corpus: CorpusSize, micro_batches: int) -> UpdateSize:
    """Return the mean update: of planned batches, or of batches filled as usual."""
    settings = recipe.training
    budget = max(settings.tokens_per_update // micro_batches, 1)
    if corpus.prepared is None:
        tokens = float(budget * micro_batches)
        mean = max(corpus.source_tokens, corpus.target_tokens) / corpus.pairs + 1
        share = corpus.target_tokens / max(corpus.source_tokens, corpus.target_tokens)
        return UpdateSize(FILLED * tokens / mean, tokens, tokens, FILLED * tokens * share)
    prepared = corpus.prepared
    if budget < corpus.longest:
        raise DataError(
            f"a micro-batch of {budget} tokens is too small for the longest pair, which has "
            f"{corpus.longest} tokens on a side; raise training.tokens_per_update or "
            "training.micro_batch"
        )
    weights = prepared.manifest.weights
    sampler = Sampler(prepared, recipe.seed, budget, settings.temperature, weights)
    rows = source = target = target_tokens = batches = 0
    for plan in islice(sampler.batches(), _BATCHES):
        if plan.then.epoch > 0 or plan.then.shard > 0:
            break
        source_lengths = plan.shard.source_lengths[plan.rows] + 1
        target_lengths = plan.shard.target_lengths[plan.rows] + 1
        batches += 1
        rows += len(plan.rows)
        source += len(plan.rows) * int(source_lengths.max())
        target += len(plan.rows) * int(target_lengths.max())
        target_tokens += int(target_lengths.sum())
    factor = micro_batches / batches
    return UpdateSize(rows * factor, source * factor, target * factor, target_tokens * factor)


def model_size(recipe: Recipe, corpus: CorpusSize) -> ModelSize:
    """Count parameters and FLOPs for a pair of mean length."""
    source, target = (
        max(1, round(tokens / corpus.pairs) + 1)
        for tokens in (corpus.source_tokens, corpus.target_tokens)
    )
    cost = measure(recipe, source, target)
    return ModelSize(recipe, cost.parameters, 2 * cost.flops / (source + target), cost)


def update_flops(model: ModelSize, update: UpdateSize) -> float:
    """Return the FLOPs of one update.

    A backward pass costs twice a forward pass; activation checkpointing repeats the forward pass,
    and R-Drop reads each pair twice.
    """
    settings = model.recipe.training
    passes = 4 if settings.activation_checkpointing else 3
    reads = 2 if settings.r_drop else 1
    return passes * reads * model.position_flops * update.positions / 2


def validation_count(settings: TrainingRecipe, updates: int) -> int:
    """Return the number of validations; the last update always has one."""
    return -(-updates // settings.validate_every)


def checkpoint_count(settings: TrainingRecipe, updates: int) -> int:
    """Return the largest number of checkpoints that a run of so many updates writes.

    Checkpoints are saved at regular steps, at a validation that is the best so far, and at the end.
    """
    save, validate = settings.save_every, settings.validate_every
    both = updates // math.lcm(save, validate)
    is_last_extra = bool(updates % save and updates % validate)
    return updates // save + updates // validate - both + is_last_extra
