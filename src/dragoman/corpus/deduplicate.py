"""Which pairs say the same thing twice?

Exact: equal texts have equal keys, so they stand in the same bucket; of each set the row with the
smallest (origin, number) stays, whoever read it first.

Near: MinHash (Broder, 1997). Each pair is signed by the least hashes of its word pairs, blind to
case, digits and punctuation; the signature is cut into bands, and two pairs that agree in a whole
band are suspects. A pair is dropped when it meets one with a smaller key in at least `VOTES`
bands. With b bands of r hashes, a pair of likeness s agrees in a band with probability sʳ:
likeness below one half is all but never dropped, above nine tenths nearly always.

Each of these is a map over buckets: nothing holds the corpus.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dragoman.corpus import engine, table
from dragoman.corpus.clean import KEY_BYTES, halves
from dragoman.corpus.task import Task

BANDS, HASHES_PER_BAND, VOTES = 8, 8, 2
_WORDS = 2
_MIX = np.uint64(0x9E3779B97F4A7C15)


class ExactTask(Task):
    """Takes one bucket out of all cleaned chunks and keeps one of each pair, sorted by key."""

    chunks: tuple[Path, ...]
    bucket: int
    keeps_all: bool
    """Only sorts, where a recipe wants duplicates kept."""

    def run(self) -> None:
        """Keep the first of equals."""
        rows = table.read_bucket(self.chunks, self.bucket).combine_chunks()
        keys = _keys(rows)
        order = np.lexsort((rows["number"], rows["origin"], keys[:, 1], keys[:, 0]))
        ordered = keys[order]
        is_first = np.ones(len(order), dtype=bool)
        if not self.keeps_all:
            is_first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        origins = rows["origin"].to_numpy()[order]
        kept = rows.take(table.numbers(order[is_first]))
        counts = {"dropped": table.count_values(origins[~is_first])}
        table.write(self.result, [table.one_batch(kept)], counts)


class SignTask(Task):
    """Signs one bucket, and scatters the bands of the signatures."""

    rows: Path
    buckets: int

    def run(self) -> None:
        """Sign."""
        rows = table.read(self.rows).combine_chunks()
        plain = _plain(rows)
        # What has no word ("...") is like nothing else.
        has_words = pc.greater(pc.utf8_length(plain), 0)
        rows, plain = rows.filter(has_words).combine_chunks(), plain.filter(has_words)
        signatures = engine.minhash(plain, BANDS * HASHES_PER_BAND, _WORDS)
        bands = _band_hashes(signatures).ravel()  # row by row, band by band
        keys = np.repeat(_keys(rows), BANDS, axis=0)
        batch = pa.RecordBatch.from_arrays([pa.array(bands), _as_keys(keys)], names=["band", "key"])
        bucket_of = bands % np.uint64(self.buckets)
        table.write(self.result, table.scatter(batch, bucket_of, self.buckets), {})


class NearTask(Task):
    """Finds, in one bucket of bands, who agrees with a smaller key; scatters these votes."""

    signed: tuple[Path, ...]
    bucket: int
    buckets: int

    def run(self) -> None:
        """Vote."""
        rows = table.read_bucket(self.signed, self.bucket).combine_chunks()
        bands, keys = rows["band"].to_numpy(), _keys(rows)
        order = np.lexsort((keys[:, 1], keys[:, 0], bands))
        is_later = np.zeros(len(order), dtype=bool)
        is_later[1:] = bands[order][1:] == bands[order][:-1]
        suspects = keys[order[is_later]]
        batch = pa.RecordBatch.from_arrays([_as_keys(suspects)], names=["key"])
        bucket_of = suspects[:, 0] % np.uint64(self.buckets)
        table.write(self.result, table.scatter(batch, bucket_of, self.buckets), {})


def near_duplicates(rows: pa.Table, votes: tuple[Path, ...], bucket: int) -> Any:
    """Mark the rows of a bucket, sorted by key, that have votes enough against them."""
    is_near = np.zeros(len(rows), dtype=bool)
    against = _keys(table.read_bucket(votes, bucket).combine_chunks())
    if not len(against) or not len(rows):
        return is_near
    suspects, count = np.unique(_as_one(against), return_counts=True)
    condemned = suspects[count >= VOTES]
    is_near[np.isin(_as_one(_keys(rows)), condemned)] = True
    return is_near


def _plain(rows: pa.Table) -> pa.Array:
    joined = pc.binary_join_element_wise(rows["source"], rows["target"], " ")
    lowered = pc.utf8_lower(joined)
    counted = pc.replace_substring_regex(lowered, r"\d+", "0")
    words = pc.replace_substring_regex(counted, r"[\pP\pS]+", " ")
    trimmed = pc.utf8_trim_whitespace(pc.replace_substring_regex(words, r"\s+", " "))
    return trimmed.combine_chunks() if isinstance(trimmed, pa.ChunkedArray) else trimmed


def _band_hashes(signatures: np.ndarray[Any, np.dtype[np.uint32]]) -> np.ndarray[Any, Any]:
    """Mix the hashes of each band, and its number, into one."""
    cut = signatures.reshape(-1, BANDS, HASHES_PER_BAND).astype(np.uint64)
    mixed = np.broadcast_to(np.arange(1, BANDS + 1, dtype=np.uint64) * _MIX, cut.shape[:2]).copy()
    for number in range(HASHES_PER_BAND):
        mixed ^= cut[:, :, number]
        mixed *= _MIX
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _keys(rows: pa.Table) -> np.ndarray[Any, np.dtype[np.uint64]]:
    column = rows["key"]
    return halves(column.chunk(0)) if column.num_chunks else np.zeros((0, 2), dtype=np.uint64)


def _as_keys(keys: np.ndarray[Any, Any]) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(keys))
    return pa.Array.from_buffers(pa.binary(KEY_BYTES), len(keys), [None, data])


def _as_one(keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """See two numbers as one value that numpy can compare."""
    return np.ascontiguousarray(keys).view([("leading", "<u8"), ("trailing", "<u8")]).ravel()
