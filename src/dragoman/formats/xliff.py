"""XLIFF 1.x and 2.x, the exchange formats of translation tools (`.xlf`, `.xliff`).

A unit is a `<trans-unit>` (1.x) or a `<segment>` (2.x) that has a `<source>`. A missing `<target>`
is inserted after the source. Suggestions (`<alt-trans>`, `<mtc:match>`), `<bin-unit>` and
`<ignorable>` are not units. If a `<trans-unit>` is segmented, its source is the content of
`<seg-source>`, so that the target gets the same `<mrk mtype="seg">`.

The tags of `<g>`, `<pc>` and `<mrk>` are pairs of codes. All other inline elements are codes with
their content, and so is text that is marked as not to be translated (`mtype="protected"`,
`translate="no"` at a `<mrk>`).

A machine translation is marked with the state `needs-review-translation`. 2.x has no such state:
there the state is `translated`, with the sub-state `dragoman:needs-review`.

A 2.x file that breaks a rule of the standard is refused with the line: an id that is used twice, a
reference to nothing, a wrong language, an element in a wrong place (`base/xliff_rules.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from dragoman.errors import DataError
from dragoman.formats.base.document import (
    CodeKind,
    Content,
    Document,
    State,
    Target,
    Unit,
)
from dragoman.formats.base.edits import Edit, apply_edits
from dragoman.formats.base.xliff_rules import checked_events
from dragoman.formats.base.xml_content import (
    Element,
    InlineRules,
    XmlFile,
    content_edit,
    content_of,
    indentation_of,
    read_element,
    with_attributes,
)
from dragoman.formats.base.xml_events import XmlEvent

UNTRANSLATED_STATES = frozenset({"new", "needs-translation", "initial"})

_REVIEW_STATE = "needs-review-translation"
_REVIEW_SUBSTATE = "dragoman:needs-review"
_OPAQUE = frozenset(("x", "bx", "ex", "bpt", "ept", "ph", "it", "sc", "ec", "cp", "sm", "em"))
_OPENING = {"bx": "rid", "bpt": "rid", "sc": "id", "sm": "id"}
_CLOSING = {"ex": "rid", "ept": "rid", "ec": "startRef", "em": "startRef"}
_PAIRS = {"ex": "bx", "ept": "bpt", "ec": "sc", "em": "sm"}


def _role(event: XmlEvent) -> tuple[CodeKind, str]:
    name = event.local_name
    reference = _OPENING.get(name) or _CLOSING.get(name)
    if reference is None:
        return "single", ""
    value = event.attributes.get(reference) or event.attributes.get("id", "")
    return ("open" if name in _OPENING else "close"), f"{_PAIRS.get(name, name)} {value}"


def _is_protected(event: XmlEvent) -> bool:
    attributes = event.attributes
    is_kept = attributes.get("mtype") == "protected" or attributes.get("translate") == "no"
    return event.local_name in _OPAQUE or (event.local_name == "mrk" and is_kept)


TEXT_RULES = InlineRules(lambda event: event.local_name in _OPAQUE, _role)
"""Text that is marked as not to be translated is text: for those who only read."""
_RULES = InlineRules(_is_protected, _role)


@dataclass(slots=True)
class Scope:
    """What the elements around a segment state."""

    name: str = ""
    source_language: str | None = None
    target_language: str | None = None
    text_language: str = ""
    """The `xml:lang` that a text inherits."""
    language_tag: XmlEvent | None = None
    """The start tag that names the languages: `<file>` in 1.x, the root in 2.x."""
    is_translatable: bool = True
    path: tuple[str, ...] = ()
    context: str = ""
    notes: list[str] = field(default_factory=list)
    """The notes of a `<unit>` before its segments."""

    def inside(self, event: XmlEvent) -> Scope:
        """Return the scope inside an element."""
        attributes, name = event.attributes, event.local_name
        has_languages = "source-language" in attributes or "srcLang" in attributes
        is_step = name in ("file", "unit")
        step = attributes.get("id") or attributes.get("original") or ""
        return Scope(
            name,
            attributes.get("source-language") or attributes.get("srcLang") or self.source_language,
            attributes.get("target-language") or attributes.get("trgLang") or self.target_language,
            attributes.get("xml:lang", self.text_language),
            event if has_languages else self.language_tag,
            _is_translatable(event, self.is_translatable),
            (*self.path, step) if is_step and step else self.path,
            attributes.get("name", "") if name == "unit" else self.context,
        )


@dataclass(slots=True)
class Segment:
    """A `<trans-unit>` or `<segment>` with the places of its parts."""

    tag: XmlEvent
    scope: Scope
    source: Element | None = None
    segmented: Element | None = None
    """The `<seg-source>`."""
    target: Element | None = None
    notes: list[str] = field(default_factory=list)
    indentation: str = ""
    """The newline and spaces before the source."""
    size: int = 0

    @property
    def state(self) -> str:
        """The state that the file gives, or an empty text."""
        places = (self.tag,) if self.target is None else (self.target.start, self.tag)
        states = (place.attributes.get("state", "") for place in places)
        return next(filter(None, states), "")

    def attribute(self, name: str) -> str:
        """Return an attribute of the `<trans-unit>` or `<segment>`."""
        return self.tag.attributes.get(name, "")


def read_scopes(events: Iterable[XmlEvent], name: str) -> Iterator[Scope]:
    """Yield the scope of every element: what a file states about its languages."""
    scopes = [Scope()]
    for event in events:
        if event.kind == "end":
            scopes.pop()
        elif event.kind in ("start", "empty"):
            if len(scopes) == 1:
                _check_root(event, name)
            scope = scopes[-1].inside(event)
            yield scope
            if event.kind == "start":
                scopes.append(scope)


def read_segments(
    events: Iterator[XmlEvent], name: str, max_bytes: int | None = None
) -> Iterator[Segment]:
    """Yield the segments of a file; of one that is longer than `max_bytes`, only the beginning."""
    scopes: list[Scope] = []
    for event in events:
        if event.kind == "end":
            scopes.pop()
        if event.kind not in ("start", "empty"):
            continue
        if not scopes:
            _check_root(event, name)
            scopes.append(Scope())
        scope = scopes[-1]
        is_segment = event.local_name == "trans-unit" or (
            event.local_name == "segment" and scope.name == "unit"
        )
        if is_segment:
            yield _read_segment(event, scope, events, max_bytes)
        elif event.local_name == "note" and scope.name == "notes":
            scopes[-2].notes.append(read_element(event, events, event.start + 10_000).text)
        elif event.kind == "start":
            scopes.append(scope.inside(event))


def _read_segment(
    tag: XmlEvent, scope: Scope, events: Iterator[XmlEvent], max_bytes: int | None
) -> Segment:
    segment = Segment(tag, scope)
    limit = None if max_bytes is None else tag.start + max_bytes
    previous = tag
    end = tag
    for event in events if tag.kind == "start" else ():
        if event.kind == "end":
            end = event
            break
        if event.kind in ("start", "empty"):
            element = read_element(event, events, limit)
            match event.local_name:
                case "source" if segment.source is None:
                    segment.source = element
                    segment.indentation = indentation_of(previous)
                case "seg-source" if segment.segmented is None:
                    segment.segmented = element
                case "target" if segment.target is None:
                    segment.target = element
                case "note":
                    segment.notes.append(element.text)
        previous = event
    segment.size = end.end - tag.start
    return segment


class Xliff(Document):
    """An XLIFF file of version 1.x or 2.x."""

    extensions: ClassVar[tuple[str, ...]] = (".xlf", ".xliff")
    is_bilingual: ClassVar[bool] = True
    language_place: ClassVar[str] = "`target-language` of <file>, or `trgLang` of <xliff>"
    review_mark: ClassVar[str] = f'state="{_REVIEW_STATE}"; 2.x: subState="{_REVIEW_SUBSTATE}"'

    def stated_languages(self) -> tuple[str, str]:
        """Return the languages of the first element that names some."""
        for scope in read_scopes(XmlFile(self.data, self.name).events(), self.name):
            if scope.source_language:
                return scope.source_language, scope.target_language or ""
        return "", ""

    def units(self) -> Iterator[Unit]:
        """Yield the segments that have a source."""
        file = XmlFile(self.data, self.name)
        for number, segment in enumerate(self._segments(file), 1):
            source = content_of(_source(segment).inside, file.raw, _RULES)
            target = _target_content(segment, file)
            yield Unit(
                key="/".join((*segment.scope.path, segment.attribute("id") or f"#{number}")),
                source=source,
                line=segment.tag.line,
                target=target,
                state=_state(segment, source, target),
                context=segment.attribute("resname") or segment.scope.context,
                note="\n".join((*segment.scope.notes, *segment.notes)),
            )

    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the file with the targets."""
        return apply_edits(self.data, self._edits(targets))

    def _segments(self, file: XmlFile) -> Iterator[Segment]:
        segments = read_segments(checked_events(file.events(), self.name), self.name)
        return (segment for segment in segments if segment.source is not None)

    def _edits(self, targets: Iterable[Target | None]) -> Iterator[Edit]:
        file = XmlFile(self.data, self.name)
        position = 0
        for segment, target in zip(self._segments(file), targets, strict=True):
            if target is None:
                continue
            current = _target_content(segment, file)
            line = segment.tag.line
            markup = file.markup(target.content, line)
            is_equal = current is not None and markup == file.markup(current, line)
            if is_equal and target.needs_review == _needs_review(segment):
                continue
            language_tag = segment.scope.language_tag
            if language_tag is not None and language_tag.start >= position:
                yield from self._language_edit(language_tag, file)
            edits = _segment_edits(segment, target, file, self.target_language)
            yield from sorted(edits, key=lambda edit: edit.start)
            position = segment.tag.end

    def _language_edit(self, tag: XmlEvent, file: XmlFile) -> Iterator[Edit]:
        name = "trgLang" if "srcLang" in tag.attributes else "target-language"
        if self.target_language and not tag.attributes.get(name):
            yield _tag_edit(tag, {name: self.target_language}, file)


