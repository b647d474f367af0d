"""How are the units of an XML file read without trusting it?

A file of XML cannot declare entities here, its DTD is never fetched, it cannot nest deeper than
`DEEPEST`, and a unit longer than `LONGEST_UNIT` is a reject, so that no file takes more memory than
one unit. What stands in an element of `_CODES` is code of the original document, not text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from lxml import etree

from dragoman.corpus.files import read_blocks
from dragoman.errors import DataError

DEEPEST = 100
LONGEST_UNIT = 1024 * 1024
LONGEST_HEAD = 1024 * 1024
"""Bytes in which the first element must begin; a file that is all comments is none of ours."""

UNIT_TOO_LONG = "unit too long"
UNDEFINED_ENTITY = "undefined entity"

_PIECE = 64 * 1024
_CODES = frozenset({"bpt", "ept", "ph", "it", "ut"})


@lru_cache(maxsize=1024)
def language_nearness(wanted: str, found: str) -> int:
    """Compare two language codes: 2 the same, 1 the one is the other with a region, 0 others."""
    wanted, found = (code.strip().lower().replace("_", "-") for code in (wanted, found))
    if wanted == found:
        return 2
    return int(found.startswith(f"{wanted}-") or wanted.startswith(f"{found}-"))


def local_name(element: Any) -> str:
    """Give the name of an element without its namespace."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def first_child(element: Any, name: str) -> Any:
    """Give the first child of this name, in whatever namespace, or None."""
    return next((child for child in element if local_name(child) == name), None)


def text_of(element: Any) -> str | None:
    """Give the text without codes; None if an entity in it has no meaning here."""
    if len(element) == 0:
        return element.text or ""
    parts: list[str] = []
    return "".join(parts) if _collect(element, parts) else None


def _collect(element: Any, parts: list[str]) -> bool:
    parts.append(element.text or "")
    for child in element:
        if child.tag is etree.Entity:
            return False
        if local_name(child) not in _CODES and not _collect(child, parts):
            return False
        parts.append(child.tail or "")
    return True


def read_units(path: Path, root: str, names: frozenset[str]) -> Iterator[Any]:
    """Give every element of these names, whole, and None for one that is too long.

    An element is emptied when the next one is asked for.
    """
    return iter(_Units(path, root, names))


class _Units:
    """Reads XML piece by piece and forgets every element that lies behind it."""

    def __init__(self, path: Path, root: str, names: frozenset[str]) -> None:
        self._path = path
        self._root = root
        self._names = names
        self._bytes = 0
        self._depth = 0
        self._unit_depth = 0  # Where the unit is that we are in; 0 outside of one.
        self._unit_begin = 0
        self._is_too_long = False
        self._has_root = False
        self._parser = etree.XMLPullParser(
            events=("start", "end"),
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,
            remove_comments=True,
            remove_pis=True,
        )

    def __iter__(self) -> Iterator[Any]:
        for block in read_blocks(self._path):
            for begin in range(0, len(block), _PIECE):
                # What was whole before a mistake is given before it is reported.
                mistake = self._feed(block[begin : begin + _PIECE])
                yield from self._follow(self._parser.read_events())
                if mistake:
                    raise DataError(mistake)
                self._check_size()
        try:
            self._parser.close()
        except etree.XMLSyntaxError as error:
            raise DataError(self._malformed(error.lineno, error.msg)) from None

    def _feed(self, piece: bytes) -> str | None:
        self._bytes += len(piece)
        try:
            self._parser.feed(piece)
        except etree.XMLSyntaxError as error:
            return self._malformed(error.lineno, error.msg)
        # Some mistakes only stop the parser, and the next piece would start a new document.
        if fatal := self._parser.feed_error_log.filter_from_fatals():
            return self._malformed(fatal[0].line, fatal[0].message)
        return None

    def _follow(self, events: Iterable[tuple[str, Any]]) -> Iterator[Any]:
        for event, element in events:
            if event == "start":
                self._depth += 1
                if self._unit_depth == 0 or self._depth > DEEPEST:
                    self._enter(element)
                continue
            if self._depth == self._unit_depth:
                yield None if self._is_too_long else element
                self._unit_depth = 0
            if self._unit_depth == 0 or self._is_too_long:
                _forget(element)
            self._depth -= 1

    def _enter(self, element: Any) -> None:
        if not self._has_root:
            self._has_root = True
            self._check_root(element)
        if self._depth > DEEPEST:
            raise DataError(
                f"{self._path} nests elements deeper than {DEEPEST} in line {element.sourceline}; "
                f"no {self._root.upper()} file does, so it is refused"
            )
        if local_name(element) in self._names:
            self._unit_depth = self._depth
            self._unit_begin = self._bytes
            self._is_too_long = False

    def _check_root(self, element: Any) -> None:
        declared = element.getroottree().docinfo.internalDTD
        if declared is not None and any(True for _ in declared.iterentities()):
            raise DataError(
                f"{self._path} declares entities of its own (<!ENTITY), which can make a file "
                f"explode or fetch others, and is refused.\nIf you trust it, write them out with: "
                f"xmllint --noent --dropdtd {self._path} > new-file"
            )
        if local_name(element) != self._root:
            raise DataError(
                f"{self._path} begins with <{local_name(element)[:50]}>, expected <{self._root}>: "
                f"it is no {self._root.upper()} file"
            )

    def _check_size(self) -> None:
        if not self._has_root and self._bytes > LONGEST_HEAD:
            raise DataError(
                f"{self._path} has no element in its first {LONGEST_HEAD:,} bytes, "
                f"expected <{self._root}>: it is no {self._root.upper()} file"
            )
        if self._unit_depth and self._bytes - self._unit_begin > LONGEST_UNIT:
            self._is_too_long = True

    def _malformed(self, line: int | None, message: str | None) -> str:
        # The parser adds its own place to the message, in words of its own.
        what = (message or "it ends too early").split(", line ")[0]
        return (
            f"{self._path} is not well-formed XML in line {line or 1:,}: {what}.\n"
            f"The units before that line were read; to see the place, type: "
            f"xmllint --noout {self._path}"
        )


def _forget(element: Any) -> None:
    """Free an element and those before it; only its empty self stays, until the next one ends."""
    element.clear()
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]
