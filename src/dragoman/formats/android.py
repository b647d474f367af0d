r"""Android string resources (`strings.xml`).

A unit is a `<string>`, an `<item>` of a `<string-array>` or an `<item>` of a `<plurals>`. What has
`translatable="false"` and a reference to another resource (`@string/ok`) are not units. Plural
forms are not added: the file keeps the quantities that it has.

Text is what the application shows: `\n`, `\'`, `\"`, `\@` and `\u00e9` are decoded, the quotes
around quoted text are removed (not in CDATA sections, where they are HTML), and white space outside
quotes becomes one space. White space at the beginning and at the end is layout and stays in the
file. HTML tags are pairs of codes; `<xliff:g>` is a code with its content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from dragoman.errors import DataError
from dragoman.formats.base.document import Code, Content, Document, Target, Unit, merged
from dragoman.formats.base.edits import Edit, apply_edits
from dragoman.formats.base.surrogates import join_surrogates
from dragoman.formats.base.xml_content import (
    Element,
    InlineRules,
    XmlFile,
    content_edit,
    content_of,
    read_element,
)
from dragoman.formats.base.xml_events import XmlEvent, root_name

_RULES = InlineRules(lambda event: event.name.endswith(":g"))
_LISTS = frozenset({"string-array", "plurals"})
_REFERENCE = re.compile(r"[@?](\+?[\w.]+:)?[\w.]+/[\w./]+|@null|@empty")
_SPACE = " \t\n\r"
_TOKEN = re.compile(r'\\u([0-9A-Fa-f]{4})|\\(.)|(")|([ \t\n\r]+)|[^\\" \t\n\r]+|\\', re.DOTALL)
_PLAIN_QUOTE = re.compile(r'(?<!\\)"')
_ESCAPES = {"n": "\n", "t": "\t"}
_ESCAPED = re.compile("[\\\\\"'\n\t\r\0-\x08\x0b-\x1f\ufffe\uffff]|(?<= ) ")


@dataclass(frozen=True, slots=True)
class Resource:
    """An element with a text to translate."""

    key: str
    element: Element
    note: str


class Android(Document):
    """A file of string resources."""

    extensions: ClassVar[tuple[str, ...]] = (".xml",)

    @classmethod
    def accepts(cls, data: bytes) -> bool:
        """Whether the root element is `<resources>`."""
        return root_name(data) == "resources"

    def units(self) -> Iterator[Unit]:
        """Yield the strings, the items of arrays, and the plural forms."""
        file = XmlFile(self.data, self.name)
        for resource, content in self._resources(file):
            yield Unit(
                key=resource.key,
                source=_decoded(content),
                line=resource.element.start.line,
                note=resource.note,
            )

    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the file with the targets."""
        return apply_edits(self.data, self._edits(targets))

    def _edits(self, targets: Iterable[Target | None]) -> Iterator[Edit]:
        file = XmlFile(self.data, self.name)
        for (resource, content), target in zip(self._resources(file), targets, strict=True):
            if target is None:
                continue
            encoded = _encoded(target.content)
            if encoded != _encoded(_decoded(content)):
                before, after = _layout(content)
                yield content_edit(resource.element, merged((before, *encoded, after)), file)

    def _resources(self, file: XmlFile) -> Iterator[tuple[Resource, Content]]:
        """Yield what can be translated, with its content as it stands in the file."""
        for resource in _read_resources(file):
            events = _with_escaped_quotes(resource.element.inside)
            content = content_of(events, file.raw, _RULES)
            text = content[0] if len(content) == 1 else None
            if not (isinstance(text, str) and _REFERENCE.fullmatch(text.strip(_SPACE))):
                yield resource, content


def _with_escaped_quotes(events: Iterable[XmlEvent]) -> Iterator[XmlEvent]:
    """Escape the quotes in CDATA sections: there they are HTML, `<a href="x">`."""
    is_cdata = False
    for event in events:
        if event.kind in ("cdata_start", "cdata_end"):
            is_cdata = event.kind == "cdata_start"
        if is_cdata and event.kind == "text":
            yield event._replace(text=_PLAIN_QUOTE.sub(r"\"", event.text))
        else:
            yield event


