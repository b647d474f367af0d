"""Qt Linguist translation files (`.ts`).

A unit is the translation of a `<message>`; of a message with plural forms, each `<numerusform>`
that the file has. Messages that are no longer used (`obsolete`, `vanished`) are not units. A
missing `<translation>` is inserted at the end of the message. Texts have no inline markup except
`<byte/>` and `<lengthvariant>`, which are codes. A machine translation is marked with
`type="unfinished"`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from dragoman.errors import DataError
from dragoman.formats.base.document import Content, Document, State, Target, Unit
from dragoman.formats.base.edits import Edit, apply_edits
from dragoman.formats.base.xml_content import (
    Element,
    InlineRules,
    XmlFile,
    content_edit,
    content_of,
    indentation_of,
    opened,
    read_element,
    with_attributes,
)
from dragoman.formats.base.xml_events import XmlEvent, root_name

_RULES = InlineRules()
_UNFINISHED = "unfinished"
_UNUSED = frozenset({"obsolete", "vanished"})
_NOTES = frozenset({"comment", "extracomment", "translatorcomment"})


@dataclass(slots=True)
class Message:
    """A `<message>` with the places of its parts."""

    tag: XmlEvent
    context: str
    source: Element | None = None
    translation: Element | None = None
    forms: list[Element | None] = field(default_factory=list)
    """The places of the translations; None = not in the file yet."""
    comment: str = ""
    notes: list[str] = field(default_factory=list)
    insert_at: int = 0
    indentation: str = ""

    @property
    def has_plural(self) -> bool:
        """Whether the translation has plural forms."""
        return self.tag.attributes.get("numerus") == "yes"

    @property
    def type(self) -> str:
        """The type of the translation: empty = finished."""
        return self.translation.start.attributes.get("type", "") if self.translation else ""


class QtTs(Document):
    """A translation file of Qt Linguist."""

    extensions: ClassVar[tuple[str, ...]] = (".ts",)
    is_bilingual: ClassVar[bool] = True
    language_place: ClassVar[str] = "the attributes `language` and `sourcelanguage` of <TS>"
    review_mark: ClassVar[str] = f'type="{_UNFINISHED}"'

    @classmethod
    def accepts(cls, data: bytes) -> bool:
        """Whether the root is `<TS>`; TypeScript and video files have the same extension."""
        return root_name(data) == "TS"

    def stated_languages(self) -> tuple[str, str]:
        """Return the languages of the root."""
        attributes = _root(XmlFile(self.data, self.name)).attributes
        return attributes.get("sourcelanguage", ""), attributes.get("language", "")

    def units(self) -> Iterator[Unit]:
        """Yield the translations of the messages that are in use."""
        file = XmlFile(self.data, self.name)
        for number, message in enumerate(self._messages(file), 1):
            assert message.source is not None
            source = content_of(message.source.inside, file.raw, _RULES)
            name = message.tag.attributes.get("id") or f"{message.context}#{number}"
            for index, form in enumerate(message.forms):
                target = _form_content(form, file)
                yield Unit(
                    key=f"{name}[{index}]" if message.has_plural else name,
                    source=source,
                    line=message.tag.line,
                    target=target,
                    state=_state(message, source, target),
                    context="\n".join(filter(None, (message.context, message.comment))),
                    note="\n".join(message.notes),
                )

    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the file with the targets."""
        return apply_edits(self.data, self._edits(targets))

    def _messages(self, file: XmlFile) -> Iterator[Message]:
        for message in _read_messages(file.events(), self.name):
            if message.source is not None and message.type not in _UNUSED:
                yield message

    def _edits(self, targets: Iterable[Target | None]) -> Iterator[Edit]:
        file = XmlFile(self.data, self.name)
        root = _root(file)
        is_first = True
        flat = ((message, form) for message in self._messages(file) for form in message.forms)
        waiting: list[Target | None] = []
        for (message, _), target in zip(flat, targets, strict=True):
            waiting.append(target)
            if len(waiting) < len(message.forms):
                continue
            edits = list(_message_edits(message, waiting, file))
            waiting = []
            if edits and is_first:
                is_first = False
                yield from self._language_edit(root, file)
            yield from edits

    def _language_edit(self, root: XmlEvent, file: XmlFile) -> Iterator[Edit]:
        if self.target_language and not root.attributes.get("language"):
            tag = file.raw(root.start, root.end)
            change = {"language": self.target_language.replace("-", "_")}
            yield Edit(root.start, root.end, file.encode(with_attributes(tag, change)))


