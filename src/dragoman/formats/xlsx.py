"""Excel workbooks (XLSX).

A text is a unit: each entry of the table of shared strings (which may be shown in many cells) and
each text that is stored in a cell. Formatting inside a cell is a pair of codes. Numbers, formulas
and names of sheets are not translated. The header of a table is locked, because its cells must be
equal to the column names that the table has elsewhere. A translated text loses its phonetic guide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from dragoman.formats.base.document import Unit, plain_text
from dragoman.formats.base.office import OfficeDocument, Paragraph
from dragoman.formats.base.runs import RunDialect, RunReader
from dragoman.formats.base.xml_content import XmlFile
from dragoman.formats.base.xml_events import xml_events
from dragoman.formats.base.zip_members import ZipMembers

_DIALECT = RunDialect(
    namespaces=(
        "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
        "http://purl.oclc.org/ooxml/spreadsheetml/main",
    ),
    paragraphs=("si", "is"),
    ignored=frozenset(("rPh", "phoneticPr")),
    has_plain_text=True,
)
_TABLE = re.compile(r"xl/tables/table\d+\.xml")


class XlsxDocument(OfficeDocument):
    """An Excel workbook."""

    extensions = (".xlsx", ".xlsm", ".xltx")
    main_parts = re.compile(r"xl/workbook\d*\.xml")
    part_names = re.compile(r"xl/(sharedStrings|worksheets/sheet\d+)\.xml")

    def reader(self, file: XmlFile) -> RunReader:
        """Return the reader of a part."""
        return _XlsxReader(file, _DIALECT)

    def units(self) -> Iterator[Unit]:
        """Yield the texts; headers of tables are locked."""
        names = self._column_names()
        for unit in super().units():
            is_locked = plain_text(unit.source) in names
            yield replace(unit, state="locked") if is_locked else unit

    def _column_names(self) -> frozenset[str]:
        members = ZipMembers(self.data, self.name)
        return frozenset(
            event.attributes.get("name", "")
            for part in members.names
            if _TABLE.fullmatch(part)
            for event in xml_events(members.read(part), f"{self.name}/{part}")
            if event.local_name == "tableColumn"
        )


class _XlsxReader(RunReader):
    def paragraphs(self) -> Iterator[Paragraph]:
        # Most sheets have only numbers and references to the shared strings.
        has_texts = b"is>" in self.file.data or b"si>" in self.file.data
        return super().paragraphs() if has_texts else iter(())
