"""Estimate what a recipe will cost before it is run, for `dragoman plan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.planning.cost import (
    TrainingJob,
    answer_budget,
    preparation_stage,
    training_stage,
    translation_stage,
)
from dragoman.planning.figures import Plan
from dragoman.planning.machines import choose_machines, read_prices
from dragoman.planning.memory import checkpoint_bytes, rank_memory
from dragoman.planning.rates import (
    estimate_preparation,
    estimate_training,
    estimate_translation,
    has_export,
)
from dragoman.planning.sizes import corpus_size, model_size, update_size, with_real_vocabulary
from dragoman.recipe.schema import Recipe
from dragoman.storage.mirror import local_path
from dragoman.workflow.recipe import open_recipe


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What a plan is for."""

    gpus: str = ""
    """For example 8xA100-80GB; empty = the cores of this machine."""
    machines: int = 1
    cores: int = 0
    """For preparation and translation (0 = all of this machine, or those of the GPU machines)."""
    pairs: int = 0
    """Training pairs (0 = those of the prepared corpus)."""
    tokens_per_pair: float = 0.0
    """Tokens per side of a pair that is not prepared (0 = a usual number)."""
    sentences: int = 1_000_000
    """Sentences to translate."""
    budget: float | None = None
    prices: Path | None = None


def plan(
    recipe: Recipe | str | Path, settings: Sequence[str] = (), options: PlanOptions | None = None
) -> Plan:
    """Estimate tokens, memory, time, energy and money of preparation, training and translation."""
    chosen = options or PlanOptions()
    loaded, base_folder = open_recipe(recipe, settings)
    prices = read_prices(chosen.prices)
    machines = choose_machines(prices, chosen.gpus, chosen.machines, chosen.cores)
    folder = local_path(loaded.corpus.folder, base_folder)
    corpus = corpus_size(loaded, folder, chosen.pairs, chosen.tokens_per_pair)
    full_recipe = with_real_vocabulary(loaded, corpus)
    model = model_size(full_recipe, corpus)
    memory = rank_memory(model, machines, corpus.longest)
    update = update_size(full_recipe, corpus, memory.micro_batches)
    rates = estimate_training(model, machines, checkpoint_bytes(model), has_export(full_recipe))
    job = TrainingJob(model, corpus, machines, memory, update, rates)
    preparation = preparation_stage(estimate_preparation(full_recipe, corpus), corpus, machines)
    translation = translation_stage(
        estimate_translation(model, machines), corpus, machines, chosen.sentences
    )
    budget = None
    if chosen.budget is not None:
        budget = answer_budget(chosen.budget, job, preparation, translation)
    return Plan(
        machine=machines.name,
        currency=prices.currency,
        prices_date=str(prices.date),
        stages=(preparation, training_stage(job), translation),
        notes=tuple(_notes(job)),
        budget=budget,
    )


def _notes(job: TrainingJob) -> list[str]:
    settings, memory = job.model.recipe.training, job.memory
    notes = []
    if job.corpus.basis == "estimated":
        notes.append(
            f"the corpus is not prepared: {job.corpus.source_tokens / job.corpus.pairs:g} tokens "
            "per side of a pair (--tokens-per-pair), batches filled to 90 %"
        )
    if memory.largest_micro_batch < job.corpus.longest:
        notes.append(
            f"the longest pair ({job.corpus.longest} tokens) does not fit in the memory of a rank "
            f"({memory.largest_micro_batch} tokens); choose a larger device, several with "
            "training.parallel=fsdp, or training.activation_checkpointing=true"
        )
    if settings.patience:
        notes.append("training may end earlier (training.patience)")
    return notes
