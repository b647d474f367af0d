"""How does a model leave for another program, and how does one come in?"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from dragoman.errors import DataError

Server = Literal["ctranslate2", "huggingface"]


def export(run: Path, to: Server, destination: Path | None, quantization: str) -> Path:
    """Write a run for this server; in a folder of its own inside the run, if none is named."""
    place = destination or run / to
    # Each needs libraries that the other does not.
    if to == "ctranslate2":
        from dragoman.exporting import ctranslate2  # noqa: PLC0415

        ctranslate2.export(run, place, quantization)
    else:
        if quantization != "float32":
            raise DataError(f"found quantization {quantization!r}; Hugging Face takes float32")
        from dragoman.exporting import huggingface  # noqa: PLC0415

        huggingface.export(run, place)
    return place


def bring(folder: Path, run: Path) -> None:
    """Turn a Hugging Face folder into a run."""
    from dragoman.exporting import huggingface_import  # noqa: PLC0415

    huggingface_import.import_model(folder, run)
