"""Time, energy and money of each stage, as figures for a table."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dragoman.planning.figures import Basis, BudgetAnswer, Figure, Stage, StageName
from dragoman.planning.machines import Device, Machines
from dragoman.planning.memory import RankMemory, checkpoint_bytes
from dragoman.planning.rates import ItemRates, TrainingRates
from dragoman.planning.sizes import (
    CorpusSize,
    ModelSize,
    UpdateSize,
    checkpoint_count,
    update_flops,
    validation_count,
)

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """Everything that decides what a training run costs."""

    model: ModelSize
    corpus: CorpusSize
    machines: Machines
    memory: RankMemory
    update: UpdateSize
    rates: TrainingRates

    @property
    def update_seconds(self) -> float:
        """Wall-clock seconds of one update: computing, or transferring if that takes longer."""
        machines = self.machines
        flops = update_flops(self.model, self.update)
        computing = flops * self.rates.flop_seconds / self.rates.parallelism / machines.world_size
        return max(computing, self.network_bytes / machines.bandwidth)

    @property
    def network_bytes(self) -> float:
        """Bytes that one rank sends per update.

        DDP sums the gradients once (4 bytes, sent twice). FSDP gathers the weights for the forward
        and for the backward pass and scatters the gradients, for each micro-batch.
        """
        count, settings = self.machines.world_size, self.model.recipe.training
        if count == 1:
            return 0.0
        share = (count - 1) / count
        if settings.parallel == "ddp":
            return 2 * 4 * self.model.parameters * share
        is_low = self.machines.device.peak_bfloat16 > 0 and settings.precision != "float32"
        per_micro_batch = (2 * (2 if is_low else 4) + 4) * self.model.parameters * share
        return per_micro_batch * self.memory.micro_batches / count

    @property
    def updates(self) -> int:
        """The updates of the recipe, or those that its time limit allows."""
        settings = self.model.recipe.training
        if not settings.minutes:
            return settings.steps
        # Validations and checkpoints count for the limit too. They repeat after so many updates.
        period = math.lcm(settings.validate_every, settings.save_every)
        seconds = (self.wall_seconds(period) - self.rates.start_seconds) / period
        return max(1, min(settings.steps, int(60 * settings.minutes / seconds)))

    def other_seconds(self, updates: int) -> float:
        """Wall-clock seconds besides updates: start, validations, checkpoints."""
        settings, rates = self.model.recipe.training, self.rates
        validations = validation_count(settings, updates) * settings.validation_pairs
        saves = checkpoint_count(settings, updates)
        busy = validations * rates.validation_seconds / rates.parallelism
        return rates.start_seconds + busy + saves * rates.save_seconds

    def wall_seconds(self, updates: int) -> float:
        """Wall-clock seconds of a run of so many updates."""
        return updates * self.update_seconds + self.other_seconds(updates)

    def cpu_seconds(self, updates: int) -> float:
        """CPU seconds of a run on cores."""
        settings, rates = self.model.recipe.training, self.rates
        flops = updates * update_flops(self.model, self.update)
        validations = validation_count(settings, updates) * settings.validation_pairs
        return (
            rates.start_seconds
            + flops * rates.flop_seconds
            + validations * rates.validation_seconds
            + checkpoint_count(settings, updates) * rates.save_seconds
        )

    @property
    def devices(self) -> int:
        """Devices that are paid for."""
        return self.machines.world_size if self.machines.is_gpu else self.machines.cores

    def money(self, updates: int) -> float:
        """The price of a run of so many updates."""
        return _money(self.machines.device, self.devices, self.wall_seconds(updates))


def training_stage(job: TrainingJob) -> Stage:
    """Return the table of training."""
    model, corpus, memory, rates = job.model, job.corpus, job.memory, job.rates
    updates, settings, basis = job.updates, model.recipe.training, job.rates.basis
    wall = job.wall_seconds(updates)
    checkpoint = checkpoint_bytes(model)
    saves = checkpoint_count(settings, updates)
    peak: float = memory.peak
    if rates.peak_bytes is not None:
        # The measured run may have had smaller micro-batches.
        peak = rates.peak_bytes + (memory.micro_batch - rates.micro_batch) * memory.token_bytes
    rows = [
        Figure(name="parameters", value=model.parameters, basis="computed"),
        Figure(name="updates", value=updates, basis="computed" if not settings.minutes else basis),
        _figure("tokens_per_update", settings.tokens_per_update, "tokens", "computed"),
        _figure("target_tokens", updates * job.update.target_tokens, "tokens", corpus.basis),
        Figure(name="epochs", value=updates * job.update.pairs / corpus.pairs, basis=corpus.basis),
        _figure("flops", updates * update_flops(model, job.update), "flops", corpus.basis),
        _figure("weights_and_optimizer_per_rank", memory.state, "bytes", "computed"),
        _figure("activations_per_token", memory.token_bytes, "bytes", "computed"),
        _figure("peak_memory_per_rank", peak, "bytes", basis),
        _figure("largest_micro_batch", memory.largest_micro_batch, "tokens", "estimated"),
        Figure(name="micro_batches_per_update", value=memory.micro_batches),
        _figure("time_per_update", job.update_seconds, "seconds", basis),
        *_costs(job.machines.device, job.devices, wall, basis),
    ]
    if job.machines.is_gpu:
        rows.append(_figure("gpu_time", wall * job.devices, "seconds", basis))
    else:
        rows.append(_figure("cpu_time", job.cpu_seconds(updates), "seconds", basis))
    written = saves * checkpoint + rates.written_bytes
    rows += [
        _figure("checkpoint", checkpoint, "bytes", "computed"),
        Figure(name="checkpoints_written", value=saves, basis="computed"),
        _figure("written", written, "bytes", basis),
        _figure("network_per_update_and_rank", job.network_bytes, "bytes", "computed"),
    ]
    return Stage(name="training", figures=tuple(rows))


def preparation_stage(rates: ItemRates, corpus: CorpusSize, machines: Machines) -> Stage:
    """Return the table of a preparation on CPU cores."""
    return _item_stage("preparation", "pairs", rates, corpus.pairs, machines, corpus)


def translation_stage(
    rates: ItemRates, corpus: CorpusSize, machines: Machines, sentences: int
) -> Stage:
    """Return the table of a translation of so many sentences on CPU cores."""
    return _item_stage("translation", "sentences", rates, sentences, machines, corpus)


def _item_stage(
    name: StageName,
    item: str,
    rates: ItemRates,
    items: int,
    machines: Machines,
    corpus: CorpusSize,
) -> Stage:
    usage, basis = rates.usage(items), rates.basis
    wall = rates.wall_seconds(items, machines.cores)
    tokens = corpus.source_tokens / corpus.pairs * items
    return Stage(
        name=name,
        figures=(
            Figure(name=item, value=items, basis="computed"),
            _figure("source_tokens", tokens, "tokens", corpus.basis),
            _figure("peak_memory", usage.peak_bytes, "bytes", basis),
            *_costs(machines.core, machines.cores, wall, basis),
            _figure("cpu_time", usage.cpu_seconds, "seconds", basis),
            _figure("written", usage.written_bytes, "bytes", basis),
        ),
    )


def answer_budget(
    budget: float, job: TrainingJob, preparation: Stage, translation: Stage
) -> BudgetAnswer:
    """Say whether all stages fit, and how many updates the budget pays for."""
    others = preparation.value("money") + translation.value("money")
    total = others + job.money(job.updates)
    # The money grows with the updates, so bisection finds the largest number.
    low, high = 0, 1
    while job.money(high) + others <= budget and high < 1 << 40:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        is_paid = job.money(middle) + others <= budget
        low, high = (middle, high) if is_paid else (low, middle)
    return BudgetAnswer(budget=budget, money=total, fits=total <= budget, max_updates=low)


def _costs(device: Device, count: int, wall: float, basis: Basis) -> list[Figure]:
    energy = device.watts * count * wall / _HOUR / 1000
    return [
        _figure("time", wall, "seconds", basis),
        _figure("energy", energy, "kilowatt_hours", "estimated"),
        _figure("money", _money(device, count, wall), "money", "estimated"),
    ]


def _money(device: Device, count: int, wall: float) -> float:
    return device.price_per_hour * count * wall / _HOUR


def _figure(name: str, value: float, unit: str, basis: Basis) -> Figure:
    return Figure.model_validate({"name": name, "value": value, "unit": unit, "basis": basis})
