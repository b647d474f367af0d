"""Which rows are kept, which are changed, and why is the rest dropped?

Every row passes the steps in their order until one drops it. What is kept gets a key, the hash of
its texts, and is scattered by that key: equal pairs meet in one bucket, whatever file they are
from, and a bucket is a random sample of the whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dragoman.corpus import table
from dragoman.corpus.alignment import Shift, find_shift
from dragoman.corpus.cleaning import Pair, Step
from dragoman.corpus.leakage import Leakage
from dragoman.corpus.row import Reject, Row
from dragoman.corpus.task import Task
from dragoman.part import Choice, choose

KEY_BYTES = 16  # With half of that, ten billion pairs already expect collisions.
SCHEMA = pa.schema(
    [
        ("key", pa.binary(KEY_BYTES)),
        ("origin", pa.int32()),
        ("number", pa.int64()),
        ("source", pa.string()),
        ("target", pa.string()),
    ]
)
_EXAMPLES = 3
_WINDOW, _WINDOW_EVERY = 1_000, 25_000
_EXAMPLE_LENGTH = 200
_FOR_LANGUAGE = ("source language", "target language")


def key_of(source: str, target: str) -> bytes:
    """Hash a pair; the separator cannot stand in a text."""
    return hashlib.blake2b(f"{source}\0{target}".encode(), digest_size=KEY_BYTES).digest()


def halves(keys: pa.Array) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """See each key as two numbers, the leading one first."""
    length, offset = len(keys), keys.offset
    flat = np.frombuffer(keys.buffers()[1], dtype="<u8", count=2 * (length + offset))
    return flat.reshape(-1, 2)[offset:]


class CleanTask(Task):
    """Cleans one chunk and scatters what is kept."""

    chunk: Path
    origin: int
    source: str
    target: str
    steps: tuple[Choice, ...]
    leakage: Path | None
    is_aligned_by_line: bool
    """Two files that may have gone apart: look whether they have."""
    buckets: int

    def run(self) -> None:
        """Clean."""
        steps = list(self._steps())
        rows = table.read(self.chunk)
        numbers: list[int] = []
        kept: list[Pair] = []
        dropped: dict[str, dict[str, Any]] = {}
        columns = (rows[name].to_pylist() for name in ("number", "source", "target"))
        for number, source, target in zip(*columns, strict=True):
            pair = _apply(steps, Pair(source, target))
            if isinstance(pair, Pair):
                numbers.append(number)
                kept.append(pair)
                continue
            record = dropped.setdefault(pair, {"count": 0, "examples": []})
            record["count"] += 1
            if len(record["examples"]) < _EXAMPLES:
                record["examples"].append([number, _shorten(source), _shorten(target)])
            if pair in _FOR_LANGUAGE:
                languages = record.setdefault("languages", {})
                found = _languages(source, target)
                languages[found] = languages.get(found, 0) + 1
        batch = to_batch(self.origin, numbers, kept)
        bucket_of = halves(batch["key"])[:, 0] % np.uint64(self.buckets)
        shift = find_shift_in(rows) if self.is_aligned_by_line else None
        counts = {"rows": len(rows), "kept": len(kept), "dropped": dropped, "shift": shift}
        table.write(self.result, table.scatter(batch, bucket_of, self.buckets), counts)

    def _steps(self) -> Iterator[Step]:
        for choice in self.steps:
            yield choose("corpus.step", choice, "corpus.steps", Step)(self.source, self.target)
        if self.leakage is not None:
            yield Leakage.load(self.leakage, self.source, self.target)


def find_shift_in(rows: pa.Table) -> Shift | None:
    """Look for the first line from which on the two files do not belong together.

    Windows are looked at, one at the end of every so many rows, for the check costs as much as all
    steps together. Where a window raises the alarm, the rows since the one before it say where it
    began.
    """
    for end in (*range(_WINDOW_EVERY, len(rows), _WINDOW_EVERY), len(rows)):
        if find_shift(_lines(rows.slice(max(0, end - _WINDOW), min(end, _WINDOW)))) is not None:
            before = max(0, end - _WINDOW_EVERY - _WINDOW)
            return find_shift(_lines(rows.slice(before, end - before)))
    return None


def _lines(rows: pa.Table) -> Iterator[Row | Reject]:
    """Give every line, also those that could not be read."""
    expected = 0
    columns = (rows[name].to_pylist() for name in ("number", "source", "target"))
    for number, source, target in zip(*columns, strict=True):
        for missing in range(expected or number, number):
            yield Reject(missing, "unreadable")
        yield Row(number, source, target)
        expected = number + 1


def _apply(steps: Sequence[Step], pair: Pair) -> Pair | str:
    for step in steps:
        verdict = step.apply(pair)
        if isinstance(verdict, str):
            return verdict
        pair = verdict
    return pair


def _languages(source: str, target: str) -> str:
    from dragoman.corpus.step.language import detect  # noqa: PLC0415  (loads a model)

    return f"{detect(source)} → {detect(target)}"


def _shorten(text: str) -> str:
    return text if len(text) <= _EXAMPLE_LENGTH else text[: _EXAMPLE_LENGTH - 1] + "…"


def to_batch(origin: int, numbers: Sequence[int], pairs: Sequence[Pair]) -> pa.RecordBatch:
    """Lay the pairs of one corpus down with their keys."""
    keys = b"".join([key_of(*pair) for pair in pairs])
    return pa.RecordBatch.from_arrays(
        [
            pa.Array.from_buffers(pa.binary(KEY_BYTES), len(pairs), [None, pa.py_buffer(keys)]),
            table.numbers(np.full(len(pairs), origin, dtype=np.int32)),
            table.numbers(np.array(numbers, dtype=np.int64)),
            table.texts([pair.source for pair in pairs]),
            table.texts([pair.target for pair in pairs]),
        ],
        schema=SCHEMA,
    )
