"""Measures the rates of this machine: short real runs of the recipe's own commands.

    preparation    `dragoman prepare` on two samples of the recipe's text, a small and a large one
    training       `dragoman train` for a few updates; its journal shows when each of them ended
    translation    `dragoman translate` of two samples, if the recipe's run is finished

Two sizes separate what is paid once (loading libraries) from what each item costs. The vocabulary
is learned once, and its cost grows more slowly than the text, so it is measured separately.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from dragoman.corpus.discovery import Corpus, find_corpora
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.row import Row
from dragoman.errors import DataError
from dragoman.planning.figures import Usage
from dragoman.planning.machines import Machines
from dragoman.planning.memory import RankMemory, checkpoint_bytes
from dragoman.planning.rates import (
    NOTHING_SERIAL,
    ItemRates,
    PowerLaw,
    TrainingRates,
    pair_memory,
)
from dragoman.planning.sizes import (
    CorpusSize,
    corpus_size,
    model_size,
    update_flops,
    update_size,
    with_real_vocabulary,
)
from dragoman.planning.usage import run_measured
from dragoman.recipe.parts import choose
from dragoman.recipe.schema import CorpusFiles, Recipe, Section, TrainingCorpus
from dragoman.storage import mirror
from dragoman.storage.mirror import local_path

SAMPLE_PAIRS = 24_000
_SMALLER = 4
"""The large sample is so many times as large as the small one."""
_UPDATE_SECONDS, _TRAINING_SECONDS = 4.0, 15.0
"""Of one measured update at most, and of all of them."""
_UPDATES = (4, 40)
_VALIDATION_SECONDS, _VALIDATION_PAIRS = 4.0, (8, 200)
_TRANSLATION_SECONDS, _SENTENCES = 10.0, (40, 1000)
_STREAM_LINES = 2560
"""A stream of translations holds at most so many lines."""
_EXPONENTS = (0.3, 1.0)
_COMMAND = (sys.executable, "-m", "dragoman")


@dataclass(frozen=True, slots=True)
class Trial:
    """A recipe that is measured, and a folder for its short runs."""

    recipe: Recipe
    base_folder: Path
    workspace: Path

    def write_recipe(self, name: str, recipe: Recipe) -> Path:
        """Write a recipe whose paths do not depend on the folder of the file."""
        path = self.workspace / f"{name}.yaml"
        recipe.save(path)
        return path

    def absolute(self, name: str) -> str:
        """Return a path of the recipe that is valid in every folder."""
        return str(local_path(name, self.base_folder)) if name else ""


def _changed(recipe: Recipe, section: str, **changes: object) -> Recipe:
    old: Section = getattr(recipe, section)
    return recipe.model_copy(update={section: old.model_copy(update=changes)})


def measure_preparation(trial: Trial, pairs: int) -> tuple[ItemRates, Path]:
    """Prepare two samples; return the rates, and the prepared folder of the large one."""
    rows = list(_sample(trial, min(SAMPLE_PAIRS, pairs)))
    if len(rows) < _SMALLER:
        raise DataError(
            f"found {len(rows)} pairs in the training corpora, expected at least {_SMALLER} to "
            "measure a preparation; synthetic corpora are not measured. Plan without --measure"
        )
    counts = (max(1, len(rows) // _SMALLER), len(rows))
    usages, tokenizer_seconds = [], []
    for count in counts:
        name = f"sample-{count}"
        recipe = _sample_recipe(trial, name, rows[:count])
        stages = _StageClock(trial.workspace / name / "work")
        command = (*_COMMAND, "prepare", trial.write_recipe(name, recipe))
        usage, _ = run_measured(command, stages.poll)
        usages.append(usage)
        tokenizer_seconds.append(stages.tokenizer_seconds)
    serial = _power_law(counts, tokenizer_seconds, trial.recipe.tokenizer.sample / 2)
    others = [
        Usage(usage.cpu_seconds - seconds, usage.peak_bytes, usage.written_bytes)
        for usage, seconds in zip(usages, tokenizer_seconds, strict=True)
    ]
    rates = _line(counts, others, serial, memory_items=trial.recipe.tokenizer.sample / 2)
    prepared = trial.workspace / f"sample-{counts[1]}"
    # The samples are smaller than a chunk, so their memory grows faster than that of a corpus. The
    # level is measured; the growth beyond the large sample is that of the tokenizer's text.
    growth = pair_memory(corpus_size(trial.recipe, prepared, 0, 0))
    fixed = replace(rates.fixed, peak_bytes=usages[1].peak_bytes - counts[1] * growth)
    per_item = replace(rates.per_item, peak_bytes=growth)
    return replace(rates, fixed=fixed, per_item=per_item), prepared


def measure_training(
    trial: Trial, corpus: CorpusSize, memory: RankMemory, machines: Machines
) -> TrainingRates:
    """Train for a few updates; split the CPU seconds by the entries of the journal."""
    assert corpus.prepared is not None
    recipe = with_real_vocabulary(trial.recipe, corpus)
    settings, model = recipe.training, model_size(recipe, corpus)
    speed = machines.core.flops_per_second("float32") * machines.cores
    token_seconds = 3 * model.position_flops / speed
    tokens = int(min(settings.tokens_per_update, _UPDATE_SECONDS / token_seconds))
    tokens = max(tokens, corpus.longest, min(1024, settings.tokens_per_update))
    # An even number: one checkpoint is saved in the middle, and one at the end.
    half = _clamp(_TRAINING_SECONDS / (tokens * token_seconds), _UPDATES) // 2
    updates = 2 * half
    pair_seconds = 20 * model.cost.flops / speed
    pairs = min(
        settings.validation_pairs, _clamp(_VALIDATION_SECONDS / pair_seconds, _VALIDATION_PAIRS)
    )
    is_whole = memory.micro_batches == 1
    micro_batch = tokens if is_whole else _micro_batch(tokens, memory.micro_batch, corpus.longest)
    changed = _changed(
        trial.recipe,
        "training",
        folder=str(trial.workspace / "run"),
        init_from=trial.absolute(settings.init_from),
        steps=updates,
        minutes=0.0,
        patience=0,
        tokens_per_update=tokens,
        micro_batch="auto" if is_whole else micro_batch,
        validate_every=updates,
        validation_pairs=pairs,
        save_every=half,
        log_every=1,
    )
    changed = _changed(changed, "corpus", folder=str(corpus.prepared.folder))
    clock = _JournalClock(trial.workspace / "run" / "journal.jsonl")
    usage, _ = run_measured((*_COMMAND, "train", trial.write_recipe("train", changed)), clock.poll)
    first, last = clock.updates[1], clock.updates[updates]
    save_gap = clock.updates[half + 1].cpu - clock.updates[half].cpu
    update_seconds = (last.cpu - first.cpu - save_gap) / (updates - 2)
    save_seconds = max(0.0, save_gap - update_seconds)
    micro_batches = -(-tokens // micro_batch)
    short = _changed(recipe, "training", tokens_per_update=tokens)
    flops = update_flops(model, update_size(short, corpus, micro_batches))
    end_seconds = usage.cpu_seconds - clock.validation.cpu
    return TrainingRates(
        start_seconds=first.cpu - update_seconds + end_seconds - save_seconds,
        flop_seconds=update_seconds / flops,
        validation_seconds=(clock.validation.cpu - last.cpu) / pairs,
        save_seconds=save_seconds,
        written_bytes=usage.written_bytes - 2 * checkpoint_bytes(model),
        parallelism=max(1.0, (last.cpu - first.cpu) / (last.wall - first.wall)),
        peak_bytes=usage.peak_bytes,
        micro_batch=tokens // micro_batches,
        basis="measured",
    )


def _micro_batch(tokens: int, planned: int, longest: int) -> int:
    """Return the tokens of a micro-batch: about the planned number, and enough for every pair."""
    # Training divides an update into equal micro-batches, so each may be smaller than this.
    count = min(-(-tokens // planned), tokens // longest)
    return -(-tokens // count)


def measure_translation(trial: Trial, run: Path, source: Path) -> ItemRates:
    """Translate two samples of a text with a finished run."""
    # A line ends at a line feed only; `splitlines` would also split at other characters.
    lines = source.read_text(encoding="utf-8").removesuffix("\n").split("\n")

    def translate(count: int) -> Usage:
        text = trial.workspace / f"source-{count}.txt"
        sample = itertools.islice(itertools.cycle(lines), count)
        text.write_text("".join(f"{line}\n" for line in sample), encoding="utf-8")
        output = trial.workspace / f"target-{count}.txt"
        return run_measured((*_COMMAND, "translate", run, "-i", text, "-o", output))[0]

    few, limit = _SENTENCES
    small = translate(few)
    # A model that was hardly trained writes long nonsense, so its speed is not known before.
    many = _clamp(_TRANSLATION_SECONDS * few / small.cpu_seconds, (2 * few, limit))
    large = translate(many)
    return _line((few, many), [small, large], NOTHING_SERIAL, memory_items=_STREAM_LINES)


class _StageClock:
    """Reads the CPU seconds at which the stages around the tokenizer are finished."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._begin: float | None = None
        self._end: float | None = None

    def poll(self, cpu: float, wall: float) -> None:
        if self._end is None and any(self._work.glob("tokenizer-*")):
            self._end = cpu
        elif self._begin is None and any(self._work.glob("split-*/*.arrow")):
            self._begin = cpu

    @property
    def tokenizer_seconds(self) -> float:
        if self._begin is None or self._end is None:
            return 0.0
        return max(0.0, self._end - self._begin)


