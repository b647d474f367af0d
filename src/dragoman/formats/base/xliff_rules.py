"""The rules of XLIFF 2 that a document must keep, checked while it is read.

XLIFF 2 forbids more than a schema can say: an id that is used twice, a reference to nothing, a
target in another language than the file names. A program that gets such a file back may refuse it
or put a text into the wrong place, so the file is refused before it is translated.

The check is one pass over the events. It remembers the elements that are open, the ids of the
current `<unit>`, and the ids of all files, groups and units, up to `MAX_IDS` of each kind. The
content of extensions and modules (glossaries, suggestions) is not checked.

Only the rules are here that protect the text, its codes and their references. The rest of the
standard is left to validators: the order of targets, sub-flows, what may be copied or deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from dragoman.errors import DataError
from dragoman.formats.base.xml_events import XmlEvent

MAX_IDS = 500_000
"""More ids than this are not remembered, so that memory is bounded."""

_INLINE = dict.fromkeys(("cp", "ph", "pc", "sc", "ec", "mrk", "sm", "em"), 0)
_CHILDREN: Mapping[str, Mapping[str, int]] = {
    "xliff": {"file": 0},
    "file": {"skeleton": 0, "notes": 1, "unit": 2, "group": 2},
    "group": {"notes": 0, "unit": 1, "group": 1},
    "unit": {"notes": 0, "originalData": 1, "segment": 2, "ignorable": 2},
    "notes": {"note": 0},
    "originalData": {"data": 0},
    "data": {"cp": 0},
    "segment": {"source": 0, "target": 1},
    "ignorable": {"source": 0, "target": 1},
    "source": _INLINE,
    "target": _INLINE,
    "pc": _INLINE,
    "mrk": _INLINE,
}
"""The elements that an element may contain, with their order."""
_EXTENSIBLE = frozenset(("file", "group", "unit"))
"""The elements that may contain elements of other namespaces."""
_OPEN = frozenset(("file", "group", "unit", "note", "ph", "pc", "sc", "ec", "mrk", "sm"))
"""The elements that may have attributes of other namespaces."""
_WITH_ID = frozenset(("file", "group", "unit", "data", "ph", "pc", "sc", "mrk", "sm"))

_NAMESPACES = "urn:oasis:names:tc:xliff:"
_ITS = "http://www.w3.org/2005/11/its"
_MODULES = {
    **{module: (module,) for module in ("matches", "glossary", "metadata", "validation")},
    "resourcedata": ("resourceData",),
    "changetracking": ("changeTrack",),
    "sizerestriction": ("profiles", "data"),
}
"""The elements of modules that may stand in a file, group or unit, by the name of the module."""
_PREFIXES = frozenset(
    ("ctr", "fs", "gls", "its", "itsm", "mda", "mtc", "pgs", "res", "slr", "tbx", "val", *"fgundt")
)
"""The registered prefixes of references: `#gls=g1` is the entry `g1` of a glossary."""


def checked_events(events: Iterator[XmlEvent], name: str) -> Iterator[XmlEvent]:
    """Pass the events of a file on; raise a `DataError` at an event that breaks a rule."""
    checker: _Checker | None = None
    for event in events:
        if event.kind in ("start", "empty"):
            if checker is not None:
                checker.start(event)
            elif event.attributes.get("version", "").startswith("2."):
                checker = _Checker(event, name)
            else:
                yield event
                yield from events
                return
        if event.kind in ("end", "empty") and checker is not None:
            checker.end()
        yield event


@dataclass(slots=True)
class _Element:
    """An open element."""

    name: str
    namespaces: Mapping[str, str]
    """The namespace of each prefix."""
    language: str = ""
    space: str = "default"
    """`xml:lang` and `xml:space`, stated here or inherited."""
    order: int = 0
    """The position of the last child in the order that `_CHILDREN` states."""


@dataclass(slots=True)
class _Unit:
    """What a unit contains so far."""

    id: str = ""
    notes: set[str] = field(default_factory=set)
    data: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    """The ids of segments and of the codes in sources."""
    targets: set[str] = field(default_factory=set)
    has_first_fixed: bool = False
    """Whether a code began a sequence that must keep its order."""


class _Checker:
    """Follows the elements of one file."""

    def __init__(self, root: XmlEvent, name: str) -> None:
        self._name = name
        namespaces = _namespaces(root, {"": ""})
        self._core = namespaces.get(_prefix(root.name), "")
        self._source_language = root.attributes.get("srcLang", "")
        self._target_language = root.attributes.get("trgLang", "")
        self._open = [_inside(root, _Element("", namespaces))]
        self._skipped = 0
        """How many elements are open inside an extension, with its own."""
        self._files: set[str] = set()
        self._groups: set[str] = set()
        self._units: set[str] = set()
        self._notes: set[str] = set()
        self._file = ""
        self._unit = _Unit()
        self._codes = self._unit.sources
        self._source_space = ""

    def start(self, event: XmlEvent) -> None:
        """Check an element where it begins."""
        if self._skipped:
            self._skipped += 1
            return
        parent = self._open[-1]
        element = _inside(event, parent)
        namespace = element.namespaces.get(_prefix(event.name), "")
        if namespace != self._core:
            self._check_extension(event, parent, namespace)
            self._skipped = 1
            return
        self._check_place(event, parent)
        self._check_attributes(event, element)
        if element.name == "skeleton":
            self._skipped = 1
            return
        self._open.append(element)
        match element.name:
            case "file" | "group" | "unit" | "notes" | "note" | "data":
                self._structure(event, parent)
            case "segment" | "ignorable":
                self._segment(event)
            case "source" | "target":
                self._text(event, element)
            case _:
                self._code(event)

    def end(self) -> None:
        """Leave an element."""
        if self._skipped:
            self._skipped -= 1
        else:
            self._open.pop()

    def _check_extension(self, event: XmlEvent, parent: _Element, namespace: str) -> None:
        if parent.name not in _EXTENSIBLE:
            self._fail(
                event,
                f"<{event.name[:50]}> of another namespace in <{parent.name}>",
                _children(parent.name),
            )
        module = namespace.removeprefix(_NAMESPACES).partition(":")[0]
        names = _MODULES.get(module, ()) if namespace.startswith(_NAMESPACES) else ()
        if names and event.local_name not in names:
            expected = " or ".join(f"<{name}>" for name in names)
            self._fail(event, f"<{event.name[:50]}> in the namespace of {module}", expected)

    def _check_place(self, event: XmlEvent, parent: _Element) -> None:
        order = _CHILDREN.get(parent.name, {}).get(event.local_name)
        if order is None:
            self._fail(
                event, f"<{event.local_name[:50]}> in <{parent.name}>", _children(parent.name)
            )
        if order < parent.order:
            later = [f"<{name}>" for name, place in _CHILDREN[parent.name].items() if place > order]
            self._fail(
                event,
                f"<{event.local_name}> too late in <{parent.name}>",
                f"it before {' and '.join(later)}",
            )
        parent.order = order

    def _check_attributes(self, event: XmlEvent, element: _Element) -> None:
        if element.name in _WITH_ID and not event.attributes.get("id"):
            self._fail(event, f"<{element.name}> without an id", "an id")
        if element.name in _OPEN:
            return
        for attribute in event.attributes:
            prefix = _prefix(attribute)
            if prefix in ("", "xml", "xmlns"):
                continue
            namespace = element.namespaces.get(prefix, "")
            if not namespace.startswith(_NAMESPACES) and namespace != _ITS:
                self._fail(
                    event,
                    f"the attribute {attribute[:50]} of another namespace at <{element.name}>",
                    "only attributes of XLIFF",
                )

    def _structure(self, event: XmlEvent, parent: _Element) -> None:
        """Check the ids of files, groups, units, notes and data."""
        identifier = event.attributes.get("id", "")
        match event.local_name:
            case "file":
                self._check_unique(event, self._files, "file")
                self._file = identifier
                self._groups, self._units = set(), set()
            case "group":
                self._check_unique(event, self._groups, "file")
            case "unit":
                self._check_unique(event, self._units, "file")
                self._unit = _Unit(identifier)
            case "notes":
                self._notes = self._unit.notes if parent.name == "unit" else set()
            case "note":
                self._check_unique(event, self._notes, self._open[-3].name)
            case "data":
                self._check_unique(event, self._unit.data, "originalData")

    def _segment(self, event: XmlEvent) -> None:
        self._check_unique(event, self._unit.sources, "unit")
        self._source_space = ""
        if "subState" in event.attributes and "state" not in event.attributes:
            self._fail(event, "a <segment> with subState and without state", "both")

    def _text(self, event: XmlEvent, element: _Element) -> None:
        """Check the language and the white space of a source or target."""
        if element.name == "source":
            self._codes = self._unit.sources
            self._source_space = element.space
            # The language of a source may be inherited: `xml:lang` at the unit.
            self._check_language(event, element.language, "srcLang", self._source_language)
            return
        self._codes = self._unit.targets
        stated = event.attributes.get("xml:lang", "")
        self._check_language(event, stated, "trgLang", self._target_language)
        if self._source_space and element.space != self._source_space:
            self._fail(
                event,
                f'a <target> with xml:space="{element.space[:50]}"',
                f'"{self._source_space[:50]}" as at its <source>',
            )

    def _check_language(self, event: XmlEvent, language: str, attribute: str, wanted: str) -> None:
        code, general = language.lower(), wanted.lower()
        # The standard wants the same code, its own validator allows `de-AT` in a file for `de`.
        if code and general and code != general and not code.startswith(f"{general}-"):
            self._fail(
                event,
                f"a <{event.local_name}> in the language {language[:50]!r}",
                f"{wanted[:50]!r}, the {attribute} of the file",
            )

    def _code(self, event: XmlEvent) -> None:
        """Check a code or an annotation inside a text."""
        attributes, name = event.attributes, event.local_name
        if name == "ec":
            self._check_end_code(event)
        for reference in ("dataRef", "dataRefStart", "dataRefEnd"):
            value = attributes.get(reference)
            if value is not None and not _is_in(value, self._unit.data):
                self._fail(
                    event,
                    f'<{name}> with {reference}="{value[:50]}"',
                    "the id of a <data> in the same <unit>",
                )
        order = attributes.get("canReorder")
        if order == "firstNo":
            self._unit.has_first_fixed = True
        elif order == "no" and not self._unit.has_first_fixed:
            self._fail(
                event,
                f'<{name}> with canReorder="no" as the first of its sequence',
                'canReorder="firstNo"',
            )
        if name in ("mrk", "sm"):
            self._check_annotation(event)
        self._check_unique(event, self._codes, "unit")

    def _check_end_code(self, event: XmlEvent) -> None:
        attributes = event.attributes
        isolated = attributes.get("isolated", "no")
        wanted, other = ("id", "startRef") if isolated == "yes" else ("startRef", "id")
        if wanted not in attributes or other in attributes:
            stated = [name for name in ("id", "startRef", "isolated") if name in attributes]
            self._fail(
                event,
                f"an <ec> with {' and '.join(stated) or 'no attribute'}",
                f'{wanted} and not {other} if isolated is "{isolated[:50]}"',
            )

    def _check_annotation(self, event: XmlEvent) -> None:
        attributes, name = event.attributes, event.local_name
        reference = attributes.get("ref")
        selectors = self._selectors(event, reference) if reference is not None else {}
        if attributes.get("type") != "comment":
            return
        if (reference is None) == ("value" not in attributes):
            both = "both" if reference is not None else "neither"
            self._fail(event, f"a comment <{name}> with {both} of value and ref", "one of them")
        if reference is not None and not self._is_note(selectors):
            self._fail(
                event,
                f'a comment <{name}> with ref="{reference[:50]}"',
                "#n= and the id of a <note> in the same <unit>",
            )

    def _selectors(self, event: XmlEvent, reference: str) -> dict[str, str]:
        """Return the parts of a reference by prefix: `#f=f1/n=3` is f1 by f, and 3 by n."""
        selectors: dict[str, str] = {}
        fragment = reference.removeprefix("#")
        if fragment == reference:
            return {"": reference}
        for selector in fragment.removeprefix("/").split("/"):
            prefix, sign, identifier = selector.rpartition("=")
            if prefix in selectors:
                kind = f"{prefix}= twice" if sign else "two ids without a prefix"
                self._fail(event, f'ref="{reference[:50]}" with {kind}', "each prefix once")
            if sign and prefix not in _PREFIXES:
                self._fail(
                    event,
                    f'ref="{reference[:50]}" with the prefix {prefix[:50]!r}',
                    f"one of {', '.join(sorted(_PREFIXES))}",
                )
            selectors[prefix] = identifier
        return selectors

    def _is_note(self, selectors: dict[str, str]) -> bool:
        """Whether a reference leads to a note of the current unit."""
        note = selectors.get("n") or selectors.get("", "")
        is_here = (
            selectors.get("f", self._file) == self._file
            and selectors.get("u", self._unit.id) == self._unit.id
            and ("g" not in selectors or "u" in selectors)
        )
        return is_here and _is_in(note, self._unit.notes)

    def _check_unique(self, event: XmlEvent, ids: set[str], scope: str) -> None:
        identifier = event.attributes.get("id")
        if identifier is None:
            return
        if identifier in ids:
            self._fail(
                event,
                f"<{event.local_name}> with the id {identifier[:50]!r}, which is used before",
                f"an id that is unique in its <{scope}>",
            )
        if len(ids) < MAX_IDS:
            ids.add(identifier)

    def _fail(self, event: XmlEvent, violation: str, expected: str) -> NoReturn:
        raise DataError(
            f"{self._name} is not valid XLIFF 2 in line {event.line:,}: it contains {violation}, "
            f"expected {expected}. Correct the file, or save it again with the program that wrote "
            "it"
        )


def _inside(event: XmlEvent, parent: _Element) -> _Element:
    attributes = event.attributes
    return _Element(
        event.local_name,
        _namespaces(event, parent.namespaces),
        attributes.get("xml:lang", parent.language),
        attributes.get("xml:space", parent.space),
    )


def _namespaces(event: XmlEvent, inherited: Mapping[str, str]) -> Mapping[str, str]:
    declared = {
        name.removeprefix("xmlns").removeprefix(":"): namespace
        for name, namespace in event.attributes.items()
        if name.startswith("xmlns")
    }
    return {**inherited, **declared} if declared else inherited


def _prefix(name: str) -> str:
    return name.rpartition(":")[0]


def _children(name: str) -> str:
    children = _CHILDREN.get(name, {})
    return "only " + ", ".join(f"<{child}>" for child in children) if children else "no element"


def _is_in(identifier: str, ids: set[str]) -> bool:
    return identifier in ids or len(ids) >= MAX_IDS