def _segment_edits(
    segment: Segment, target: Target, file: XmlFile, language: str
) -> Iterator[Edit]:
    is_new = segment.tag.local_name == "segment"
    attributes: dict[str, str | None] = {}
    if is_new:
        substate = _REVIEW_SUBSTATE if target.needs_review else None
        yield _tag_edit(segment.tag, {"state": "translated", "subState": substate}, file)
        if segment.target is None:
            attributes = _text_attributes(segment, segment.scope.target_language or language)
    else:
        if target.needs_review and segment.attribute("approved") == "yes":
            yield _tag_edit(segment.tag, {"approved": "no"}, file)
        # The qualifier says where the replaced translation came from.
        attributes["state-qualifier"] = None
        if target.needs_review:
            attributes["state"] = _REVIEW_STATE
        elif segment.target is None or "state" in segment.target.start.attributes:
            attributes["state"] = "translated"
    if segment.target is None:
        yield _insertion(segment, target, attributes, file)
    else:
        start = segment.target.start
        tag = with_attributes(file.raw(start.start, start.end), attributes)
        yield content_edit(segment.target, target.content, file, tag)


def _text_attributes(segment: Segment, language: str) -> dict[str, str | None]:
    """Return the attributes of a new `<target>`, which must not inherit the wrong ones."""
    space = _source(segment).start.attributes.get("xml:space")
    inherited = segment.scope.text_language
    is_other = bool(inherited and language) and inherited.lower() != language.lower()
    return {"xml:lang": language if is_other else None, "xml:space": space}


