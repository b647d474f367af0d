"""Separates what is translated from what must not change, and verifies the result.

A content becomes a sequence of free text and items. An item is an inline code of the format or a
protected span of the text (`%s`, a URL, a tag). The verification reads the finished translation
with the same span finder and compares it with the source. It does not trust the model or the
method that placed the items: a translation that loses, repeats, changes or invents an item, or
that breaks the nesting of tags or leaves a pair of tags without a word, is found.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dragoman.formats.base.document import Code, CodeKind, Content, merged
from dragoman.text.spans import Pattern, Span, find_spans


@dataclass(frozen=True, slots=True)
class Item:
    """Something that is carried through a translation unchanged."""

    content: str | Code
    """What is written into the translation."""
    kind: CodeKind = "single"
    pair: int = 0
    """An opening item and its closing item have the same number; 0 = single."""
    is_term: bool = False
    """Whether it is the translation of a term, and not a part of the source."""
    is_message: bool = False
    """Whether it has words inside that nobody translates: an ICU message with branches."""


Guarded = tuple[str | Item, ...]
"""Free text and the items between it."""

_BREAKS = re.compile(r"(?<=\S)[\t-\r\x85\u2028\u2029]+(?=\S)")
"""Tabs and line breaks between words."""
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
"""Control characters, line separators, half characters."""

MARK = "\ufffc"
"""Stands for an item (object replacement character)."""


def guard(content: Content, patterns: Sequence[Pattern] = ()) -> Guarded:
    """Find the items of a content; `patterns` are the user's own protected spans."""
    parts: list[str | Item] = []
    tags: dict[int, str] = {}
    for part in content:
        if isinstance(part, Code):
            parts.append(Item(part, part.kind, part.pair))
            continue
        spans = find_spans(part, patterns)
        if not spans and len(content) == 1:  # Most texts: nothing to guard.
            return (part,) if part else ()
        position = 0
        for span in spans:
            parts.append(part[position : span.start])
            if span.kind in ("tag_open", "tag_close"):
                tags[len(parts)] = _tag_name(span.text)
            parts.append(_item(span))
            position = span.end
        parts.append(part[position:])
    if tags:
        _pair_tags(parts, tags)
    return tuple(part for part in parts if part != "")


def _tag_name(tag: str) -> str:
    return tag.strip("</>").split()[0].lower()


def _item(span: Span) -> Item:
    kinds: dict[str, CodeKind] = {"tag_open": "open", "tag_close": "close"}
    is_message = span.kind == "message" and any(mark in span.text[2:] for mark in "{|")
    return Item(span.text, kinds.get(span.kind, "single"), is_message=is_message)


def _pair_tags(parts: list[str | Item], tags: dict[int, str]) -> None:
    """Number the tags in the text that belong together; a tag without a partner is single.

    Two tags are no pair if only one of them is inside of a pair of codes: the pairs would cross.
    """
    number = max((part.pair for part in parts if isinstance(part, Item)), default=0)
    levels: list[tuple[int, list[tuple[str, int]]]] = [(0, [])]
    """The pairs of codes that are open, with the names and positions of the open tags in each."""
    for position, item in enumerate(parts):
        if not isinstance(item, Item):
            continue
        name = tags.get(position)
        if name is None:
            if item.kind == "open":
                levels.append((item.pair, []))
            elif item.kind == "close" and len(levels) > 1 and levels[-1][0] == item.pair:
                levels.pop()
            continue
        parts[position] = replace(item, kind="single")
        open_tags = levels[-1][1]
        if item.kind == "open":
            open_tags.append((name, position))
            continue
        while open_tags:
            open_name, open_position = open_tags.pop()
            opener = parts[open_position]
            if open_name == name and isinstance(opener, Item):
                number += 1
                parts[open_position] = replace(opener, kind="open", pair=number)
                parts[position] = replace(item, pair=number)
                break


def items_of(guarded: Guarded) -> list[Item]:
    """Return the items in order."""
    return [part for part in guarded if isinstance(part, Item)]


def free_text(guarded: Guarded) -> str:
    """Return the text without the items."""
    if len(guarded) == 1 and isinstance(guarded[0], str):
        return guarded[0]
    return "".join(part for part in guarded if isinstance(part, str))


