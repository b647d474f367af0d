"""Compares a student with its teachers: exports all of them, and measures them on test sets.

exports/                     exports of teacher and student that their runs do not have
measurements.json            what is measured so far; a killed process continues with it
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from dragoman.adaptation.data import CorpusGroup
from dragoman.adaptation.distillation_report import DistillationFigures
from dragoman.artifact import read_artifact
from dragoman.evaluation.speed import Job, Measurement, TestText, measure_jobs
from dragoman.inference.translator import Translator
from dragoman.interop import ctranslate2
from dragoman.interop.compatibility.ctranslate2 import obstacles
from dragoman.interop.folder import FOLDER, Quantization, is_export, read_export
from dragoman.storage.files import write_text
from dragoman.training.device import restored_torch_settings

QUANTIZATIONS: tuple[Quantization, ...] = ("float32", "int8")
BEAM_SIZES = (1, 5)
_EXPORTS, _MEASUREMENTS = "exports", "measurements.json"
_STORED = TypeAdapter(dict[str, Measurement])


@dataclass(frozen=True, slots=True)
class System:
    """A model that is measured."""

    name: str
    folders: tuple[Path, ...]
    """One export or run; several runs are an ensemble."""
    quantization: str

    @property
    def megabytes(self) -> float:
        """The size of the files that are needed to translate."""
        return sum(map(_size, self.folders)) / 1e6


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares models; everything is stored in the folder of the student."""

    folder: Path
    report: Callable[[str], None]
    """Called with a sentence about each step."""

    def exports_of(self, name: str, model: Path) -> dict[str, Path]:
        """Return the folders of a model by quantization; export a run if necessary."""
        if is_export(model):
            return {read_export(model).facts.quantization: model}
        recipe = read_artifact(model).recipe
        # How a run searches is no obstacle: all models are measured with the same beam sizes.
        if any(not mistake.path.startswith("decoding.") for mistake in obstacles(recipe)):
            return {"float32": model}
        return {kind: self._export(name, model, kind) for kind in QUANTIZATIONS}

    def systems(self, teachers: Sequence[Path], student: Path) -> list[System]:
        """Return all models to measure: each teacher, their ensemble, and the student."""
        systems: list[System] = []
        for number, teacher in enumerate(teachers, start=1):
            name = "teacher" if len(teachers) == 1 else f"teacher {number}"
            systems += self._systems_of(name, teacher)
        if len(teachers) > 1:
            systems.append(System("ensemble", tuple(teachers), "float32"))
        return [*systems, *self._systems_of("student", student)]

    def measure(
        self, systems: Sequence[System], tests: Mapping[str, CorpusGroup]
    ) -> tuple[DistillationFigures, ...]:
        """Translate all test sets, by name, with all systems."""
        path = self.folder / _MEASUREMENTS
        try:
            known = _STORED.validate_json(path.read_bytes())
        except (OSError, ValidationError):
            known = {}
        # An ensemble uses PyTorch, and `threads` would change the threads of this process.
        with restored_torch_settings(), contextlib.ExitStack() as stack:
            rows: dict[str, tuple[System, Job]] = {}
            for system in systems:
                translator = stack.enter_context(Translator.load(system.folders, threads=1))
                rows |= {job.key: (system, job) for job in _jobs(system, translator, tests)}
            measured = {key: known[key] for key in rows if key in known}

            def store(job: Job, measurement: Measurement) -> None:
                measured[job.key] = measurement
                write_text(path, _STORED.dump_json(measured, indent=1).decode() + "\n")
                if len(measurement.passes) == 1:
                    system = rows[job.key][0]
                    self.report(
                        f"{job.text.name}: {system.name}, {system.quantization}, "
                        f"beam {job.beam_size}: {measurement.bleu:.1f} BLEU"
                    )

            measure_jobs([job for _, job in rows.values()], measured, store)
            return tuple(
                _figures(system, job, measured[key]) for key, (system, job) in rows.items()
            )

    def _systems_of(self, name: str, model: Path) -> list[System]:
        exports = self.exports_of(name, model)
        return [System(name, (folder,), kind) for kind, folder in exports.items()]

    def _export(self, name: str, model: Path, quantization: Quantization) -> Path:
        """Return an export of a run: the one in the run, or one in the folder of the student."""
        own = self.folder / _EXPORTS / f"{name.replace(' ', '-')}-{quantization}"
        wanted = (read_artifact(model).model_hash, quantization)
        for folder in filter(is_export, (model / FOLDER, own)):
            facts = read_export(folder).facts
            if (facts.model, facts.quantization) == wanted:
                return folder
        self.report(f"exporting the {name} ({quantization})")
        ctranslate2.export(model, own, quantization, force=True)
        return own


def _jobs(
    system: System, translator: Translator, tests: Mapping[str, CorpusGroup]
) -> Iterator[Job]:
    for name, group in tests.items():
        pairs = [
            (" ".join(pair.source.split()), " ".join(pair.target.split())) for pair in group.read()
        ]
        sources, references = zip(*pairs, strict=True)
        text = TestText(name, sources, references)
        for beam_size in BEAM_SIZES:
            model = (translator.model_hash, translator.quantization, translator.engine.name)
            facts = [system.name, *model, group.files[0].sha256, beam_size]
            key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
            yield Job(key, translator, text, beam_size)


def _figures(system: System, job: Job, measurement: Measurement) -> DistillationFigures:
    return DistillationFigures(
        test=job.text.name,
        system=system.name,
        engine=job.translator.engine.name,
        quantization=system.quantization,
        beam_size=job.beam_size,
        bleu=measurement.bleu,
        chrf=measurement.chrf,
        megabytes=system.megabytes,
        cpu_seconds=measurement.seconds / len(job.text.sources),
        passes=len(measurement.passes),
    )


def _size(folder: Path) -> int:
    if is_export(folder):
        files = [path for path in folder.rglob("*") if path.is_file()]
    else:
        files = [folder / name for name in read_artifact(folder).hashes]
    return sum(path.stat().st_size for path in files)
