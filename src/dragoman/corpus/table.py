"""Reads and writes the Arrow files between the stages.

A file is a sequence of compressed record batches, and each batch can be read alone. A *scattered*
file has one batch for each bucket, so a later task reads its own bucket from every file and nothing
else. The counts of a stage are in the metadata of the same file, so rows and counts always agree.
Local files are memory-mapped. Of a remote file, only the footer and the needed batches are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from dragoman.corpus.counts import Counts
from dragoman.corpus.filter import Pair
from dragoman.storage.files import atomic_write
from dragoman.storage.mirror import locate, open_input

_COMPRESSION = pa.ipc.IpcWriteOptions(compression="lz4")

AnyCounts = TypeVar("AnyCounts", bound=Counts)


def write(path: Path, batches: Sequence[pa.RecordBatch], counts: Counts) -> None:
    """Write batches of one schema and their counts, atomically."""
    with atomic_write(path) as temporary:
        write_directly(temporary, batches, counts)


def write_directly(path: Path, batches: Sequence[pa.RecordBatch], counts: Counts) -> None:
    """Write to the path itself, which must be in a temporary folder."""
    text = json.dumps(counts.model_dump(mode="json"), sort_keys=True)
    schema = batches[0].schema.with_metadata({"counts": text})
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, schema, options=_COMPRESSION) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def open_arrow(path: Path) -> Any:
    """Open a file as Arrow reads it."""
    if locate(path) is None:
        return pa.memory_map(str(path))
    return pa.PythonFile(open_input(path), "r")


def read(path: Path) -> pa.Table:
    """Read all batches of a file."""
    with open_arrow(path) as source:
        return pa.ipc.open_file(source).read_all()


def read_bucket(paths: Sequence[Path], bucket: int) -> pa.Table:
    """Read one bucket from every scattered file."""
    return pa.Table.from_batches(list(_batches(paths, bucket)))


def _batches(paths: Sequence[Path], bucket: int) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with open_arrow(path) as source:
            batch = pa.ipc.open_file(source).get_batch(bucket)
            yield batch.replace_schema_metadata(None)


def read_counts(path: Path, model: type[AnyCounts]) -> AnyCounts:
    """Read the counts from the metadata of a file."""
    with open_arrow(path) as source:
        return model.model_validate_json(pa.ipc.open_file(source).schema.metadata[b"counts"])


def batch_count(path: Path) -> int:
    """Return the number of batches in a file."""
    with open_arrow(path) as source:
        return int(pa.ipc.open_file(source).num_record_batches)


def pairs(rows: pa.Table) -> Iterator[Pair]:
    """Yield the pairs in the columns `source` and `target`."""
    return map(Pair, rows["source"].to_pylist(), rows["target"].to_pylist())


def texts(values: Sequence[str]) -> pa.Array:
    """Make a column of texts.

    `pa.array` would import pandas if it is installed, in every worker process.
    """
    builder = pa.lib.StringBuilder()
    builder.append_values(values)
    return builder.finish()


def numbers(values: np.ndarray[Any, Any]) -> pa.Array:
    """Make a column of numbers without a copy; it avoids `pa.array` for the same reason."""
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, data])


def scatter(
    batch: pa.RecordBatch, bucket_of: np.ndarray[Any, Any], buckets: int
) -> list[pa.RecordBatch]:
    """Split rows into one batch for each bucket; the order within a bucket stays the same."""
    order = np.argsort(bucket_of, kind="stable")
    edges = np.searchsorted(bucket_of[order], np.arange(buckets + 1))
    sorted_rows = batch.take(numbers(order))
    return [
        sorted_rows.slice(edges[bucket], edges[bucket + 1] - edges[bucket])
        for bucket in range(buckets)
    ]


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """Convert a table to one batch, also if it is empty."""
    combined = rows.combine_chunks().replace_schema_metadata(None)
    batches = combined.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=combined.schema)


def count_values(values: np.ndarray[Any, Any]) -> dict[int, int]:
    """Count how often each number occurs in a column."""
    distinct, counts = np.unique(values, return_counts=True)
    return {int(value): int(count) for value, count in zip(distinct, counts, strict=True)}