@dataclass(frozen=True, slots=True)
class _Moment:
    cpu: float
    wall: float


@dataclass(slots=True)
class _JournalClock:
    """Reads the CPU seconds at which each entry of a journal was written."""

    path: Path
    updates: dict[int, _Moment] = field(default_factory=dict)
    validation: _Moment = _Moment(0.0, 0.0)
    _read_bytes: int = 0

    def poll(self, cpu: float, wall: float) -> None:
        """Read the new entries."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._read_bytes)
                lines = file.read()
        except FileNotFoundError:
            return
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in whole.splitlines():
            entry = json.loads(line)
            if entry["kind"] == "progress":
                self.updates[entry["step"]] = _Moment(cpu, wall)
            elif entry["kind"] == "validation":
                self.validation = _Moment(cpu, wall)


def _sample(trial: Trial, count: int) -> Iterator[tuple[str, str]]:
    """Yield the first pairs of each training corpus, as many as its share of all bytes."""
    recipe = trial.recipe
    corpora = [
        corpus
        for corpus in find_corpora(recipe, trial.base_folder)
        if corpus.split == "train" and not corpus.synthetic
    ]
    sizes = [sum(map(mirror.size, corpus.files)) for corpus in corpora]
    total = max(1, sum(sizes))  # All files may be empty.
    for corpus, size in zip(corpora, sizes, strict=True):
        share = math.ceil(count * size / total)
        yield from itertools.islice(_pairs(corpus, recipe), share)


def _pairs(corpus: Corpus, recipe: Recipe) -> Iterator[tuple[str, str]]:
    reader = choose("corpus.readers", corpus.format, "corpus.format", CorpusReader)
    for row in reader(recipe.languages.source, recipe.languages.target).read(corpus.files):
        if isinstance(row, Row):
            yield " ".join(row.source.split()), " ".join(row.target.split())


def _sample_recipe(trial: Trial, name: str, rows: list[tuple[str, str]]) -> Recipe:
    files = []
    for side, column in zip(("source", "target"), zip(*rows, strict=True), strict=True):
        path = trial.workspace / f"{name}.{side}"
        path.write_text("".join(f"{text}\n" for text in column), encoding="utf-8")
        files.append(str(path))
    recipe = trial.recipe
    held_out: dict[str, object] = {}
    for split in ("validation", "test", "general"):
        entries: tuple[CorpusFiles, ...] = getattr(recipe.corpus, split)
        held_out[split] = tuple(
            entry.model_copy(update={"files": tuple(map(trial.absolute, entry.files))})
            for entry in entries
        )
    recipe = _changed(
        recipe,
        "corpus",
        train=(TrainingCorpus(files=tuple(files)),),
        folder=str(trial.workspace / name),
        glossary=trial.absolute(recipe.corpus.glossary),
        **held_out,
    )
    return _changed(recipe, "tokenizer", init_from=trial.absolute(recipe.tokenizer.init_from))


def _line(
    counts: tuple[int, int], usages: list[Usage], serial: PowerLaw, memory_items: float
) -> ItemRates:
    """Return the line through two measurements: what is paid once, and what an item costs."""
    small, large = usages
    distance = max(counts[1] - counts[0], 1)
    slopes = [
        max(0.0, (getattr(large, name) - getattr(small, name)) / distance)
        for name in ("cpu_seconds", "peak_bytes", "written_bytes")
    ]
    fixed = [
        max(0.0, getattr(large, name) - counts[1] * slope)
        for name, slope in zip(("cpu_seconds", "peak_bytes", "written_bytes"), slopes, strict=True)
    ]
    return ItemRates(Usage(*fixed), Usage(*slopes), serial, memory_items, "measured")


def _power_law(counts: tuple[int, int], seconds: list[float], max_items: float) -> PowerLaw:
    small, large = seconds
    if min(seconds) <= 0 or counts[0] == counts[1]:
        return PowerLaw(large / counts[1], 1.0, max_items)
    exponent = math.log(large / small) / math.log(counts[1] / counts[0])
    exponent = min(max(exponent, _EXPONENTS[0]), _EXPONENTS[1])
    return PowerLaw(large / counts[1] ** exponent, exponent, max_items)


def _clamp(value: float, limits: tuple[int, int]) -> int:
    return int(min(max(value, limits[0]), limits[1]))
