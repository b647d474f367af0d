"""Puts items back into a translation: by their tokens, or by the alignment of words.

A model with span tokens writes each token where its item belongs. For other models the items are
taken out before translation, and the alignment (which source token each target token attends to)
says where they go: a pair of tags encloses the target words that belong to the source words inside
it; a single item follows the target word of the source word before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.documents.guarding import Guarded, Item, items_of
from dragoman.inference.joining import Translation
from dragoman.tokenizer.interface import SPAN_TOKENS

_SPAN_TOKEN = re.compile(f"([{''.join(SPAN_TOKENS)}])")
_SPACE_MARK = "▁"
_CLOSING_PUNCTUATION = tuple(".,;:!?)]…")
_MAX_PLACED = 500
"""More items in one segment are not placed by alignment: the time grows with items times words."""


def with_tokens(body: Guarded) -> str | None:
    """Return the text with a span token for each item; None if there are too many items."""
    if len(items_of(body)) > len(SPAN_TOKENS):
        return None
    tokens = iter(SPAN_TOKENS)
    return "".join(part if isinstance(part, str) else next(tokens) for part in body)


def from_tokens(text: str, items: Sequence[Item]) -> Guarded | None:
    """Replace the tokens by their items; None if one is missing, repeated or unknown."""
    numbers: list[int] = []
    parts: list[str | Item] = []
    for part in _SPAN_TOKEN.split(text):
        if part in SPAN_TOKENS:
            number = SPAN_TOKENS.index(part)
            if number >= len(items):
                return None
            numbers.append(number)
            parts.append(items[number])
        elif part:
            parts.append(part)
    if sorted(numbers) != list(range(len(items))):
        return None
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class Removed:
    """An item that was taken out of the text."""

    position: int
    """Where it was in the text without items."""
    item: Item
    has_space_before: bool
    has_space_after: bool
    is_separator: bool = False
    """Whether it stood between two words without a space: a line break."""
    is_prefix: bool = False
    """Whether it stood directly before something else, after a space."""


def without_items(body: Guarded, *, keeps_spans: bool) -> tuple[str, list[Removed]]:
    """Return the text without items, and the items with their positions in this text.

    `keeps_spans` leaves protected spans in the text (the model may copy them) and takes out only
    the codes of the format.
    """
    text = ""
    removed: list[Removed] = []
    for number, part in enumerate(body):
        if isinstance(part, str):
            # Where an item stood between two spaces, one space is left.
            text += part.lstrip(" ") if not text or text.endswith(" ") else part
        elif keeps_spans and isinstance(part.content, str):
            text += part.content
        else:
            following = body[number + 1] if number + 1 < len(body) else ""
            next_character = following[:1] if isinstance(following, str) else ""
            is_separator = (
                part.kind == "single" and text[-1:].isalnum() and next_character.isalnum()
            )
            spaces = text.endswith(" "), next_character == " "
            is_closing = part.kind == "single" and next_character in _CLOSING_PUNCTUATION
            if is_closing and text.rstrip(" ")[-1:].isalnum():
                text = text.rstrip(" ")  # `Hello %s, …` is read as `Hello, …`.
            is_prefix = part.kind == "single" and (spaces[0] or not text)
            is_prefix = is_prefix and next_character not in ("", " ", *_CLOSING_PUNCTUATION)
            removed.append(Removed(len(text), part, *spaces, is_separator, is_prefix))
            text += " " if is_separator else ""
    return text.rstrip(" "), removed


def place_items(
    source: str, removed: Sequence[Removed], translation: Translation
) -> Guarded | None:
    """Insert removed items by alignment; None if the alignment or the tokens do not allow it."""
    target = translation.text
    if not removed:
        return (target,) if target else ()
    if len(removed) > _MAX_PLACED:
        return None
    words = _AlignedWords.read(source, translation)
    if words is None:
        return None
    positions: dict[int, list[int]] = {}
    for entry in removed:
        positions.setdefault(entry.item.pair, []).append(entry.position)
    insertions: list[tuple[int, int]] = []
    for number, entry in enumerate(removed):
        pair = positions[entry.item.pair] if entry.item.pair else []
        inside = words.target_range(*pair) if len(pair) == 2 else None
        # The partner of this tag is in another sentence.
        is_lone_opening = entry.item.kind == "open" and not entry.has_space_after
        if inside is not None:
            offset = inside[entry.item.kind == "close"]
        elif entry.is_prefix or is_lone_opening:
            offset = words.offset_before(entry.position)
        else:
            offset = words.offset_after(entry.position)
        insertions.append((offset, number))
    return _insert(target, sorted(insertions), removed)


def encloses_all(guarded: Guarded) -> bool:
    """Whether a pair of tags encloses all words of a text."""
    parts = [part for part in guarded if isinstance(part, Item) or any(map(str.isalnum, part))]
    if not parts:
        return False
    first, last = parts[0], parts[-1]
    if not (isinstance(first, Item) and isinstance(last, Item)):
        return False
    return first.kind == "open" and last.kind == "close" and first.pair == last.pair


def _insert(
    target: str, insertions: Sequence[tuple[int, int]], removed: Sequence[Removed]
) -> Guarded:
    parts: list[str | Item] = []
    start = 0
    for offset, number in insertions:
        entry = removed[number]
        text = target[start:offset]
        is_single = entry.item.kind == "single"
        before = text or ("" if not parts else "x" if isinstance(parts[-1], Item) else parts[-1])
        if is_single and entry.has_space_before and before and not before.endswith(" "):
            text += " "
        if text:
            parts.append(text)
        parts.append(entry.item)
        after = target[offset : offset + 1]
        start = max(start, offset + (entry.is_separator and after == " "))
        if is_single and entry.has_space_after and after.isalnum():
            parts.append(" ")
    if start < len(target):
        parts.append(target[start:])
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class _AlignedWords:
    """The words of a sentence and of its translation, and which belong together."""

    source: str
    target: str
    source_spans: list[tuple[int, int]]
    target_spans: list[tuple[int, int]]
    links: dict[int, list[int]]
    """Target words of each source word."""

    @classmethod
    def read(cls, source: str, translation: Translation) -> _AlignedWords | None:
        source_words = _token_words(source, translation.source_tokens)
        target_words = _token_words(translation.text, translation.tokens)
        if source_words is None or target_words is None or not translation.alignment:
            return None
        links: dict[int, list[int]] = {}
        for source_token, target_token in translation.alignment:
            if source_token < len(source_words) and target_token < len(target_words):
                links.setdefault(source_words[source_token], []).append(target_words[target_token])
        target = translation.text
        return cls(source, target, _word_spans(source), _word_spans(target), links)

    def target_range(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the range of the target that belongs to a range of the source."""
        targets = [
            target
            for word, (first, last) in enumerate(self.source_spans)
            if first < end and last > start
            for target in self.links.get(word, ())
        ]
        if not targets:
            return None
        first, last = self.target_spans[min(targets)][0], self.target_spans[max(targets)][1]
        # Punctuation outside of the source range stays outside.
        while last > first and end > 0 and self._is_outside(self.source[end - 1 : end], last - 1):
            last -= 1
        while first < last and self._is_outside(self.source[start : start + 1], first):
            first += 1
        return (first, last) if first < last else None

    def _is_outside(self, edge: str, position: int) -> bool:
        return edge.isalnum() and not self.target[position].isalnum()

    def offset_after(self, position: int) -> int:
        """Return the end of the target word that belongs to the nearest source word before."""
        word = sum(first < position for first, _ in self.source_spans) - 1
        inside = self._offset_inside(word, position) if word >= 0 else None
        if inside is not None:
            return inside
        while word >= 0:
            targets = self.links.get(word)
            if targets:
                offset = self.target_spans[max(targets)][1]
                is_inside = word + 1 < len(self.source_spans) or position < len(self.source)
                edge = self.source[:position].rstrip()[-1:]
                while is_inside and offset > 0 and self._is_outside(edge, offset - 1):
                    offset -= 1
                return offset
            word -= 1
        return 0

    def _offset_inside(self, word: int, position: int) -> int | None:
        """Return the position inside a word that is the same in the target: `()`."""
        first, last = self.source_spans[word]
        for number in self.links.get(word, ()) if position < last else ():
            start, end = self.target_spans[number]
            if self.source[first:last] == self.target[start:end]:
                return start + position - first
        return None

    def offset_before(self, position: int) -> int:
        """Return the start of the target word that belongs to the source word at a position."""
        word = sum(first < position for first, _ in self.source_spans)
        targets = self.links.get(word)
        if not targets:
            return self.offset_after(position)
        first, last = self.target_spans[min(targets)]
        while first < last and self._is_outside(self.source[position : position + 1], first):
            first += 1
        return first


def _word_spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\S+", text)]


def _token_words(text: str, tokens: Sequence[str]) -> list[int] | None:
    """Return the word of the text that each token belongs to; None if they do not fit."""
    words: list[int] = []
    word = -1
    for token in tokens:
        if token.startswith(_SPACE_MARK) or word < 0:
            word += 1
        words.append(word)
    return words if tokens and word + 1 == len(text.split()) else None
