"""Quality, size and processor time of several models on one test set, side by side.

Processor time is that of this process, of all its threads; other work on the machine hardly changes
it. Loading is not part of it, and the first sentences are translated before, because an engine
allocates memory then. The models take turns, so that a change of the clock speed meets all of
them. A fast model is measured several times, and the median counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from dragoman.evaluation.metrics import measure
from dragoman.inference.translator import Translator

MIN_SECONDS, MAX_PASSES = 5.0, 5
"""A test set is translated again until it has taken this long, or this often."""
_WARM_UP = 8
"""Sentences that are translated before the first measurement."""


@dataclass(frozen=True, slots=True)
class TestText:
    """Sentences and their references."""

    __test__ = False  # Not a test of pytest.

    name: str
    sources: tuple[str, ...]
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one model does with one test set and one beam size."""

    bleu: float
    chrf: float
    passes: tuple[float, ...]
    """Seconds of processor time of each pass."""

    @property
    def is_complete(self) -> bool:
        """Whether it was measured often enough."""
        return sum(self.passes) >= MIN_SECONDS or len(self.passes) >= MAX_PASSES

    @property
    def seconds(self) -> float:
        """The median of the passes."""
        return statistics.median(self.passes)


@dataclass(frozen=True, slots=True)
class Job:
    """A model, a test set and a beam size."""

    key: str
    """Identifies the job when a measurement is stored."""
    translator: Translator
    text: TestText
    beam_size: int


def measure_jobs(
    jobs: Sequence[Job],
    known: dict[str, Measurement],
    on_measurement: Callable[[Job, Measurement], None],
) -> None:
    """Measure all jobs, in turns, until each is complete; `known` has earlier measurements.

    `on_measurement` is called after each pass, with all passes so far.
    """
    measurements = dict(known)
    warm: set[str] = set()
    while waiting := [job for job in jobs if not _is_complete(measurements.get(job.key))]:
        for job in waiting:
            if job.key not in warm:
                list(_translate(job, job.text.sources[:_WARM_UP]))
                warm.add(job.key)
            start = time.process_time()
            outputs = list(_translate(job, job.text.sources))
            seconds = time.process_time() - start
            earlier = measurements.get(job.key)
            measurement = (
                _scored(outputs, job.text, seconds)
                if earlier is None
                else replace(earlier, passes=(*earlier.passes, seconds))
            )
            measurements[job.key] = measurement
            on_measurement(job, measurement)


def _is_complete(measurement: Measurement | None) -> bool:
    return measurement is not None and measurement.is_complete


def _translate(job: Job, sources: Sequence[str]) -> Iterator[str]:
    if job.beam_size == 1:
        translations = job.translator.stream(sources, search="greedy")
    else:
        translations = job.translator.stream(sources, search="beam", beam_size=job.beam_size)
    return (translation.text for translation in translations)


def _scored(outputs: Sequence[str], text: TestText, seconds: float) -> Measurement:
    scores = {score.name: score.value for score in measure(outputs, [text.references], resamples=0)}
    return Measurement(scores["BLEU"], scores["chrF2"], (seconds,))
