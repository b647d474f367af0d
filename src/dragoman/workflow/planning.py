"""Estimate what a recipe will cost before it is run, for `dragoman plan`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dragoman.artifact import CARD
from dragoman.errors import DataError, RecipeError
from dragoman.planning.cost import (
    TrainingJob,
    answer_budget,
    preparation_stage,
    training_stage,
    translation_stage,
)
from dragoman.planning.figures import Plan, StageName
from dragoman.planning.machines import Machines, choose_machines, read_prices
from dragoman.planning.measure import (
    Trial,
    measure_preparation,
    measure_training,
    measure_translation,
)
from dragoman.planning.memory import RankMemory, checkpoint_bytes, rank_memory
from dragoman.planning.rates import (
    ItemRates,
    TrainingRates,
    estimate_preparation,
    estimate_training,
    estimate_translation,
    has_export,
)
from dragoman.planning.sizes import (
    CorpusSize,
    corpus_size,
    model_size,
    update_size,
    with_real_vocabulary,
)
from dragoman.recipe.schema import Recipe
from dragoman.storage.mirror import exists, local_path
from dragoman.workflow.recipe import open_recipe


class Rates(NamedTuple):
    """The rates of the three stages."""

    preparation: ItemRates
    training: TrainingRates
    translation: ItemRates


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
    measure: frozenset[StageName] = frozenset()
    """The stages that are measured with short runs on this machine."""
    prices: Path | None = None


def plan(
    recipe: Recipe | str | Path,
    settings: Sequence[str] = (),
    options: PlanOptions | None = None,
    *,
    on_progress: Callable[[str], None] | None = None,
) -> Plan:
    """Estimate tokens, memory, time, energy and money of preparation, training and translation.

    `on_progress` receives the name of each stage whose measurement begins.
    """
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
    rates = Rates(
        estimate_preparation(full_recipe, corpus),
        estimate_training(model, machines, checkpoint_bytes(model), has_export(full_recipe)),
        estimate_translation(model, machines),
    )
    if chosen.measure:
        with tempfile.TemporaryDirectory(prefix="dragoman-plan-") as workspace:
            trial = Trial(loaded, base_folder, Path(workspace))
            report = on_progress or (lambda name: None)
            measurement = _Measurement(trial, corpus, memory, machines, chosen.measure, report)
            rates = measurement.run(rates)
    job = TrainingJob(model, corpus, machines, memory, update, rates.training)
    preparation = preparation_stage(rates.preparation, corpus, machines)
    translation = translation_stage(rates.translation, corpus, machines, chosen.sentences)
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


@dataclass(frozen=True, slots=True)
class _Measurement:
    """Short runs on this machine; a stage that is not measured stays estimated."""

    trial: Trial
    corpus: CorpusSize
    memory: RankMemory
    machines: Machines
    stages: frozenset[StageName]
    report: Callable[[str], None]

    def run(self, estimates: Rates) -> Rates:
        """Replace estimated rates by measured ones."""
        if self.machines.is_gpu:
            raise DataError(
                "--measure measures the CPU cores of this machine, not the devices of --gpus; use "
                "one of the two"
            )
        preparation, training, translation = estimates
        corpus = self.corpus
        if "preparation" in self.stages:
            self.report("preparation")
            try:
                preparation, sample = measure_preparation(self.trial, corpus.pairs)
            except RecipeError:
                if corpus.prepared is None:
                    raise
                # The text is not on this machine, and is not needed: the corpus is prepared.
            else:
                if corpus.prepared is None:
                    corpus = corpus_size(self.trial.recipe, sample, 0, 0)
        if corpus.prepared is None:
            return Rates(preparation, training, translation)
        if "training" in self.stages:
            self.report("training")
            training = measure_training(self.trial, corpus, self.memory, self.machines)
        run = local_path(self.trial.recipe.training.folder, self.trial.base_folder)
        if "translation" in self.stages and exists(run / CARD):
            self.report("translation")
            text = corpus.prepared.folder / "validation.source"
            translation = measure_translation(self.trial, run, text)
        return Rates(preparation, training, translation)


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