def marked_text(guarded: Guarded) -> str:
    """Return the text with a mark for each item."""
    if len(guarded) == 1 and isinstance(guarded[0], str):
        return guarded[0]
    return "".join(part if isinstance(part, str) else MARK for part in guarded)


def has_words(guarded: Guarded) -> bool:
    """Whether there is anything to translate: a letter outside of the items."""
    return any(character.isalpha() for character in free_text(guarded))


def has_message(guarded: Guarded) -> bool:
    """Whether there are words that are not translated, in an ICU message."""
    return any(item.is_message for item in items_of(guarded))


def clean_text(text: str) -> str:
    """Replace or remove characters that a model may write and a format may forbid."""
    return text if text.isprintable() else _FORBIDDEN.sub("", _BREAKS.sub(" ", text))


def cleaned(guarded: Guarded) -> Guarded:
    """Replace or remove the same characters in the free text."""
    return tuple(clean_text(part) if isinstance(part, str) else part for part in guarded)


def to_content(guarded: Guarded) -> Content:
    """Return the content to write."""
    if len(guarded) == 1 and isinstance(guarded[0], str) and guarded[0]:
        return (guarded[0],)
    return merged(part.content if isinstance(part, Item) else part for part in guarded)


def is_nested(guarded: Guarded) -> bool:
    """Whether every pair is closed after it is opened, and pairs do not cross."""
    open_pairs: list[int] = []
    for item in items_of(guarded):
        if item.kind == "open":
            open_pairs.append(item.pair)
        elif item.kind == "close" and (not open_pairs or open_pairs.pop() != item.pair):
            return False
    return not open_pairs


def check(source: Content, target: Content, patterns: Sequence[Pattern] = ()) -> str:
    """Compare the items of a translation with those of its source; return what is wrong, or ''."""
    expected, actual = guard(source, patterns), guard(target, patterns)
    has_items = items_of(expected) or items_of(actual)
    return _difference(expected, actual) if has_items else ""


def _difference(expected: Guarded, actual: Guarded) -> str:
    wanted, written = _counts(expected), _counts(actual)
    problems = (
        ("missing", bool(wanted - written)),
        ("unexpected", bool(written - wanted)),
        ("not nested", is_nested(expected) and not is_nested(actual)),
        ("empty pair", bool(_enclosing(expected) - _enclosing(actual))),
        ("break at an end", _has_outer_break(actual) and not _has_outer_break(expected)),
        ("joined code", _has_joined_code(actual) and not _has_joined_code(expected)),
    )
    return next((problem for problem, is_wrong in problems if is_wrong), "")


def _has_outer_break(guarded: Guarded) -> bool:
    """Whether a text begins or ends with a code that is a line break of the file (Markdown)."""
    parts = [
        part
        for part in guarded
        if (part.kind == "single" if isinstance(part, Item) else not part.isspace())
    ]
    edges = [part.content for part in (*parts[:1], *parts[-1:]) if isinstance(part, Item)]
    return any(isinstance(code, Code) and code.raw.endswith("\n") for code in edges)


def _has_joined_code(guarded: Guarded) -> bool:
    """Whether two codes would be read as one: `a``b` (Markdown)."""
    return any(
        isinstance(first, Item)
        and isinstance(second, Item)
        and isinstance(first.content, Code)
        and isinstance(second.content, Code)
        and first.content.raw.endswith("`")
        and second.content.raw.startswith("`")
        for first, second in itertools.pairwise(guarded)
    )


def _enclosing(guarded: Guarded) -> Counter[str | Code]:
    """Count the opening items of pairs with a letter inside."""
    pairs: Counter[str | Code] = Counter()
    open_items: dict[int, Item] = {}
    for part in guarded:
        if isinstance(part, str):
            if any(map(str.isalpha, part)):
                pairs.update(item.content for item in open_items.values())
                open_items.clear()
        elif part.kind == "open":
            open_items[part.pair] = part
        elif part.kind == "close":
            open_items.pop(part.pair, None)
    return pairs


def _counts(guarded: Guarded) -> Counter[tuple[str | Code, CodeKind]]:
    return Counter((item.content, item.kind) for item in items_of(guarded))
