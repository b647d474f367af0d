"""Stage 2: apply the filters of the recipe and drop bad pairs, each with a reason.

Every pair passes the filters in order until one drops it. A pair that is kept gets a key, the hash
of its texts, and the key selects its bucket. So equal pairs meet in one bucket, whatever file they
come from, and each bucket is a random sample of the corpus.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from dragoman.corpus import table
from dragoman.corpus.alignment import Shift, find_shift
from dragoman.corpus.counts import CleanCounts, DroppedRows, Example
from dragoman.corpus.filter import Pair, apply_filters, build_filters
from dragoman.corpus.leakage import Leakage
from dragoman.corpus.row import Reject, Row
from dragoman.corpus.task import PreparationTask
from dragoman.recipe.parts import Choice
from dragoman.storage.mirror import StoredPath

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
_LANGUAGE_REASONS = ("wrong source language", "wrong target language")


def key_of(source: str, target: str) -> bytes:
    """Hash a pair; the separator never occurs in a text."""
    return hashlib.blake2b(f"{source}\0{target}".encode(), digest_size=KEY_BYTES).digest()


def key_numbers(keys: pa.Array) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """View each key as two numbers, the leading one first."""
    length, offset = len(keys), keys.offset
    flat = np.frombuffer(keys.buffers()[1], dtype="<u8", count=2 * (length + offset))
    return flat.reshape(-1, 2)[offset:]


@dataclass(slots=True)
class DroppedPairs:
    """Collects the pairs dropped for one reason."""

    count: int = 0
    examples: list[Example] = field(default_factory=list)
    languages: Counter[str] = field(default_factory=Counter)

    def add(self, number: int, pair: Pair, reason: str) -> None:
        """Count a pair; keep it if it is one of the first."""
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(Example(number, _shorten(pair.source), _shorten(pair.target)))
        if reason in _LANGUAGE_REASONS:
            self.languages[_detected_languages(pair)] += 1

    def counts(self) -> DroppedRows:
        """Return what was collected."""
        return DroppedRows(count=self.count, examples=self.examples, languages=dict(self.languages))


class CleanTask(PreparationTask):
    """Filters one chunk and scatters the pairs that are kept."""

    chunk: StoredPath
    origin: int
    source: str
    target: str
    filters: tuple[Choice, ...]
    leakage: StoredPath | None
    is_aligned_by_line: bool
    """The corpus is two files, so check whether their lines are shifted."""
    buckets: int

    def run(self) -> None:
        """Filter the chunk."""
        filters = build_filters(self.filters, self.source, self.target)
        if self.leakage is not None:
            filters.append(Leakage.load(self.leakage, self.source, self.target))
        rows = table.read(self.chunk)
        numbers: list[int] = []
        kept: list[Pair] = []
        dropped: dict[str, DroppedPairs] = {}
        for number, source, target in _columns(rows):
            verdict = apply_filters(filters, Pair(source, target))
            if isinstance(verdict, Pair):
                numbers.append(number)
                kept.append(verdict)
            else:
                pair = Pair(source, target)
                dropped.setdefault(verdict, DroppedPairs()).add(number, pair, verdict)
        batch = to_batch(self.origin, numbers, kept)
        bucket_of = key_numbers(batch["key"])[:, 0] % np.uint64(self.buckets)
        counts = CleanCounts(
            rows=len(rows),
            kept=len(kept),
            dropped={reason: rows_of.counts() for reason, rows_of in dropped.items()},
            shift=find_shift_in(rows) if self.is_aligned_by_line else None,
        )
        table.write(self.result, table.scatter(batch, bucket_of, self.buckets), counts)


def find_shift_in(rows: pa.Table) -> Shift | None:
    """Find the first line from which the two files no longer belong together.

    The check costs as much as all filters together, so it looks at windows: the last rows of every
    block. If a window shows a shift, the whole block before it is searched for the first line.
    """
    for end in (*range(_WINDOW_EVERY, len(rows), _WINDOW_EVERY), len(rows)):
        if find_shift(_lines(rows.slice(max(0, end - _WINDOW), min(end, _WINDOW)))) is not None:
            start = max(0, end - _WINDOW_EVERY - _WINDOW)
            return find_shift(_lines(rows.slice(start, end - start)))
    return None


def _columns(rows: pa.Table) -> Iterator[tuple[int, str, str]]:
    columns = (rows[name].to_pylist() for name in ("number", "source", "target"))
    return zip(*columns, strict=True)


def _lines(rows: pa.Table) -> Iterator[Row | Reject]:
    """Yield every line, also those that could not be read."""
    expected = 0
    for number, source, target in _columns(rows):
        for missing in range(expected or number, number):
            yield Reject(missing, "unreadable")
        yield Row(number, source, target)
        expected = number + 1


def _detected_languages(pair: Pair) -> str:
    from dragoman.text.identification import detect  # noqa: PLC0415  (loads a model)

    return f"{detect(pair.source)} → {detect(pair.target)}"


def _shorten(text: str) -> str:
    return text if len(text) <= _EXAMPLE_LENGTH else text[: _EXAMPLE_LENGTH - 1] + "…"


def to_batch(origin: int, numbers: Sequence[int], pairs: Sequence[Pair]) -> pa.RecordBatch:
    """Make a record batch of the pairs of one corpus, with their keys."""
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
