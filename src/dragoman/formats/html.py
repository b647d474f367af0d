"""HTML and XHTML pages.

A unit is the text of a block with its inline elements: `<p>one <b>two</b></p>` is one unit with two
codes. Texts of attributes (`alt`, `title`, `placeholder`, …) are units too; those of inline
elements come before the unit in which the element is a code. In that code the value of the
attribute is left out, because it has its own unit. Whitespace around a unit is not part of it.

Not translated: `code`, `kbd`, `samp`, `var`, `svg`, `math` (each one code), scripts, styles, and
what is marked with `translate="no"` or the class `notranslate`. If a target language is given and
something was translated, the `lang` attribute of `<html>` is set.

A page keeps its encoding; characters that it lacks are written as references (`&#960;`). A text
with NUL or half of a surrogate pair is a `DataError`. A target without any text leaves an empty
block, which is no unit when the page is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dragoman.formats.base.document import Document, Target, Unit
from dragoman.formats.base.edits import apply_edits
from dragoman.formats.base.html_encoding import PageEncoding
from dragoman.formats.base.html_reader import HtmlReader, edits, units_of


class HtmlDocument(Document):
    """A page."""

    extensions = (".html", ".htm", ".xhtml")

    def units(self) -> Iterator[Unit]:
        """Yield the texts of attributes and blocks."""
        yield from units_of(HtmlReader(PageEncoding(self.data, self.name)).groups())

    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the page with the targets."""
        encoding = PageEncoding(self.data, self.name)
        reader = HtmlReader(encoding, self.target_language)
        changes = edits(reader, reader.groups(), iter(targets))
        return encoding.restored(apply_edits(encoding.data, changes))
