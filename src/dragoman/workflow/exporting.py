"""Export a run to other programs, and import a published model as a run."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman.artifact import resolve_model
from dragoman.errors import ArtifactError, DataError
from dragoman.interop import importing
from dragoman.interop.folder import FACTS
from dragoman.recipe.schema import LanguagesRecipe, is_language_code
from dragoman.storage.files import atomic_folder, remove
from dragoman.storage.folder_manifest import is_unfinished
from dragoman.storage.mirror import exists, local_path, locate, names, path_text

ExportFormat = Literal["ctranslate2", "huggingface"]
_MARKERS: dict[ExportFormat, str] = {
    "ctranslate2": FACTS,
    "huggingface": "generation_config.json",
}
"""A file that an export of each format has, and no run or corpus."""


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

    An export of another model, or with another quantization, is replaced only with `force`. `run`
    and `output` may be URLs; an export in a store is always replaced only with `force`. Nothing but
    an export is ever replaced.
    """
    named = local_path(run)
    is_local = locate(named) is None
    run = resolve_model(named)
    folder = local_path(output) if output is not None else (run if is_local else named) / to
    if locate(folder) is None:
        _write(run, folder, to, quantization, force=force, trust_parts=trust_parts)
        return ExportResult(folder, to, quantization)
    _check_stored(folder, to, force=force)
    with tempfile.TemporaryDirectory(prefix="dragoman-") as temporary:
        local = Path(temporary) / folder.name
        _write(run, local, to, quantization, trust_parts=trust_parts)
        remove(folder)
        with atomic_folder(folder) as published:
            shutil.copytree(local, published, dirs_exist_ok=True)
    return ExportResult(folder, to, quantization)


def _check_stored(folder: Path, to: ExportFormat, *, force: bool) -> None:
    """Refuse a folder in a store that has something else, or an export without `force`."""
    url = locate(folder)
    if url is not None and not url.key:
        raise DataError(f"found {url.bucket}, expected a folder in it: {url.bucket}/NAME")
    found = names(folder)
    if is_unfinished(found) and not exists(folder):
        return  # Nothing, or what an export that was killed has left.
    if _MARKERS[to] not in found:
        raise ArtifactError(
            f"{path_text(folder)} exists and is not an export to {to}; choose another URL"
        )
    if not force:
        raise ArtifactError(f"{path_text(folder)} exists; to replace it, add --force")


def _write(
    run: Path,
    folder: Path,
    to: ExportFormat,
    quantization: str,
    *,
    force: bool = False,
    trust_parts: bool,
) -> None:
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


def import_model(model: str | Path, run: str | Path, *, source: str = "", target: str = "") -> Path:
    """Convert a published model, and return its new folder.

    A Marian model in Hugging Face format (OPUS-MT) becomes a run. An Argos package or a CTranslate2
    folder becomes an export, which can translate and serve, but cannot be trained. `source` and
    `target` are language codes, for models that do not name theirs; for a model with several target
    languages, `target` is the one that is used by default.
    """
    languages = _languages(source, target)
    importing.import_model(Path(model), Path(run), languages)
    return Path(run)


def _languages(source: str, target: str) -> LanguagesRecipe:
    for code in filter(None, (source, target)):
        if not is_language_code(code):
            raise DataError(f"found {code!r}, expected a language code such as en or pt-BR")
    return LanguagesRecipe(source=source, target=target)
