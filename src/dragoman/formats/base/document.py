"""The interface of a document format: units of text in, translations out, nothing else changed.

A document is parsed into units. A unit is one text to translate: a message, a paragraph, a cell.
Its content is a sequence of text and inline codes. A code is markup of the format inside the text
(`<b>`, an XLIFF `<ph/>`): it is copied to the output exactly as it was, and only its position can
change. Writing replaces the places of the units in the file and copies everything else, byte for
byte. There is no policy here: what is translated, and how, is decided by the caller.

One file in `formats/` per format. Each has one subclass of `Document`, which the tests find.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

CodeKind = Literal["open", "close", "single"]

State = Literal["untranslated", "needs_review", "translated", "locked"]
"""`needs_review`: translated by a machine or marked as uncertain; `locked`: must not be changed."""


@dataclass(frozen=True, slots=True)
class Code:
    """Inline markup inside a text."""

    raw: str
    """The characters of the file; they are written without escaping."""
    kind: CodeKind = "single"
    pair: int = 0
    """An opening code and its closing code have the same number, unique in the unit; 0 = single."""
    is_word: bool = False
    """Whether a single code stands for a word of the sentence, as a placeholder does."""


Content = tuple[str | Code, ...]
"""Text without the escapes of the format, and the codes between it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One text to translate."""

    key: str
    """Identifies the unit in its document: a name, a path or a number."""
    source: Content
    line: int
    """The line of the file in which the unit begins, from 1."""
    target: Content | None = None
    """The existing translation, in formats that contain both languages."""
    state: State = "untranslated"
    context: str = ""
    """Distinguishes equal texts (`msgctxt`)."""
    note: str = ""
    """A comment for translators."""
    collapses_space: bool = False
    """Whether a newline is the same as a space (HTML); otherwise it is a line break."""


@dataclass(frozen=True, slots=True)
class Target:
    """A translation to write."""

    content: Content
    needs_review: bool = True
    """Machine translations are marked in formats that can mark them (`fuzzy` in PO)."""


class Document(ABC):
    """A file in one format, as bytes: `Document(data, name, source_language, target_language)`.

    `units` and `write` parse the file anew and stream, so that a large file needs little memory.
    """

    extensions: ClassVar[tuple[str, ...]]
    """The file extensions of the format: `.po`."""
    is_bilingual: ClassVar[bool] = False
    """Whether a file contains both languages; otherwise a translation replaces the source."""
    language_place: ClassVar[str] = ""
    """Where a file names its languages, for error messages; empty = nowhere."""
    review_mark: ClassVar[str] = ""
    """How a machine translation is marked, for the table of formats; empty = not possible."""

    def __init__(
        self, data: bytes, name: str, source_language: str = "", target_language: str = ""
    ) -> None:
        self.data = data
        self.name = name
        """The path of the file, for error messages."""
        self.source_language = source_language
        self.target_language = target_language

    @classmethod
    def accepts(cls, data: bytes) -> bool:
        """Whether a file with the right extension is in this format (`.xml` has many formats)."""
        return True

    def stated_languages(self) -> tuple[str, str]:
        """Return the source and the target language that the file names; empty = it names none."""
        return "", ""

    @abstractmethod
    def units(self) -> Iterator[Unit]:
        """Yield the units in the order of the file; raise a `DataError` with name and line."""

    @abstractmethod
    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the bytes of the translated file.

        `targets` has one entry per unit, in order; None leaves the unit as it is. A target that is
        equal to the content in the file changes a byte only if its review mark differs. Another
        number of targets than units is a `ValueError`.
        """


def next_target(targets: Iterator[Target | None]) -> Target | None:
    """Take the target of the next unit."""
    try:
        return next(targets)
    except StopIteration:
        raise ValueError("fewer targets than units") from None


def plain_text(content: Content) -> str:
    """Return the text without the codes."""
    return "".join(part for part in content if isinstance(part, str))


def merged(parts: Iterable[str | Code]) -> Content:
    """Join neighboring texts and drop empty ones, so that equal contents compare equal."""
    content: list[str | Code] = []
    for part in parts:
        if isinstance(part, str) and content and isinstance(content[-1], str):
            content[-1] += part
        elif part != "":
            content.append(part)
    return tuple(content)


def numbered(content: Content) -> Content:
    """Number the pairs of codes from 1, in the order of their opening codes."""
    numbers: dict[int, int] = {0: 0}
    return tuple(
        replace(part, pair=numbers.setdefault(part.pair, len(numbers)))
        if isinstance(part, Code)
        else part
        for part in content
    )
