"""Writes the table of document formats: `python tests/formats/table.py > docs/formats.md`.

The counts come from the real files of the shared data, which are read and written here.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from dragoman.errors import DataError
from dragoman.formats.base.document import Document
from dragoman.formats.base.folder import find_format, formats
from support.shared_data import shared_data

HEAD = """\
# Document formats

`dragoman translate RUN FILES -o FOLDER` reads and writes these formats. Only the texts of units are
replaced; every other byte is copied. In zip files (DOCX, PPTX, XLSX, ODT) only members with a
changed text are compressed anew. A file that is not valid in its format is refused with its name
and line.

"Both languages": the file contains source and translation. In other formats the translation
replaces the source. "Mark": how a machine translation is marked for review, where the format has a
place for it. "Samples": real files that the tests read; all are written back identical to the byte.
"Refused": real files that are not valid in their format.

| format | extensions | both languages | mark | samples | refused |
|---|---|---|---|---|---|
"""
NOT_YET = """\
Not supported yet: reStructuredText, ODS, ODP, EPUB, PDF, `.desktop`, YAML, `.resx`, Fluent, CSV.
ICU messages (`{count, plural, …}`) are protected as a whole and not translated inside.

This page is written by `python tests/formats/table.py > docs/formats.md`; a test checks it.
"""


def page() -> str:
    """Return the whole page."""
    rows, notes = [], []
    for name, cls in sorted(formats().items()):
        identical, refused = count(name)
        extensions = ", ".join(cls.extensions)
        both = "yes" if cls.is_bilingual else "no"
        mark = f"`{cls.review_mark}`" if cls.review_mark else "–"
        samples = str(identical) if identical else "made by the tests"
        rows.append(f"| {name} | {extensions} | {both} | {mark} | {samples} | {refused or '–'} |")
        notes.append(f"## {name}\n\n{description(cls)}\n")
    return HEAD + "\n".join(rows) + "\n\n" + NOT_YET + "\n" + "\n".join(notes)


def description(cls: type[Document]) -> str:
    """Return the docstring of the module."""
    module = sys.modules[cls.__module__]
    return inspect.cleandoc(module.__doc__ or "")


def count(name: str) -> tuple[int, int]:
    """Count the samples that are written back to the byte, and those that are refused."""
    folder = shared_data() / "formats"
    identical = refused = 0
    for pattern in importlib.import_module(f"formats.made.{name}").SAMPLES:
        for path in sorted(folder.glob(pattern)):
            data = path.read_bytes()
            document = find_format(path, data)(data, str(path), "en", "de")
            try:
                units = list(document.units())
            except DataError:
                refused += 1
                continue
            identical += b"".join(document.write([None] * len(units))) == data
    return identical, refused


if __name__ == "__main__":
    sys.stdout.write(page())
