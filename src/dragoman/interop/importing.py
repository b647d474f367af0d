"""Import a published model: find out what a path holds, and convert it.

    Marian model of Hugging Face    a run, to translate with and to train     huggingface_import.py
    Argos package                   an export, to translate and serve with    ctranslate2_import.py
    CTranslate2 folder              an export                                 ctranslate2_import.py

A run or an export of Dragoman needs no import: it can be copied to any folder.
"""

from __future__ import annotations

import shlex
import zipfile
from pathlib import Path

from dragoman.errors import ArtifactError, DataError
from dragoman.interop.folder import is_export
from dragoman.recipe.schema import LanguagesRecipe


def import_model(path: Path, destination: Path, languages: LanguagesRecipe) -> None:
    """Convert a model; `languages` replaces the languages that the model names."""
    if destination.exists():
        raise DataError(f"{str(destination)!r} exists already; remove it, or choose another folder")
    if not path.exists():
        raise ArtifactError(
            f"there is no {str(path)!r}; expected the folder of a Marian or CTranslate2 model, or "
            "an Argos package"
        )
    _refuse_own(path)
    # Imported here, because each format needs libraries that the other does not.
    if _is_argos_package(path):
        from dragoman.interop.ctranslate2_import import import_argos  # noqa: PLC0415

        import_argos(path, destination, languages)
    elif path.is_file():
        raise ArtifactError(
            f"{str(path)!r} is a file, but no Argos package (a zip archive); expected a folder"
        )
    elif (path / "model.bin").is_file():
        from dragoman.interop.ctranslate2_import import import_folder  # noqa: PLC0415

        import_folder(path, destination, languages)
    else:
        _refuse_original_marian(path)
        from dragoman.interop import huggingface_import  # noqa: PLC0415

        huggingface_import.import_model(path, destination, languages)


def _is_argos_package(path: Path) -> bool:
    """Whether a path is an Argos package: an archive, or an unpacked one."""
    if path.is_dir():
        return (path / "metadata.json").is_file() and (path / "model").is_dir()
    return path.suffix == ".argosmodel" or zipfile.is_zipfile(path)


def _refuse_own(path: Path) -> None:
    """Say that a model of Dragoman can be used where it is."""
    if is_export(path) or (path / "format.json").is_file():
        raise ArtifactError(
            f"{str(path)!r} is already a model of Dragoman; it needs no import. Type: "
            f"dragoman translate {shlex.quote(str(path))} < in.txt"
        )


def _refuse_original_marian(path: Path) -> None:
    """Say how a model in Marian's own format can be converted."""
    if not ((path / "decoder.yml").is_file() and list(path.glob("*.npz"))):
        return
    quoted, converted = (shlex.quote(str(name)) for name in (path, f"{path}-ctranslate2"))
    raise ArtifactError(
        f"{str(path)!r} is in Marian's own format (npz), expected that of Hugging Face. To "
        "translate with it, convert it to CTranslate2 and import the result; type: "
        f"ct2-opus-mt-converter --model_dir {quoted} --output_dir {converted} && "
        f"cp {quoted}/*.spm {converted}"
    )
