"""Reads and writes documents in the tests of formats, and checks what every format promises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dragoman.formats.base.document import (
    Code,
    Content,
    Document,
    Target,
    Unit,
    merged,
    numbered,
    plain_text,
)

HOSTILE_TEXTS = (
    "</p>",
    "<b>bold</b> & <script>alert(1)</script>",
    "]]> --> &amp; &lt; &#65; &copy &notin",
    "\" ' ` \\ \\n %s {0} ${x}",
    "# *not* _a_ **heading** `code` [link](x) ![i](y) <http://x.y> ~~s~~ | cell |",
    "- item",
    "1. item",
    "> quote",
    "=== --- ***",
    "two\nlines",
    " spaces around ",
    "naïve 日本語 😀 \u00a0 \u200b שלום",
    "a\tb",
)


def written(document: Document, targets: Sequence[Target | None]) -> bytes:
    """Return the document with these targets."""
    return b"".join(document.write(targets))


def changed(content: Content, change: Callable[[str], str]) -> Content:
    """Change the texts and keep the codes."""
    return merged(part if isinstance(part, Code) else change(part) for part in content)


def translate(
    cls: type[Document],
    data: bytes,
    change: Callable[[str], str],
    *,
    needs_review: bool = True,
    target_language: str = "",
) -> bytes:
    """Write a changed text into every unit."""
    document = cls(data, "document", "en", target_language)
    units = document.units()
    return written(document, [Target(changed(unit.source, change), needs_review) for unit in units])


def write_one(cls: type[Document], data: bytes, content: Content, number: int = 0) -> bytes:
    """Write one unit and leave the others as they are."""
    document = cls(data, "document")
    targets: list[Target | None] = [None for _ in document.units()]
    targets[number] = Target(content)
    return written(document, targets)


def sources(cls: type[Document], data: bytes) -> list[Content]:
    """Return the source of every unit."""
    return [unit.source for unit in cls(data, "document").units()]


def contents(document: Document) -> list[Content]:
    """Return the current contents: of monolingual formats the source, else the target."""
    return [_current(unit) for unit in document.units()]


def _current(unit: Unit) -> Content:
    return unit.source if unit.target is None else unit.target


def check_round_trip(cls: type[Document], data: bytes, name: str) -> list[Unit]:
    """Nothing to write, or the same to write, changes no byte."""
    units = list(cls(data, name).units())
    assert written(cls(data, name), [None] * len(units)) == data
    same = [Target(_current(unit)) for unit in units]
    assert written(cls(data, name, "en", "de"), same) == data
    return units


def check_written(
    cls: type[Document], data: bytes, name: str, change: Callable[[int, Content], Content | None]
) -> bytes:
    """What is written is read again, and the other units stay."""
    before = contents(cls(data, name))
    wanted = [change(number, content) for number, content in enumerate(before)]
    targets = [None if content is None else Target(content) for content in wanted]
    output = written(cls(data, name, "en", "de"), targets)
    expected = [
        old if new is None else numbered(merged(new))
        for old, new in zip(before, wanted, strict=True)
    ]
    assert [numbered(content) for content in contents(cls(output, name))] == expected
    return output


def upper_case(number: int, content: Content) -> Content:
    """Write all texts in upper case."""
    return changed(content, str.upper)


def hostile(number: int, content: Content) -> Content:
    """Replace all texts with texts that look like markup."""
    count = len(HOSTILE_TEXTS)
    return merged(
        part if isinstance(part, Code) else HOSTILE_TEXTS[(number + index) % count]
        for index, part in enumerate(content)
    )


def every_second(number: int, content: Content) -> Content | None:
    """Change every second unit."""
    return upper_case(number, content) if number % 2 else None


def rotated(number: int, content: Content) -> Content:
    """Move the codes, keeping them nested: the first part that is balanced goes to the end."""
    depth = 0
    for index, part in enumerate(content):
        if isinstance(part, Code) and part.kind != "single":
            depth += 1 if part.kind == "open" else -1
        if depth == 0:
            return merged((*content[index + 1 :], *content[: index + 1]))
    return content


def shown(units: Iterable[Unit]) -> list[str]:
    """Return the contents in a readable form: `one [<b>]two[</b>]`."""
    return [
        "".join(part if isinstance(part, str) else f"[{part.raw}]" for part in _current(unit))
        for unit in units
    ]


def has_text(content: Content) -> bool:
    """Return whether a content is more than whitespace and codes."""
    return plain_text(content).strip() != ""
