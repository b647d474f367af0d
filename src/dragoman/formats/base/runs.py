"""Paragraphs that consist of runs, as in DOCX, PPTX and XLSX: a run is text with one formatting.

From runs to content: neighboring runs with equal formatting are one text. The formatting with the
shortest description is the base of the paragraph and needs no code. A text with another formatting
is inside a pair of codes. An element around runs (a link) is a pair of codes too; everything else
is a single code. Language tags and marks of the spelling checker do not count as formatting.

From content to runs: each text becomes a run with the formatting of the innermost pair around it.
Runs are closed before each code and opened after it, so that every order of the codes in which
pairs nest gives valid XML.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from dragoman.formats.base.document import Code, Content, merged, numbered
from dragoman.formats.base.office import Holder, Node, Paragraph, ParagraphReader
from dragoman.formats.base.xml_content import XmlFile
from dragoman.formats.base.xml_events import XmlEvent


@dataclass(frozen=True, slots=True)
class RunDialect:
    """What a format calls its elements; all names are without the prefix."""

    namespaces: tuple[str, ...]
    paragraphs: tuple[str, ...]
    properties: tuple[str, ...] = ()
    """Elements at the start or end of a paragraph that stay where they are."""
    containers: frozenset[str] = frozenset()
    """Elements around runs."""
    ignored: frozenset[str] = frozenset()
    """Elements that are dropped when a paragraph is written."""
    ignored_formatting: frozenset[str] = frozenset()
    """Elements or attributes of the formatting of a run that do not count."""
    characters: Mapping[str, str] = field(default_factory=dict)
    """Elements that stand for a character."""
    has_break_runs: bool = False
    """Whether a line break is not in a run, but takes the place of one."""
    has_plain_text: bool = False
    """Whether text without formatting needs no run."""
    keeps_space: bool = True
    """Whether text needs `xml:space` for whitespace at its ends."""


@dataclass(frozen=True, slots=True)
class _Atom:
    """A piece of a paragraph: a text with its formatting, or a code."""

    kind: Literal["text", "open", "close", "single"]
    raw: str
    """The text, or the characters of the code."""
    formatting: str = ""
    field: str = ""
    """Of a field: `begin`, `separate`, `end`, or its instruction."""
    is_holder: bool = False


class RunReader(ParagraphReader):
    """Reads and writes the paragraphs of a part."""

    def __init__(self, file: XmlFile, dialect: RunDialect) -> None:
        super().__init__(file)
        self._dialect = dialect
        self._prefix = "\0"  # No element has this name.
        self._is_known = False
        self._codes: Counter[str] = Counter()
        self._holders: list[Holder] = []

    def is_paragraph(self, event: XmlEvent) -> bool:
        """Return whether an element is a paragraph."""
        if not self._is_known:
            self._find_prefix(event)
        return self._local(event.name) in self._dialect.paragraphs

    def _find_prefix(self, event: XmlEvent) -> None:
        """Find the prefix of the namespace of the format, usually in the first element."""
        for name, value in event.attributes.items():
            if value in self._dialect.namespaces and name.split(":")[0] == "xmlns":
                self._prefix = name.removeprefix("xmlns").removeprefix(":")
                self._prefix += ":" if self._prefix else ""
                self._is_known = True
                return

    def _local(self, name: str) -> str:
        """Return the name of an element of the format without the prefix, else an empty text."""
        local = name.removeprefix(self._prefix)
        return local if name.startswith(self._prefix) and ":" not in local else ""

    # Reading.

    def paragraph(self, node: Node) -> Paragraph:
        """Return a paragraph with all paragraphs inside of it."""
        outer = self._codes, self._holders
        self._codes, self._holders = Counter(), []
        children = [
            child
            for child in node.elements
            if self._local(child.name) not in self._dialect.properties
        ]
        start = children[0].start.start if children else node.end.start
        end = children[-1].end.end if children else start
        atoms = _with_fields(list(self._atoms(children)), self._run)
        content, base = self._content(atoms)
        holders = tuple(self._holders)
        self._codes, self._holders = outer
        return Paragraph(content, start, end, node.start.line, holders, self, base)

    def _atoms(self, nodes: list[Node]) -> Iterator[_Atom]:
        dialect = self._dialect
        for node in nodes:
            name = self._local(node.name)
            inner = next((one for one in node.elements if self._is(one, "sdtContent")), None)
            if name in dialect.ignored:
                continue
            if name == "r":
                yield from self._run_atoms(node)
            elif name == "t" and dialect.has_plain_text:
                yield _Atom("text", self._text(node))
            elif name == "br" and dialect.has_break_runs:
                yield _Atom("text", "\n", self._formatting(node))
            elif name == "sdt" and inner is not None and inner.start.kind == "start":
                # Only the content of a content control is text.
                yield _Atom("open", self.file.raw(node.start.start, inner.start.end))
                yield from self._atoms(inner.elements)
                yield _Atom("close", self.file.raw(inner.end.start, node.end.end))
            elif name in dialect.containers and node.start.kind == "start":
                yield _Atom("open", self.file.raw(node.start.start, node.start.end))
                yield from self._atoms(node.elements)
                yield _Atom("close", self.file.raw(node.end.start, node.end.end))
            else:
                yield self._single(node, "", "")

    def _run_atoms(self, run: Node) -> Iterator[_Atom]:
        formatting = self._formatting(run)
        properties = next((one for one in run.elements if self._is(one, "rPr")), None)
        before = f"<{run.name}>" + (self.raw(properties) if properties else "")
        for child in run.elements:
            name = self._local(child.name)
            if name in self._dialect.ignored or name == "rPr":
                continue
            if name == "t":
                yield _Atom("text", self._text(child), formatting)
            elif name in self._dialect.characters and not child.start.attributes:
                yield _Atom("text", self._dialect.characters[name], formatting)
            else:
                yield self._single(child, before, f"</{run.name}>")

    def _single(self, node: Node, before: str, after: str) -> _Atom:
        raw, holder = self.holder(node, before, after, self._codes)
        if holder:
            self._holders.append(holder)
        state = ""
        if self._is(node, "fldChar"):
            state = next((v for k, v in node.start.attributes.items() if k.endswith("Type")), "")
        elif self._is(node, "instrText"):
            state = node.text.strip()
        return _Atom("single", raw, field=state, is_holder=holder is not None)

    def _is(self, node: Node, name: str) -> bool:
        return self._local(node.name) == name

    def _text(self, node: Node) -> str:
        text = node.text
        if self._dialect.keeps_space and node.start.attributes.get("xml:space") != "preserve":
            text = text.strip(" \t\n")
        # A newline in the file is a space in the document if it has elements for line breaks.
        for character in self._dialect.characters.values():
            text = text.replace(character, " ")
        return text

    def _formatting(self, run: Node) -> str:
        """Return the formatting of a run without what does not count; empty = none."""
        properties = next((one for one in run.elements if self._is(one, "rPr")), None)
        if properties is None:
            return ""
        ignored = self._dialect.ignored_formatting
        name = properties.name
        attributes = "".join(
            f" {key}={_quoted(value)}"
            for key, value in properties.start.attributes.items()
            if key not in ignored
        )
        inside = "".join(
            self.raw(child)
            for child in properties.elements
            if self._local(child.name) not in ignored
        )
        if not inside:
            return f"<{name}{attributes}/>" if attributes else ""
        return f"<{name}{attributes}>{inside}</{name}>"

    def _content(self, atoms: list[_Atom]) -> tuple[Content, str]:
        """Return the content and the base formatting."""
        texts = [atom for atom in atoms if atom.kind == "text" and atom.raw]
        base = min((atom.formatting for atom in texts), key=lambda one: (len(one), one), default="")
        parts: list[str | Code] = []
        current = base
        pair = 0
        open_pairs: list[int] = []
        waiting: list[Code] = []
        """Codes that are inside the pair only if it goes on after them."""
        close = Code(f"</{self._prefix}rPr>", "close")
        for atom in atoms:
            if atom.kind == "single":
                waiting.append(Code(atom.raw))
                continue
            if atom.kind == "text" and not atom.raw:
                continue
            is_container = atom.kind in ("open", "close")
            if current != base and (is_container or atom.formatting != current):
                parts.append(Code(close.raw, "close", open_pairs.pop()))
                current = base
            parts += waiting
            waiting = []
            if is_container:
                if atom.kind == "open":
                    pair += 1
                    open_pairs.append(pair)
                    parts.append(Code(atom.raw, "open", pair))
                else:
                    parts.append(Code(atom.raw, "close", open_pairs.pop()))
                continue
            if atom.formatting != current:
                pair += 1
                open_pairs.append(pair)
                current = atom.formatting
                parts.append(Code(current or f"<{self._prefix}rPr/>", "open", pair))
            parts.append(atom.raw)
        if current != base:
            parts.append(Code(close.raw, "close", open_pairs.pop()))
        return numbered(merged([*parts, *waiting])), base

    # Writing.

    def markup(self, content: Content, base: str, line: int) -> str:
        """Return the runs of a content."""
        if self._dialect.has_plain_text and not base and len(content) == 1:
            (text,) = content
            if isinstance(text, str):
                return self._text_element(text, line)
        formattings = [base]
        markup: list[str] = []
        tag = f"<{self._prefix}rPr"
        for part in content:
            if isinstance(part, str):
                markup.append(self._run(part, formattings[-1], line))
            elif part.kind == "single":
                markup.append(part.raw)
            elif part.kind == "open" and part.raw.startswith((f"{tag}>", f"{tag}/", f"{tag} ")):
                formattings.append("" if part.raw == f"{tag}/>" else part.raw)
            elif part.raw == f"</{self._prefix}rPr>":
                formattings.pop()
            else:
                markup.append(part.raw)
        return "".join(markup)

    def _run(self, text: str, formatting: str, line: int = 0) -> str:
        """Return text as runs."""
        name = f"{self._prefix}r"
        elements = {character: element for element, character in self._dialect.characters.items()}
        runs: list[str] = []
        for piece in re.split(f"([{''.join(elements)}])", text) if elements else [text]:
            if piece in elements:
                runs.append(f"<{self._prefix}{elements[piece]}/>")
            elif piece:
                runs.append(self._text_element(piece, line))
        if not self._dialect.has_break_runs:
            return f"<{name}>{formatting}{''.join(runs)}</{name}>"
        line_break = f"<{self._prefix}br/>"
        formatted_break = f"<{self._prefix}br>{formatting}</{self._prefix}br>"
        return "".join(
            formatted_break if run == line_break else f"<{name}>{formatting}{run}</{name}>"
            for run in runs
        )

    def _text_element(self, text: str, line: int) -> str:
        name = f"{self._prefix}t"
        space = ' xml:space="preserve"' if self._dialect.keeps_space else ""
        return f"<{name}{space}>{self.file.markup((text,), line)}</{name}>"


def _with_fields(atoms: list[_Atom], run: Callable[[str, str], str]) -> list[_Atom]:
    """Make one code of each field, or a pair of codes around the text of a link."""
    result: list[_Atom] = []
    begins: list[int] = []
    """Where the open fields begin in the result."""
    for atom in atoms:
        result.append(atom)
        if atom.kind in ("open", "close"):
            begins = []  # A field that crosses an element stays in pieces.
        elif atom.field == "begin":
            begins.append(len(result) - 1)
        elif atom.field == "end" and begins:
            begin = begins.pop()
            inner = result[begin:]
            if not any(one.is_holder for one in inner):
                result[begin:] = _field(inner, run)
    return result


def _field(atoms: list[_Atom], run: Callable[[str, str], str]) -> list[_Atom]:
    separate = next((i for i, atom in enumerate(atoms) if atom.field == "separate"), 0)
    instruction = " ".join(atom.field for atom in atoms[1 : separate or None] if atom.field)
    if separate and instruction.upper().startswith("HYPERLINK"):
        opening = "".join(atom.raw for atom in atoms[: separate + 1])
        if all(atom.kind == "single" for atom in atoms[: separate + 1]):
            inside = atoms[separate + 1 : -1]
            return [_Atom("open", opening), *inside, _Atom("close", atoms[-1].raw)]
    raw = "".join(
        run(atom.raw, atom.formatting) if atom.kind == "text" else atom.raw for atom in atoms
    )
    return [_Atom("single", raw)]


def _quoted(value: str) -> str:
    escaped = value.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return f'"{escaped}"'
