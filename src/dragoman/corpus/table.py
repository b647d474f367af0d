"""How do rows lie in files between the stages?

As Arrow: a file is a sequence of record batches, compressed, each of which can be read alone. A
file that is *scattered* has one batch for each bucket, so that a later task reads its bucket from
every file and nothing else. Counts travel in the file's own metadata: one file, one move.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dragoman.durable import new_file

_COMPRESSION = pa.ipc.IpcWriteOptions(compression="lz4")


def write(path: Path, batches: Sequence[pa.RecordBatch], counts: Any) -> None:
    """Write batches of one schema, and what was counted while they were made."""
    with new_file(path) as temporary:
        write_now(temporary, batches, counts)


def write_now(path: Path, batches: Sequence[pa.RecordBatch], counts: Any) -> None:
    """Write straight to this place, which is in a folder that nobody sees yet."""
    schema = batches[0].schema.with_metadata({"counts": json.dumps(counts, sort_keys=True)})
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, schema, options=_COMPRESSION) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def read(path: Path) -> pa.Table:
    """Read all batches."""
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


def read_bucket(paths: Sequence[Path], bucket: int) -> pa.Table:
    """Read one bucket out of every scattered file."""
    return pa.Table.from_batches(list(_batches(paths, bucket)))


def _batches(paths: Sequence[Path], bucket: int) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with pa.memory_map(str(path)) as source:
            batch = pa.ipc.open_file(source).get_batch(bucket)
            yield batch.replace_schema_metadata(None)


def counts(path: Path) -> Any:
    """Read what was counted."""
    with pa.memory_map(str(path)) as source:
        return json.loads(pa.ipc.open_file(source).schema.metadata[b"counts"])


def shape(path: Path) -> tuple[int, int]:
    """How many batches and how many rows a file has."""
    with pa.memory_map(str(path)) as source:
        file = pa.ipc.open_file(source)
        batches = file.num_record_batches
        return batches, sum(file.get_batch(number).num_rows for number in range(batches))


def texts(values: Sequence[str]) -> pa.Array:
    """Lay texts down as a column.

    Not by `pa.array`: where pandas is installed, that imports it, in every worker anew.
    """
    builder = pa.lib.StringBuilder()
    builder.append_values(values)
    return builder.finish()


def numbers(values: np.ndarray[Any, Any]) -> pa.Array:
    """See numbers as a column, for the same reason."""
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, data])


def scatter(
    batch: pa.RecordBatch, bucket_of: np.ndarray[Any, Any], buckets: int
) -> list[pa.RecordBatch]:
    """Sort rows into one batch for each bucket; within a bucket they keep their order."""
    order = np.argsort(bucket_of, kind="stable")
    edges = np.searchsorted(bucket_of[order], np.arange(buckets + 1))
    taken = batch.take(numbers(order))
    return [taken.slice(edges[n], edges[n + 1] - edges[n]) for n in range(buckets)]


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """See a whole table as one batch, empty or not."""
    whole = rows.combine_chunks().replace_schema_metadata(None)
    batches = whole.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=whole.schema)


def count_values(values: np.ndarray[Any, Any]) -> dict[str, int]:
    """Count how often each number stands in a column."""
    found, count = np.unique(values, return_counts=True)
    return {str(value): int(number) for value, number in zip(found, count, strict=True)}
