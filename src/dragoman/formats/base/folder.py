"""Finds the format of a file: one class per module in `formats/`."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from pathlib import Path

import dragoman.formats
from dragoman.errors import DataError
from dragoman.formats.base.document import Document
from dragoman.text.languages import is_other_language, language_name


@functools.cache
def formats() -> dict[str, type[Document]]:
    """Return all formats by the name of their module."""
    classes: dict[str, type[Document]] = {}
    for module in pkgutil.iter_modules(dragoman.formats.__path__):
        if module.ispkg:
            continue
        imported = importlib.import_module(f"dragoman.formats.{module.name}")
        for value in vars(imported).values():
            is_format = isinstance(value, type) and issubclass(value, Document)
            if is_format and value.__module__ == imported.__name__:
                classes[module.name] = value
    return classes


def extensions() -> frozenset[str]:
    """Return the file extensions of all formats."""
    return frozenset(extension for cls in formats().values() for extension in cls.extensions)


def find_format(path: Path, data: bytes) -> type[Document]:
    """Return the format of a file by its extension, and by its content if several share it."""
    extension = path.suffix.lower()
    candidates = [cls for cls in formats().values() if extension in cls.extensions]
    for cls in candidates:
        if cls.accepts(data):
            return cls
    if candidates:
        names = ", ".join(sorted(cls.__name__ for cls in candidates))
        raise DataError(
            f"{path} has the extension {extension}, but its content is none of: {names}"
        )
    raise DataError(
        f"{path} is in no known document format (extension {extension or 'missing'}); "
        f"expected one of: {', '.join(sorted(extensions()))}"
    )


def open_document(path: Path, source_language: str = "", target_language: str = "") -> Document:
    """Read a document from a file; one that names other languages is a `DataError`."""
    data = path.read_bytes()
    document = find_format(path, data)(data, str(path), source_language, target_language)
    check_languages(document)
    return document


def check_languages(document: Document) -> None:
    """Raise a `DataError` if the file names other languages than those of the translation."""
    expected = (document.source_language, document.target_language)
    sides = zip(("source", "target"), document.stated_languages(), expected, strict=True)
    for side, stated, language in sides:
        if stated and language and is_other_language(stated, language):
            raise DataError(
                f"{document.name} names {language_name(stated)} ({stated}) as its {side} language, "
                f"expected {language_name(language)} ({language}). If the file is wrong, correct "
                f"{document.language_place}"
            )
