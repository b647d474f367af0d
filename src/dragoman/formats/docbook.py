"""XML manuals: DocBook (`.docbook`, `.xml`) and Mallard (`.page`).

A unit is the text between the tags of two block elements, if it contains more than white space: a
paragraph, a title, a cell. A paragraph that contains a list or a footnote is one unit before it and
one after it. Inline elements are pairs of codes; entities and comments are single codes. Program
listings, screens, index terms, names of authors, and elements with `translate="no"` are not units.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from dragoman.errors import DataError
from dragoman.formats.base.document import Document, Target, Unit
from dragoman.formats.base.edits import Edit, apply_edits
from dragoman.formats.base.xml_content import InlineRules, XmlFile, content_of, read_element
from dragoman.formats.base.xml_events import XmlEvent, root_name

_ROOTS = frozenset(
    """appendix article bibliography book chapter colophon dedication glossary index page part
    partintro preface reference refentry refsect1 refsect2 refsect3 refsection sect1 sect2 sect3
    sect4 sect5 section set setindex simplesect topic""".split()  # noqa: SIM905
)
_INLINE = frozenset(
    """abbrev accel acronym action anchor app application biblioref citation citerefentry citetitle
    classname cmd code command computeroutput constant coref database em email emphasis envar
    errorcode errorname errortext errortype exceptionname file filename firstterm foreignphrase
    function glossterm gui guibutton guiicon guilabel guimenu guimenuitem guiseq guisubmenu hardware
    hi initializer inlineequation inlinegraphic input interface interfacename key keycap keycode
    keycombo keyseq keysym lineannotation link literal manvolnum markup mathphrase media medialabel
    menuchoice methodname modifier mousebutton nonterminal olink ooclass ooexception oointerface
    option optional orgname output package parameter personname phrase productname productnumber
    prompt property quote refentrytitle replaceable returnvalue revnumber sgmltag shortcut span
    structfield structname subscript superscript symbol sys systemitem tag termdef token trademark
    type ulink uri userinput var varname wordasword xref""".split()  # noqa: SIM905
)
_OPAQUE = frozenset({"co", "footnoteref", "indexterm", "inlinemediaobject", "remark"})
_SKIPPED = frozenset(
    """address author classsynopsis cmdsynopsis copyright credit date editor funcsynopsis
    literallayout othercredit programlisting pubdate revhistory screen synopsis years""".split()  # noqa: SIM905
)
_RULES = InlineRules(lambda event: event.local_name in _OPAQUE or not _is_translated(event))


class Docbook(Document):
    """A manual in DocBook or Mallard."""

    extensions: ClassVar[tuple[str, ...]] = (".docbook", ".xml", ".page")

    @classmethod
    def accepts(cls, data: bytes) -> bool:
        """Whether the root is an element that a manual can begin with."""
        return root_name(data) in _ROOTS

    def units(self) -> Iterator[Unit]:
        """Yield the texts between block elements."""
        file = XmlFile(self.data, self.name)
        for number, (block, run) in enumerate(_read_runs(file), 1):
            yield Unit(
                key=f"{block}#{number}",
                source=content_of(run, file.raw, _RULES),
                line=run[0].line,
                collapses_space=True,
            )

    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the file with the targets."""
        return apply_edits(self.data, self._edits(targets))

    def _edits(self, targets: Iterable[Target | None]) -> Iterator[Edit]:
        file = XmlFile(self.data, self.name)
        for (_, run), target in zip(_read_runs(file), targets, strict=True):
            if target is None:
                continue
            line = run[0].line
            markup = file.markup(target.content, line)
            if markup != file.markup(content_of(run, file.raw, _RULES), line):
                yield Edit(run[0].start, run[-1].end, file.encode(markup))


def _read_runs(file: XmlFile) -> Iterator[tuple[str, list[XmlEvent]]]:
    """Yield the events between block elements, with the name of the block around them."""
    reader = _RunReader(file)
    for run in reader.runs():
        if _has_text(run):
            yield reader.block, run


class _RunReader:
    """Collects the events between block elements."""

    def __init__(self, file: XmlFile) -> None:
        self._file = file
        self._events = file.events()
        self._blocks: list[str] = []
        self._run: list[XmlEvent] = []
        self._inlines: list[int] = []
        """Of the open inline elements: the indexes of their start tags in the run."""

    @property
    def block(self) -> str:
        """The name of the block element around the run."""
        return self._blocks[-1]

    def runs(self) -> Iterator[list[XmlEvent]]:
        """Yield the runs; `block` is valid until the next one."""
        for event in self._events:
            if not self._blocks:
                if event.kind in ("start", "empty"):
                    _check_root(event, self._file.name)
                    self._blocks.append(event.local_name)
            elif self._is_inline(event):
                self._add(event)
            else:
                # An inline element around a block is itself a block.
                begin = 0
                for index in self._inlines:
                    yield self._run[begin:index]
                    self._blocks.append(self._run[index].local_name)
                    begin = index + 1
                yield self._run[begin:]
                self._run, self._inlines = [], []
                self._enter(event)

    def _is_inline(self, event: XmlEvent) -> bool:
        if event.kind == "end":
            return bool(self._inlines)
        is_tag = event.kind in ("start", "empty")
        return not is_tag or event.local_name in _INLINE or event.local_name in _OPAQUE

    def _add(self, event: XmlEvent) -> None:
        if event.kind == "end":
            self._inlines.pop()
        elif event.kind == "start" and _RULES.is_opaque(event):
            element = read_element(event, self._events)
            self._run += [event, *element.inside, element.end]
            return
        elif event.kind == "start":
            self._inlines.append(len(self._run))
        self._run.append(event)

    def _enter(self, event: XmlEvent) -> None:
        if event.kind == "end":
            self._blocks.pop()
        elif event.local_name in _SKIPPED or not _is_translated(event):
            read_element(event, self._events)
        elif event.kind == "start":
            self._blocks.append(event.local_name)


def _has_text(run: list[XmlEvent]) -> bool:
    depth = 0
    for event in run:
        if depth == 0 and event.kind == "text" and not event.text.isspace():
            return True
        # The text of an opaque element cannot be translated.
        if event.kind == "start" and (depth or _RULES.is_opaque(event)):
            depth += 1
        elif event.kind == "end" and depth:
            depth -= 1
    return False


def _is_translated(event: XmlEvent) -> bool:
    attributes = event.attributes
    return "no" not in (attributes.get("translate"), attributes.get("its:translate"))


def _check_root(event: XmlEvent, name: str) -> None:
    if event.local_name not in _ROOTS:
        raise DataError(
            f"{name} begins with <{event.name[:50]}> in line {event.line:,}, expected an element "
            "such as <book>, <article> or <page>: it is not a DocBook or Mallard file"
        )
