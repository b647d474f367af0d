"""Sample translations of a run: `samples.jsonl`, one line per validation.

With `dragoman train --dashboard`, each validation translates the same few sentences of the
validation set and records the cross-attention of each decoder layer. The text stays in the run
folder. As in the journal, a resumed run first removes the lines after its checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman.storage.files import write_text
from dragoman.training.journal import SAMPLES, read_lines

WEIGHT_SCALE = 1000
"""Attention weights are stored as integers: thousandths."""


class SampleTranslation(BaseModel):
    """One sentence as the model translates it at one validation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    reference: str
    translation: str
    source_tokens: tuple[str, ...]
    """With the end token."""
    target_tokens: tuple[str, ...]
    """Without the end token; the first ones of a long translation."""
    layers: tuple[tuple[tuple[int, ...], ...], ...]
    """For each decoder layer from the bottom, a row for each target token: its cross-attention to
    each source token, as the mean over the heads, in thousandths. Empty without attention."""


class ValidationSamples(BaseModel):
    """The sample translations of one validation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: int
    sentences: tuple[SampleTranslation, ...]


def append_samples(folder: Path, samples: ValidationSamples) -> None:
    """Write one line; it is flushed to the operating system, but not to the disk."""
    with (folder / SAMPLES).open("a", encoding="utf-8") as file:
        file.write(samples.model_dump_json() + "\n")


def read_samples(folder: Path, offset: int = 0) -> Iterator[tuple[ValidationSamples, int]]:
    """Yield the complete lines from an offset in bytes on, each with the offset after it."""
    for line, end in read_lines(folder / SAMPLES, offset):
        try:
            yield ValidationSamples.model_validate_json(line), end
        except ValidationError:
            return  # The process was killed while writing.


def keep_samples(folder: Path, step: int) -> None:
    """Remove the lines after a step; training continues there."""
    path = folder / SAMPLES
    if path.exists():
        kept = [samples for samples, _ in read_samples(folder) if samples.step <= step]
        write_text(path, "".join(f"{samples.model_dump_json()}\n" for samples in kept))
