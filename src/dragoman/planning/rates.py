"""How much a unit of work costs: seconds, memory and bytes per pair, token and checkpoint.

Rates come from a measurement on this machine (`measure.py`), or from the functions in this file,
which estimate them from the speed of a device and from figures that were measured elsewhere
(docs/scale.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.interop.compatibility.ctranslate2 import export_obstacles, obstacles
from dragoman.planning.figures import Basis, Usage
from dragoman.planning.machines import Machines
from dragoman.planning.memory import PROCESS_BYTES
from dragoman.planning.sizes import CorpusSize, ModelSize
from dragoman.recipe.schema import Recipe

_REFERENCE_TOKENS = 35.0
"""Tokens per side of the pairs for which docs/scale.md has the figures below."""
_PAIR_CORE_SECONDS = {
    "read": 15e-6,
    "clean": 40e-6,
    "exact": 6e-6,
    "split": 19e-6,
    "shards": 150e-6,
}
_LANGUAGE_CORE_SECONDS = 45e-6
_NEAR_CORE_SECONDS = 35e-6
_TOKENIZER_SECONDS = 69.0
"""For a million pairs."""
_TOKENIZER_EXPONENT = 0.5
"""The cost grows with the number of different words, so about with the square root."""
_PAIR_BYTES = 1600.0
"""Bytes written per pair, over all stages, with near duplicates."""
_PREPARATION_BYTES, _PAIR_MEMORY = 0.6e9, 2500.0
"""Peak memory: once, and for each pair of the tokenizer's sample (3.1 GB for a million pairs)."""
_PYTORCH_SHARE = 0.45
"""Speed of the engine PyTorch, compared with CTranslate2 (docs/scale.md)."""
_START_SECONDS = 12.0
"""CPU seconds of a training run besides its updates: imports, first weights, export, curve."""
_TRANSLATION_START = 3.0
_DECODING_FACTOR = 4.0
"""Seconds of greedy search with PyTorch, compared with one forward pass over the same tokens."""
_SAVE_RATE = 0.5e9
"""Bytes of a checkpoint that are written and hashed per second."""


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """A cost that grows more slowly than the items: `seconds` for one, times items^exponent."""

    seconds: float
    exponent: float
    max_items: float

    def at(self, items: float) -> float:
        """Return the seconds for so many items."""
        return self.seconds * float(min(items, self.max_items) ** self.exponent)


NOTHING_SERIAL = PowerLaw(0.0, 1.0, 0.0)


@dataclass(frozen=True, slots=True)
class ItemRates:
    """The cost of a job that grows linearly with its items: pairs, or sentences."""

    fixed: Usage
    per_item: Usage
    serial: PowerLaw
    """CPU seconds in which only one core works: learning the vocabulary."""
    memory_items: float
    """Memory does not grow with more items than this."""
    basis: Basis

    def usage(self, items: float) -> Usage:
        """Return the cost of so many items."""
        in_memory = min(items, self.memory_items)
        return Usage(
            self.fixed.cpu_seconds + items * self.per_item.cpu_seconds + self.serial.at(items),
            self.fixed.peak_bytes + in_memory * self.per_item.peak_bytes,
            self.fixed.written_bytes + items * self.per_item.written_bytes,
        )

    def wall_seconds(self, items: float, cores: int) -> float:
        """Return the wall-clock seconds on so many cores."""
        serial = self.serial.at(items) + self.fixed.cpu_seconds
        return serial + items * self.per_item.cpu_seconds / cores


@dataclass(frozen=True, slots=True)
class TrainingRates:
    """The cost of the parts of a training run, in seconds of one device (or of one core)."""

    start_seconds: float
    """Once: before the first update and after the last one."""
    flop_seconds: float
    """Per FLOP of an update."""
    validation_seconds: float
    """Per pair of a validation."""
    save_seconds: float
    """Per checkpoint."""
    written_bytes: float
    """Once, besides checkpoints: the model, its export, the journal."""
    parallelism: float
    """Cores that work at the same time; 1 for a GPU."""
    peak_bytes: float | None
    """Peak memory at `micro_batch` tokens; None if it was not measured."""
    micro_batch: int
    basis: Basis


def estimate_preparation(recipe: Recipe, corpus: CorpusSize) -> ItemRates:
    """Estimate the cost of a preparation from the figures of docs/scale.md."""
    settings = recipe.corpus
    scale = (corpus.source_tokens + corpus.target_tokens) / corpus.pairs / 2 / _REFERENCE_TOKENS
    seconds = sum(_PAIR_CORE_SECONDS.values())
    if any(choice.name == "language" for choice in settings.filters):
        seconds += _LANGUAGE_CORE_SECONDS
    if settings.duplicates == "near":
        seconds += _NEAR_CORE_SECONDS
    tokenizer = _TOKENIZER_SECONDS * scale / 1e6**_TOKENIZER_EXPONENT
    sample = recipe.tokenizer.sample / 2
    return ItemRates(
        fixed=Usage(8.0, _PREPARATION_BYTES, 1e6),
        per_item=Usage(seconds * scale, pair_memory(corpus), _PAIR_BYTES * scale),
        serial=PowerLaw(tokenizer, _TOKENIZER_EXPONENT, sample),
        memory_items=sample,
        basis="estimated",
    )


def pair_memory(corpus: CorpusSize) -> float:
    """Return the bytes of memory that each pair of the tokenizer's sample takes."""
    tokens = (corpus.source_tokens + corpus.target_tokens) / corpus.pairs / 2
    return _PAIR_MEMORY * tokens / _REFERENCE_TOKENS


def estimate_training(
    model: ModelSize, machines: Machines, checkpoint: float, exported: bool
) -> TrainingRates:
    """Estimate the cost of training from the speed of the device."""
    settings = model.recipe.training
    speed = machines.device.flops_per_second(settings.precision)
    return TrainingRates(
        start_seconds=_START_SECONDS,
        flop_seconds=1 / speed,
        validation_seconds=(1 + _DECODING_FACTOR) * model.cost.flops / speed,
        save_seconds=checkpoint / _SAVE_RATE,
        written_bytes=model_bytes(model, exported),
        parallelism=1.0 if machines.is_gpu else float(machines.cores),
        peak_bytes=None,
        micro_batch=0,
        basis="estimated",
    )


def estimate_translation(model: ModelSize, machines: Machines) -> ItemRates:
    """Estimate the cost of translating sentences of the corpus's mean length on CPU cores."""
    decoding = model.recipe.decoding
    beams = decoding.beam_size if decoding.search == "beam" else 1
    speed = machines.core.flops_per_second("float32")
    if not is_exported(model.recipe):
        speed *= _PYTORCH_SHARE
    tokens = model.cost.flops / model.position_flops
    return ItemRates(
        fixed=Usage(_TRANSLATION_START, PROCESS_BYTES[False] + 8 * model.parameters, 2e3),
        per_item=Usage(beams * model.cost.flops / speed, 0.0, 2 * 5 * tokens),
        serial=NOTHING_SERIAL,
        memory_items=0.0,
        basis="estimated",
    )


def is_exported(recipe: Recipe) -> bool:
    """Whether CTranslate2 translates: it has every part of the model, and the search."""
    return not obstacles(recipe)


def has_export(recipe: Recipe) -> bool:
    """Whether a finished run gets a CTranslate2 export, as `training/finish.py` decides."""
    return not export_obstacles(recipe)


def model_bytes(model: ModelSize, exported: bool) -> float:
    """Return the bytes of the finished model: weights, and the export in float32."""
    return 4.0 * model.parameters * (2 if exported else 1)
