"""TMX 1.1 to 1.4b, the exchange format of translation memories (`.tmx`).

A `<tu>` contains one text in several languages, one `<tuv>` per language. A unit is a `<tu>` with a
text in the source language; without a given source language, it is that of the header. Its target
is the text in the target language; without a given one, the first text in another language. A
missing target is inserted after the last `<tuv>`. `en` is also found as `en-US`, and `pt-BR` as
`pt`.

The tags of `<hi>` are pairs of codes. `<bpt>`, `<ept>`, `<ph>`, `<it>` and `<ut>` are codes with
their content. A machine translation is marked with `changeid="machine-translation"`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from dragoman.errors import DataError
from dragoman.formats.base.document import CodeKind, Content, Document, State, Target, Unit
from dragoman.formats.base.edits import Edit, apply_edits
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
from dragoman.text.languages import base_language, language_nearness

_REVIEWER = "machine-translation"
_OPAQUE = frozenset({"bpt", "ept", "ph", "it", "ut"})
_KINDS: dict[str, CodeKind] = {"bpt": "open", "ept": "close"}


def _role(event: XmlEvent) -> tuple[CodeKind, str]:
    return _KINDS.get(event.local_name, "single"), event.attributes.get("i", "")


RULES = InlineRules(lambda event: event.local_name in _OPAQUE, _role)


@dataclass(frozen=True, slots=True)
class Variant:
    """A `<tuv>`: the text in one language."""

    tag: XmlEvent
    language: str
    segment: Element | None
    end: int
    before_segment: str = ""
    after_segment: str = ""


@dataclass(slots=True)
class TranslationUnit:
    """A `<tu>` with the places of its texts."""

    tag: XmlEvent
    source_language: str
    """As the header states it: `*all*` if every language can be the source."""
    variants: list[Variant] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    before_variant: str = ""
    size: int = 0

    def variant(self, language: str, besides: Variant | None = None) -> Variant | None:
        """Return the first text with exactly this language code, otherwise the first near one."""
        near = None
        for variant in self.variants:
            nearness = language_nearness(language, variant.language) if variant.language else 0
            if nearness == 0 or variant.segment is None or variant is besides:
                continue
            if nearness == 2:
                return variant
            near = near or variant
        return near

    def other_variant(self, language: str) -> Variant | None:
        """Return the first text in another language."""
        others = (
            variant
            for variant in self.variants
            if variant.segment is not None and not language_nearness(language, variant.language)
        )
        return next(others, None)


def read_units(
    events: Iterator[XmlEvent], name: str, max_bytes: int | None = None
) -> Iterator[TranslationUnit]:
    """Yield the units of a file; of one that is longer than `max_bytes`, only the beginning."""
    is_root = True
    source_language = ""
    for event in events:
        if event.kind not in ("start", "empty"):
            continue
        local_name = event.local_name
        if is_root and local_name != "tmx":
            raise DataError(
                f"{name} begins with <{event.name[:50]}> in line {event.line:,}, expected <tmx>: "
                "it is not a TMX file"
            )
        is_root = False
        if local_name == "header":
            source_language = event.attributes.get("srclang", "")
        elif local_name == "tu":
            yield _read_unit(event, source_language, events, max_bytes)


def _read_unit(
    tag: XmlEvent, language: str, events: Iterator[XmlEvent], max_bytes: int | None
) -> TranslationUnit:
    unit = TranslationUnit(tag, language)
    limit = None if max_bytes is None else tag.start + max_bytes
    previous = end = tag
    for event in events if tag.kind == "start" else ():
        if event.kind == "end":
            end = event
            break
        if event.kind in ("start", "empty"):
            if event.local_name == "tuv":
                if not unit.variants:
                    unit.before_variant = indentation_of(previous)
                unit.variants.append(_read_variant(event, events, limit))
            else:
                element = read_element(event, events, limit)
                if event.local_name == "note":
                    unit.notes.append(element.text)
        previous = event
    unit.size = end.end - tag.start
    return unit


def _read_variant(tag: XmlEvent, events: Iterator[XmlEvent], limit: int | None) -> Variant:
    # TMX 1.1 uses `lang`; later versions use the standard attribute `xml:lang`.
    language = tag.attributes.get("xml:lang") or tag.attributes.get("lang") or ""
    segment = None
    before_segment = ""
    previous = end = tag
    for event in events if tag.kind == "start" else ():
        if event.kind == "end":
            end = event
            break
        if event.kind in ("start", "empty"):
            element = read_element(event, events, limit)
            if event.local_name == "seg" and segment is None:
                segment, before_segment = element, indentation_of(previous)
        previous = event
    return Variant(tag, language, segment, end.end, before_segment, indentation_of(previous))


class Tmx(Document):
    """Two languages of a translation memory."""

    extensions: ClassVar[tuple[str, ...]] = (".tmx",)
    is_bilingual: ClassVar[bool] = True
    review_mark: ClassVar[str] = f'changeid="{_REVIEWER}"'

    def units(self) -> Iterator[Unit]:
        """Yield the units that have a text in the source language."""
        file = XmlFile(self.data, self.name)
        for number, (unit, source, target) in enumerate(self._pairs(file), 1):
            content = _content(source, file)
            target_content = None if target is None else _content(target, file)
            yield Unit(
                key=unit.tag.attributes.get("tuid") or f"#{number}",
                source=content,
                line=unit.tag.line,
                target=target_content,
                state=_state(content, target, target_content),
                note="\n".join(unit.notes),
            )

    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the file with the targets."""
        return apply_edits(self.data, self._edits(targets))

    def _pairs(self, file: XmlFile) -> Iterator[tuple[TranslationUnit, Variant, Variant | None]]:
        """Yield the units with their texts in both languages."""
        for unit in read_units(file.events(), self.name):
            stated = unit.tag.attributes.get("srclang") or unit.source_language
            language = self.source_language or stated
            if base_language(language) == "*all*":
                language = unit.variants[0].language if unit.variants else ""
            source = unit.variant(language)
            if source is None:
                continue
            if self.target_language:
                target = unit.variant(self.target_language, besides=source)
            else:
                target = unit.other_variant(language)
            yield unit, source, target

    def _edits(self, targets: Iterable[Target | None]) -> Iterator[Edit]:
        file = XmlFile(self.data, self.name)
        for (unit, source, variant), target in zip(self._pairs(file), targets, strict=True):
            if target is None:
                continue
            line = unit.tag.line
            markup = file.markup(target.content, line)
            if variant is None:
                yield self._insertion(unit, source, target, markup, file)
                continue
            is_equal = markup == file.markup(_content(variant, file), line)
            if is_equal and target.needs_review == _needs_review(variant):
                continue
            is_marked = target.needs_review or _needs_review(variant)
            if is_marked:
                change = {"changeid": _REVIEWER if target.needs_review else None}
                tag = with_attributes(file.raw(variant.tag.start, variant.tag.end), change)
                yield Edit(variant.tag.start, variant.tag.end, file.encode(tag))
            assert variant.segment is not None
            yield content_edit(variant.segment, target.content, file)

    def _insertion(
        self, unit: TranslationUnit, source: Variant, target: Target, markup: str, file: XmlFile
    ) -> Edit:
        if not self.target_language:
            raise DataError(
                f"the unit in line {unit.tag.line:,} of {self.name} has no translation in another "
                "language, and no target language was given. Give the target language"
            )
        name = "xml:lang" if source.tag.attributes.get("xml:lang") else "lang"
        attributes: dict[str, str | None] = {name: self.target_language}
        if target.needs_review:
            attributes["changeid"] = _REVIEWER
        tag = with_attributes(f"<{source.tag.name}>", attributes)
        assert source.segment is not None
        segment = source.segment.start.name
        text = (
            f"{file.lines(unit.before_variant)}{tag}{file.lines(source.before_segment)}<{segment}>"
            f"{markup}</{segment}>{file.lines(source.after_segment)}</{source.tag.name}>"
        )
        place = unit.variants[-1].end
        return Edit(place, place, file.encode(text))


def _content(variant: Variant, file: XmlFile) -> Content:
    return () if variant.segment is None else content_of(variant.segment.inside, file.raw, RULES)


def _needs_review(variant: Variant) -> bool:
    return variant.tag.attributes.get("changeid") == _REVIEWER


def _state(source: Content, variant: Variant | None, target: Content | None) -> State:
    if variant is None or (source and not target):
        return "untranslated"
    return "needs_review" if _needs_review(variant) else "translated"
