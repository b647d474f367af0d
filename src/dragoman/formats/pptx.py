"""PowerPoint presentations (PPTX).

A paragraph of a slide or of its notes is a unit; layouts and masters are not translated. A line
break is `\\n`. Formatting is a pair of codes, a field (a date, a slide number) a single code. Only
changed paragraphs are rebuilt, and only parts with such paragraphs are compressed anew; all other
members of the zip file are copied. Texts in charts and diagrams are not translated.
"""

from __future__ import annotations

import re

from dragoman.formats.base.office import OfficeDocument
from dragoman.formats.base.runs import RunDialect, RunReader
from dragoman.formats.base.xml_content import XmlFile

_DIALECT = RunDialect(
    namespaces=(
        "http://schemas.openxmlformats.org/drawingml/2006/main",
        "http://purl.oclc.org/ooxml/drawingml/main",
    ),
    paragraphs=("p",),
    properties=("pPr", "endParaRPr"),
    ignored_formatting=frozenset(("lang", "altLang", "dirty", "err", "smtClean", "noProof")),
    characters={"br": "\n"},
    has_break_runs=True,
    keeps_space=False,
)


class PptxDocument(OfficeDocument):
    """A PowerPoint presentation."""

    extensions = (".pptx", ".pptm", ".potx")
    main_parts = re.compile(r"ppt/presentation\d*\.xml")
    part_names = re.compile(r"ppt/(slides/slide|notesSlides/notesSlide)\d+\.xml")

    def reader(self, file: XmlFile) -> RunReader:
        """Return the reader of a part."""
        return RunReader(file, _DIALECT)