def _root(file: XmlFile) -> XmlEvent:
    return next(event for event in file.events() if event.kind in ("start", "empty"))


def _read_messages(events: Iterator[XmlEvent], name: str) -> Iterator[Message]:
    is_root = True
    context = ""
    for event in events:
        if event.kind not in ("start", "empty"):
            continue
        if is_root and event.name != "TS":
            raise DataError(
                f"{name} begins with <{event.name[:50]}> in line {event.line:,}, expected <TS>: it "
                "is not a Qt translation file"
            )
        is_root = False
        if event.name == "name":
            context = read_element(event, events).text
        elif event.name == "message":
            yield _read_message(event, context, events)


def _read_message(tag: XmlEvent, context: str, events: Iterator[XmlEvent]) -> Message:
    message = Message(tag, context)
    previous = tag
    for event in events if tag.kind == "start" else ():
        if event.kind == "end":
            break
        if event.kind in ("start", "empty"):
            element = read_element(event, events)
            message.insert_at = element.end.end
            message.indentation = indentation_of(previous) or message.indentation
            if event.name == "source" and message.source is None:
                message.source = element
            elif event.name == "translation" and message.translation is None:
                message.translation = element
            elif event.name in _NOTES and element.text:
                message.notes.append(element.text)
                message.comment = element.text if event.name == "comment" else message.comment
        previous = event
    message.forms = _forms(message)
    return message


def _forms(message: Message) -> list[Element | None]:
    if not message.has_plural or message.translation is None:
        return [message.translation]
    events = iter(message.translation.inside)
    forms: list[Element | None] = [
        read_element(event, events)
        for event in events
        if event.kind in ("start", "empty") and event.name == "numerusform"
    ]
    return forms or [None]


def _message_edits(message: Message, targets: list[Target | None], file: XmlFile) -> Iterator[Edit]:
    is_unfinished = message.type == _UNFINISHED
    written = [target for target in targets if target is not None]
    needs_review = any(target.needs_review for target in written)
    # The mark is that of all forms: it can only be removed together with all of them.
    is_marked = needs_review or (is_unfinished and len(written) < len(targets))
    changed = [
        (form, target)
        for form, target in zip(message.forms, targets, strict=True)
        if target is not None and not _is_equal(form, target, message.tag.line, file)
    ]
    if not changed and (not written or is_marked == is_unfinished):
        return
    change: dict[str, str | None] = {"type": _UNFINISHED if is_marked else None}
    translation = message.translation
    if translation is None or None in message.forms:
        yield _insertion(message, written[0], change, file)
        return
    tag = with_attributes(file.raw(translation.start.start, translation.start.end), change)
    if not message.has_plural:
        content = changed[0][1].content if changed else _form_content(translation, file)
        yield content_edit(translation, content or (), file, tag)
        return
    if is_marked != is_unfinished:
        yield Edit(translation.start.start, translation.start.end, file.encode(tag))
    for form, target in changed:
        assert form is not None
        yield content_edit(form, target.content, file)


def _insertion(
    message: Message, target: Target, change: dict[str, str | None], file: XmlFile
) -> Edit:
    markup = file.markup(target.content, message.tag.line)
    if message.has_plural:
        markup = f"<numerusform>{markup}</numerusform>"
    element = message.translation
    if element is None:
        tag = with_attributes("<translation>", change)
        text = f"{file.lines(message.indentation)}{tag}{markup}</translation>"
        return Edit(message.insert_at, message.insert_at, file.encode(text))
    tag = opened(with_attributes(file.raw(element.start.start, element.start.end), change))
    text = f"{tag}{markup}</translation>"
    return Edit(element.start.start, element.end.end, file.encode(text))


def _form_content(form: Element | None, file: XmlFile) -> Content | None:
    return None if form is None else content_of(form.inside, file.raw, _RULES)


def _is_equal(form: Element | None, target: Target, line: int, file: XmlFile) -> bool:
    content = _form_content(form, file)
    return content is not None and file.markup(content, line) == file.markup(target.content, line)


def _state(message: Message, source: Content, target: Content | None) -> State:
    if target is None or (source and not target):
        return "untranslated"
    return "needs_review" if message.type == _UNFINISHED else "translated"
