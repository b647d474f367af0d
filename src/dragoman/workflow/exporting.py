"""Export a run to other programs, and import a published model as a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman.artifact import resolve_model
from dragoman.errors import DataError

ExportFormat = Literal["ctranslate2", "huggingface"]


@dataclass(frozen=True, slots=True)
class ExportResult:
    """An exported model."""

    folder: Path
    to: ExportFormat
    quantization: str


def export(
    run: str | Path,
    *,
    to: ExportFormat = "ctranslate2",
    output: str | Path | None = None,
    quantization: str = "float32",
    force: bool = False,
    trust_parts: bool = False,
) -> ExportResult:
    """Export a run; the default `output` is a folder in the run with the name of the format.

    An export of another model, or with another quantization, is replaced only with `force`.
    """
    run = resolve_model(Path(run))
    folder = Path(output) if output is not None else run / to
    # Imported here, because each format needs libraries that the other does not.
    if to == "ctranslate2":
        from dragoman.interop import ctranslate2  # noqa: PLC0415

        ctranslate2.export(run, folder, quantization, force=force, trust_parts=trust_parts)
    else:
        if quantization != "float32":
            raise DataError(
                f"found quantization {quantization!r}, expected float32: an export to Hugging Face "
                "is not quantized"
            )
        from dragoman.interop import huggingface  # noqa: PLC0415

        huggingface.export(run, folder, force=force, trust_parts=trust_parts)
    return ExportResult(folder, to, quantization)


def import_model(folder: str | Path, run: str | Path) -> Path:
    """Convert a Marian model in Hugging Face format (OPUS-MT) to a run; return the run folder."""
    from dragoman.interop import huggingface_import  # noqa: PLC0415

    huggingface_import.import_model(Path(folder), Path(run))
    return Path(run)
