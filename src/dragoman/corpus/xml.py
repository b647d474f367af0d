"""Reads XML corpus files, which are not trusted, with the parsers of `dragoman.formats`.

A corpus file cannot declare entities. A unit longer than `MAX_UNIT_BYTES` is a reject, so that no
file needs more memory than one unit.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from dragoman.corpus.files import read_blocks
from dragoman.errors import DataError
from dragoman.formats.base.document import Code, plain_text
from dragoman.formats.base.xml_content import Element, InlineRules, content_of
from dragoman.formats.base.xml_events import MalformedXmlError, XmlEvent, stream_events
from dragoman.storage.mirror import path_text

MAX_UNIT_BYTES = 1024 * 1024
MAX_PROLOG_BYTES = 1024 * 1024
"""The root element must begin within so many bytes; a file of comments only is refused."""

UNIT_TOO_LONG = "unit too long"
UNDEFINED_ENTITY = "undefined entity"


def read_events(path: Path) -> Iterator[XmlEvent]:
    """Yield the events of a file, compressed or not; all events before an error are yielded."""
    has_root = False
    try:
        for event in stream_events(read_blocks(path), path_text(path)):
            if not has_root:
                has_root = event.kind in ("start", "empty")
                _check_prolog(event, path)
            yield event
    except MalformedXmlError as error:
        raise DataError(
            f"{error}.\nThe units before that line were read; to see the position, type: "
            f"xmllint --noout {shlex.quote(path_text(path))}"
        ) from None


def text_of(element: Element, rules: InlineRules) -> str | None:
    """Return the text without codes; None if it contains an entity, whose text is not known."""
    # Codes are dropped: their characters are not needed.
    content = content_of(element.inside, lambda start, end: "", rules)
    if any(isinstance(part, Code) and part.raw.startswith("&") for part in content):
        return None
    return plain_text(content)


def _check_prolog(event: XmlEvent, path: Path) -> None:
    if event.kind == "entity_declaration":
        raise DataError(
            f"{path_text(path)} declares entities (<!ENTITY), expected none: they can expand "
            f"without limit or read other files.\nIf you trust the file, expand them; type: "
            f"xmllint --noent --dropdtd {shlex.quote(path_text(path))} > new-file"
        )
    if event.start > MAX_PROLOG_BYTES:
        raise DataError(
            f"{path_text(path)} has no element in its first {MAX_PROLOG_BYTES:,} bytes, expected "
            "an XML file with text"
        )
