"""Splits a unit into segments: the sentences that a model translates one by one.

The segments and the gaps between them join to exactly the unit. Inline codes and spans count as
single characters while sentences are found, so that the dots of a URL do not end a sentence.
A pair of tags around a whole segment, and codes at its ends, stay outside: the model does not see
them.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.documents.guarding import Guarded, Item, free_text, has_words, items_of
from dragoman.formats.base.document import Code
from dragoman.text import sentences
from dragoman.text.sentences import Piece

_FIRST_MARK = 0xF0000
"""A private-use character stands for an item; such characters in the text are items themselves."""
_LAST_MARK = 0xFFFFD
# Also tabs: a model does not keep them, and they separate columns (`Open\tCtrl+O`).
_BREAK = r"\t\n\v\f\r\x85\u2028\u2029"
_BREAKS = re.compile(rf"(?<!\s)([^\S{_BREAK}]*+[{_BREAK}]\s*+)")
"""White space with a break. It begins after another character, so that time stays linear."""
_HAS_BREAK = re.compile(f"[{_BREAK}]")
# Not `\s`: a no-break space stays.
_SPACE = re.compile(r"[ \t\n\f\r]+")


@dataclass(frozen=True, slots=True)
class Segment:
    """A sentence with what surrounds it."""

    leading: Guarded
    """Copied before the translation: space and codes."""
    body: Guarded
    """What is translated; empty if there is nothing to translate."""
    trailing: Guarded


def split_segments(
    guarded: Guarded,
    language: str,
    *,
    collapses_space: bool,
    splits_sentences: bool = True,
    max_characters: int = 0,
    keeps_words: bool = False,
) -> list[Segment]:
    """Split the content of a unit into segments; they join to exactly this content.

    With `collapses_space`, white space inside a block becomes one space first. Without
    `splits_sentences`, a block is one segment. A segment with more than `max_characters`
    characters is split further; 0 = no limit. With `keeps_words`, a code that stands for a word
    stays in its segment, also at an end.
    """
    items = [part for part in guarded if isinstance(part, Item)]
    if len(items) > _LAST_MARK - _FIRST_MARK:
        return [Segment(guarded, (), ())]
    marks = iter(range(_FIRST_MARK, _LAST_MARK))
    text = "".join(part if isinstance(part, str) else chr(next(marks)) for part in guarded)

    def unmarked(marked: str) -> Guarded:
        return tuple(_unmark(marked, items))

    segments: list[Segment] = []
    has_breaks = not collapses_space and _HAS_BREAK.search(text) is not None
    blocks = _BREAKS.split(text) if has_breaks else [text]
    for block in blocks:
        body = block.strip()
        if not body:
            segments.append(Segment(unmarked(block), (), ()))
            continue
        leading = block[: len(block) - len(block.lstrip())]
        trailing = block[len(block.rstrip()) :]
        body = _SPACE.sub(" ", body) if collapses_space else body
        pieces = sentences.split(body, language) if splits_sentences else [Piece(body, "")]
        if max_characters:
            pieces = [part for piece in pieces for part in _fit(piece, language, max_characters)]
        pieces = _with_closing_codes(pieces, items)
        for number, piece in enumerate(pieces):
            gap = piece.gap + (trailing if number == len(pieces) - 1 else "")
            segment = _trim(unmarked(piece.text), keeps_words=keeps_words)
            start = (leading,) if leading and number == 0 else ()
            end = (gap,) if gap else ()
            segments.append(
                Segment((*start, *segment.leading), segment.body, (*segment.trailing, *end))
            )
    return segments


def _fit(piece: Piece, language: str, max_characters: int) -> list[Piece]:
    """Split a sentence that is too long."""
    if len(piece.text) <= max_characters:
        return [piece]
    parts = sentences.fit(
        piece.text, language, lambda texts: [len(text) for text in texts], max_characters
    )
    return [*parts[:-1], Piece(parts[-1].text, parts[-1].gap + piece.gap)]


def _unmark(marked: str, items: list[Item]) -> Iterator[str | Item]:
    if not items:
        if marked:
            yield marked
        return
    start = 0
    for position, character in enumerate(marked):
        if _FIRST_MARK <= ord(character) < _FIRST_MARK + len(items):
            if position > start:
                yield marked[start:position]
            yield items[ord(character) - _FIRST_MARK]
            start = position + 1
    if start < len(marked):
        yield marked[start:]


def _with_closing_codes(pieces: list[Piece], items: list[Item]) -> list[Piece]:
    """Move closing and single items at the start of a sentence to the end of the one before."""
    result: list[Piece] = []
    for piece in pieces:
        text = piece.text
        if result and not result[-1].gap:
            count = 0
            while count < len(text) and _is_closing(text[count], items):
                count += 1
            result[-1] = Piece(result[-1].text + text[:count], "" if text[count:] else piece.gap)
            text = text[count:]
        if text:
            result.append(Piece(text, piece.gap))
    return result


def _is_closing(character: str, items: list[Item]) -> bool:
    number = ord(character) - _FIRST_MARK
    return 0 <= number < len(items) and items[number].kind != "open"


def _trim(body: Guarded, *, keeps_words: bool) -> Segment:
    """Move codes at the ends, and pairs around the whole segment, out of the body.

    A tag at an end whose partner is in another segment also stays outside.
    """
    if not has_words(body):
        return Segment(body, (), ())
    if len(body) == 1 and body[0] == free_text(body).strip():
        return Segment((), body, ())
    leading: list[str | Item] = []
    trailing: list[str | Item] = []  # From the end to the start.
    parts = deque(body)
    counts = Counter(item.pair for item in items_of(body))
    while parts:
        first, last = parts[0], parts[-1]
        if _is_space(first) or _is_edge_code(first, counts, keeps_words):
            leading.append(parts.popleft())
            counts.subtract(item.pair for item in items_of((first,)))
        elif _is_space(last) or _is_edge_code(last, counts, keeps_words):
            trailing.append(parts.pop())
            counts.subtract(item.pair for item in items_of((last,)))
        elif _are_partners(first, last):
            leading.append(parts.popleft())
            trailing.append(parts.pop())
        else:
            break
    first_text = parts[0]
    if isinstance(first_text, str) and first_text[0].isspace():
        stripped = first_text.lstrip()
        leading.append(first_text[: len(first_text) - len(stripped)])
        parts[0] = stripped
    last_text = parts[-1]
    if isinstance(last_text, str) and last_text[-1].isspace():
        stripped = last_text.rstrip()
        trailing.append(last_text[len(stripped) :])
        parts[-1] = stripped
    return Segment(tuple(leading), tuple(parts), tuple(reversed(trailing)))


def _is_space(part: str | Item) -> bool:
    return isinstance(part, str) and part.isspace()


def _is_edge_code(part: str | Item, counts: Counter[int], keeps_words: bool) -> bool:
    """Whether an item stays outside; `counts` has the items that remain, by their pair."""
    if not isinstance(part, Item):
        return False
    if part.kind != "single":
        return counts[part.pair] == 1
    return isinstance(part.content, Code) and not (keeps_words and _is_word(part))


def _is_word(item: Item) -> bool:
    return isinstance(item.content, Code) and item.content.is_word


def _are_partners(first: str | Item, last: str | Item) -> bool:
    if not (isinstance(first, Item) and isinstance(last, Item)):
        return False
    return first.kind == "open" and last.kind == "close" and first.pair == last.pair