def _read_resources(file: XmlFile) -> Iterator[Resource]:
    events = file.events()
    is_root = True
    note = ""
    for event in events:
        if event.kind == "other":
            raw = file.raw(event.start, event.end)
            note = raw[4:-3].strip() if raw.startswith("<!--") else note
        if event.kind not in ("start", "empty"):
            continue
        if is_root:
            is_root = False
            if event.local_name != "resources":
                raise DataError(
                    f"{file.name} begins with <{event.name[:50]}> in line {event.line:,}, expected "
                    "<resources>: it is not a file of Android resources"
                )
            continue
        if event.attributes.get("translatable") == "false":
            read_element(event, events)
        elif event.local_name == "string":
            yield Resource(_key(event), read_element(event, events), note)
        elif event.local_name in _LISTS:
            yield from _read_items(event, events, note)
        else:
            read_element(event, events)
        note = ""


def _read_items(start: XmlEvent, events: Iterator[XmlEvent], note: str) -> Iterator[Resource]:
    number = 0
    for event in events if start.kind == "start" else ():
        if event.kind == "end":
            return
        if event.kind in ("start", "empty"):
            element = read_element(event, events)
            if event.local_name == "item":
                form = event.attributes.get("quantity", str(number))
                yield Resource(f"{_key(start)}[{form}]", element, note)
                number += 1


def _key(event: XmlEvent) -> str:
    name, product = event.attributes.get("name", ""), event.attributes.get("product")
    return f"{name} ({product})" if product else name


def _layout(content: Content) -> tuple[str, str]:
    """Return the white space at the beginning and at the end."""
    first, last = (content[0], content[-1]) if content else ("", "")
    before = first[: len(first) - len(first.lstrip(_SPACE))] if isinstance(first, str) else ""
    after = last[len(last.rstrip(_SPACE)) :] if isinstance(last, str) else ""
    is_all = len(content) == 1 and before == first
    return before, "" if is_all else after


def _decoded(content: Content) -> Content:
    """Return the text that the application shows."""
    before, after = _layout(content)
    parts: list[str | Code] = []
    is_quoted = False
    for index, part in enumerate(content):
        if isinstance(part, Code):
            parts.append(part)
            continue
        begin = len(before) if index == 0 else 0
        end = len(part) - (len(after) if index == len(content) - 1 else 0)
        text, is_quoted = _decoded_text(part[begin:end], is_quoted=is_quoted)
        parts.append(text)
    return merged(parts)


def _decoded_text(text: str, *, is_quoted: bool) -> tuple[str, bool]:
    pieces: list[str] = []
    for match in _TOKEN.finditer(text):
        code_point, escaped, quote, space = match.groups()
        if code_point:
            pieces.append(chr(int(code_point, 16)))
        elif escaped:
            pieces.append(_ESCAPES.get(escaped, escaped))
        elif quote:
            is_quoted = not is_quoted
        elif space:
            pieces.append(space if is_quoted else " ")
        elif match[0] != "\\":
            pieces.append(match[0])
    return join_surrogates("".join(pieces)), is_quoted


def _encoded(content: Content) -> Content:
    """Return the text with the escapes of Android."""
    parts: list[str | Code] = []
    for index, part in enumerate(content):
        if isinstance(part, Code):
            parts.append(part)
            continue
        text = _ESCAPED.sub(_escape, part)
        if index == 0 and text[:1] in ("@", "?"):
            text = "\\" + text
        if index == 0 and text[:1] == " ":
            text = r"\u0020" + text[1:]
        if index == len(content) - 1 and text[-1:] == " ":
            text = text[:-1] + r"\u0020"
        parts.append(text)
    return tuple(parts)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in "\\\"'":
        return "\\" + character
    if character == "\n":
        return r"\n"
    return r"\t" if character == "\t" else f"\\u{ord(character):04X}"
