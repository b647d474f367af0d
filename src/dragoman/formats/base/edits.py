"""Replaces places of a file and copies everything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces the bytes from `start` to `end` (equal = an insertion)."""

    start: int
    end: int
    replacement: bytes


def apply_edits(data: bytes, edits: Iterable[Edit]) -> Iterator[bytes]:
    """Yield the bytes with the edits applied; the edits are in order and do not overlap."""
    position = 0
    for edit in edits:
        if edit.start < position or edit.end < edit.start:
            raise ValueError(f"edit {edit.start}-{edit.end} overlaps the previous, at {position}")
        yield from _blocks(data, position, edit.start)
        yield edit.replacement
        position = edit.end
    yield from _blocks(data, position, len(data))


def _blocks(data: bytes, start: int, end: int) -> Iterator[bytes]:
    for begin in range(start, end, _BLOCK_BYTES):
        yield data[begin : min(begin + _BLOCK_BYTES, end)]