def _insertion(
    segment: Segment, target: Target, attributes: dict[str, str | None], file: XmlFile
) -> Edit:
    source = _source(segment)
    markup = file.markup(target.content, segment.tag.line, as_cdata=source.is_cdata)
    name = source.start.name.removesuffix("seg-source").removesuffix("source") + "target"
    tag = with_attributes(f"<{name}>", attributes)
    place = max(element.end.end for element in (segment.source, segment.segmented) if element)
    text = f"{file.lines(segment.indentation)}{tag}{markup}</{name}>"
    return Edit(place, place, file.encode(text))


def _source(segment: Segment) -> Element:
    """Return the source; segmented if the segments contain the text."""
    source, segmented = segment.source, segment.segmented
    assert source is not None
    return (
        segmented if segmented is not None and (segmented.inside or not source.inside) else source
    )


def _target_content(segment: Segment, file: XmlFile) -> Content | None:
    return None if segment.target is None else content_of(segment.target.inside, file.raw, _RULES)


def _state(segment: Segment, source: Content, target: Content | None) -> State:
    if not _is_translatable(segment.tag, segment.scope.is_translatable):
        return "locked"
    state = segment.state
    if target is None or (source and not target) or state in UNTRANSLATED_STATES:
        return "untranslated"
    if _needs_review(segment):
        return "needs_review"
    is_final = segment.attribute("approved") == "yes" or segment.attribute("state") == "final"
    return "locked" if is_final else "translated"


def _needs_review(segment: Segment) -> bool:
    state = segment.state
    is_marked = state.startswith("needs-") and state not in UNTRANSLATED_STATES
    return is_marked or segment.attribute("subState") == _REVIEW_SUBSTATE


def _is_translatable(event: XmlEvent, inherited: bool) -> bool:
    value = event.attributes.get("translate", "")
    return value == "yes" if value in ("yes", "no") else inherited


def _tag_edit(tag: XmlEvent, changes: dict[str, str | None], file: XmlFile) -> Edit:
    text = with_attributes(file.raw(tag.start, tag.end), changes)
    return Edit(tag.start, tag.end, file.encode(text))


def _check_root(event: XmlEvent, name: str) -> None:
    version = event.attributes.get("version", "")
    if event.local_name != "xliff":
        raise DataError(
            f"{name} begins with <{event.name[:50]}> in line {event.line:,}, expected <xliff>: it "
            "is not an XLIFF file"
        )
    if version and version[:2] not in ("1.", "2."):
        raise DataError(
            f"{name} is XLIFF {version[:50]} (line {event.line:,}), expected version 1.x or 2.x"
        )
