"""Word documents (DOCX).

A paragraph is a unit: in the body, tables, text boxes, headers, footers, footnotes, endnotes and
comments. Tabs and line breaks are `\\t` and `\\n`. Formatting, links, content controls and inserted
text are pairs of codes; pictures, fields, notes and bookmarks are single codes. Deleted text and
field instructions are not translated. Only changed paragraphs are rebuilt, and only parts with such
paragraphs are compressed anew; all other members of the zip file are copied.

A rebuilt paragraph loses the marks of the spelling checker, the last page breaks, the revision
numbers of runs, and the language of runs, which would be wrong after translation.
"""

from __future__ import annotations

import re

from dragoman.formats.base.office import OfficeDocument
from dragoman.formats.base.runs import RunDialect, RunReader
from dragoman.formats.base.xml_content import XmlFile

_DIALECT = RunDialect(
    namespaces=(
        "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "http://purl.oclc.org/ooxml/wordprocessingml/main",
    ),
    paragraphs=("p",),
    properties=("pPr",),
    containers=frozenset(("hyperlink", "ins", "moveTo", "smartTag", "customXml", "dir", "bdo")),
    ignored=frozenset(("proofErr", "lastRenderedPageBreak")),
    ignored_formatting=frozenset(("lang", "noProof")),
    characters={"tab": "\t", "br": "\n"},
)


class DocxDocument(OfficeDocument):
    """A Word document."""

    extensions = (".docx", ".docm", ".dotx")
    main_parts = re.compile(r"word/document\d*\.xml")
    part_names = re.compile(r"word/(document|header|footer|footnotes|endnotes|comments)\d*\.xml")

    def reader(self, file: XmlFile) -> RunReader:
        """Return the reader of a part."""
        return RunReader(file, _DIALECT)
