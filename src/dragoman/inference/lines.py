"""Lines of text before and after translation: blocks, surrounding space, and joined pieces."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dragoman.errors import DataError
from dragoman.text.sentences import Piece
from dragoman.tokenizer.interface import RESERVED_TOKENS

_LINE_BREAKS = frozenset("\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029")
"""The characters at which `str.splitlines` splits."""
_NEEDS_SOURCE = _LINE_BREAKS.union(RESERVED_TOKENS)
"""A model may write these characters only if the source contains them."""
BLOCK_LINES = 512
"""Maximum lines per block."""
BLOCK_CHARACTERS = 100_000
"""A block ends when it has this many characters: lines may be long."""


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line of the input, its number (from 1), and the prefix of its translation."""

    number: int
    text: str
    prefix: str


@dataclass(frozen=True, slots=True)
class SplitLine:
    """A line as it is translated: surrounding space, and one piece or several."""

    leading: str
    pieces: tuple[Piece, ...]
    trailing: str


def blocks(lines: Iterable[str], prefixes: Iterable[str]) -> Iterator[list[NumberedLine]]:
    """Group lines into blocks that are large enough to keep an engine busy."""
    block: list[NumberedLine] = []
    characters = 0
    padded = itertools.chain(prefixes, itertools.repeat(""))
    for number, (text, prefix) in enumerate(zip(lines, padded, strict=False), start=1):
        block.append(NumberedLine(number, text, prefix))
        characters += len(text)
        if len(block) >= BLOCK_LINES or characters >= BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def split_space(name: str, text: str) -> tuple[str, str, str]:
    """Split a line into leading space, text and trailing space; `name` is used in errors."""
    if "\n" in text:
        raise DataError(f"{name} contains a newline; expected one line: split the text first")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        character = f"U+{ord(text[error.start]):04X}"
        raise DataError(
            f"{name} is not valid text: lone surrogate {character} at position "
            f"{error.start + 1}; read the file as UTF-8"
        ) from None
    without_leading = text.lstrip()
    body = without_leading.rstrip()
    leading = text[: len(text) - len(without_leading)]
    return leading, body, without_leading[len(body) :]


def clean_output(text: str, source: str) -> str:
    """Clean the text of a model, which may write anything.

    The result has no surrounding space, and no reserved token or line break that the source does
    not contain. A reserved token stands for a protected span or a term; without its source it means
    nothing. A line break becomes a space: each output line must remain one line, also for a reader
    that splits at other characters than the newline.
    """
    if not _NEEDS_SOURCE.isdisjoint(text):
        for character in _NEEDS_SOURCE.intersection(text).difference(source):
            text = text.replace(character, " " if character in _LINE_BREAKS else "")
    return text.strip()
