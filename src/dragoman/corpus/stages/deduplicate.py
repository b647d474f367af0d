"""Stage 3: remove exact and near duplicates.

Exact duplicates have equal keys, so they are in the same bucket. The row with the smallest (origin,
number) stays, independent of the order in which files were read.

Near duplicates are found with MinHash (Broder, 1997). Each pair gets a signature: the smallest
hashes of its word bigrams, without case, digits and punctuation. The signature is cut into bands,
and two pairs that agree in a whole band are candidates. A pair is dropped if it meets a pair with a
smaller key in at least `VOTES` bands. With r hashes per band, two pairs of Jaccard similarity s
agree in a band with probability sʳ. Pairs below similarity 0.5 are almost never dropped, pairs
above 0.9 nearly always. Only human pairs are compared: a synthetic pair is similar to the human
pair with the same source on purpose.

Each step is a map over buckets, so no process needs the whole corpus.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dragoman.corpus import runner, table
from dragoman.corpus.counts import ExactCounts, NoCounts
from dragoman.corpus.stages.clean import KEY_BYTES, key_numbers
from dragoman.corpus.task import PreparationTask
from dragoman.storage.mirror import StoredPath

BANDS, HASHES_PER_BAND, VOTES = 8, 8, 2
_NGRAM_WORDS = 2
_MIX = np.uint64(0x9E3779B97F4A7C15)


class ExactTask(PreparationTask):
    """Collects one bucket from all cleaned chunks, sorted by key, and removes exact duplicates."""

    chunks: tuple[StoredPath, ...]
    bucket: int
    keeps_all: bool
    """True if the recipe keeps duplicates; then the rows are only sorted."""

    def run(self) -> None:
        """Keep the first of equal pairs."""
        rows = table.read_bucket(self.chunks, self.bucket).combine_chunks()
        keys = _keys(rows)
        order = np.lexsort((rows["number"], rows["origin"], keys[:, 1], keys[:, 0]))
        sorted_keys = keys[order]
        is_first = np.ones(len(order), dtype=bool)
        if not self.keeps_all:
            is_first[1:] = (sorted_keys[1:] != sorted_keys[:-1]).any(axis=1)
        origins = rows["origin"].to_numpy()[order]
        kept = rows.take(table.numbers(order[is_first]))
        counts = ExactCounts(
            kept=table.count_values(origins[is_first]),
            dropped=table.count_values(origins[~is_first]),
        )
        table.write(self.result, [table.one_batch(kept)], counts)


class SignTask(PreparationTask):
    """Computes the signatures of one bucket and scatters their bands."""

    rows: StoredPath
    buckets: int
    synthetic: tuple[int, ...]
    """The origins of synthetic pairs, which get no signature."""

    def run(self) -> None:
        """Compute the signatures."""
        rows = table.read(self.rows).combine_chunks()
        is_human = ~np.isin(rows["origin"].to_numpy(), self.synthetic)
        rows = rows.filter(pa.array(is_human)).combine_chunks()
        plain = _plain_text(rows)
        # A pair without words ("...") is not similar to any other.
        has_words = pc.greater(pc.utf8_length(plain), 0)
        rows, plain = rows.filter(has_words).combine_chunks(), plain.filter(has_words)
        signatures = runner.minhash(plain, BANDS * HASHES_PER_BAND, _NGRAM_WORDS)
        bands = _band_hashes(signatures).ravel()  # Ordered by row, then by band.
        keys = np.repeat(_keys(rows), BANDS, axis=0)
        batch = pa.RecordBatch.from_arrays(
            [pa.array(bands), _key_array(keys)], names=["band", "key"]
        )
        bucket_of = bands % np.uint64(self.buckets)
        table.write(self.result, table.scatter(batch, bucket_of, self.buckets), NoCounts())


class NearTask(PreparationTask):
    """Finds, in one bucket of bands, the keys that agree with a smaller key; scatters them."""

    signatures: tuple[StoredPath, ...]
    bucket: int
    buckets: int

    def run(self) -> None:
        """Write one vote for each agreement."""
        rows = table.read_bucket(self.signatures, self.bucket).combine_chunks()
        bands, keys = rows["band"].to_numpy(), _keys(rows)
        order = np.lexsort((keys[:, 1], keys[:, 0], bands))
        is_later = np.zeros(len(order), dtype=bool)
        is_later[1:] = bands[order][1:] == bands[order][:-1]
        candidates = keys[order[is_later]]
        batch = pa.RecordBatch.from_arrays([_key_array(candidates)], names=["key"])
        bucket_of = candidates[:, 0] % np.uint64(self.buckets)
        table.write(self.result, table.scatter(batch, bucket_of, self.buckets), NoCounts())


def near_duplicates(rows: pa.Table, votes: tuple[Path, ...], bucket: int) -> Any:
    """Return a mask of the rows of a bucket, sorted by key, that have enough votes against them."""
    is_near = np.zeros(len(rows), dtype=bool)
    keys_with_votes = _keys(table.read_bucket(votes, bucket).combine_chunks())
    if not len(keys_with_votes) or not len(rows):
        return is_near
    candidates, count = np.unique(_as_one(keys_with_votes), return_counts=True)
    is_near[np.isin(_as_one(_keys(rows)), candidates[count >= VOTES])] = True
    return is_near


def _plain_text(rows: pa.Table) -> pa.Array:
    """Join both sides of each pair, in lower case, without punctuation, every number as 0."""
    joined = pc.binary_join_element_wise(rows["source"], rows["target"], " ")
    lowered = pc.utf8_lower(joined)
    without_numbers = pc.replace_substring_regex(lowered, r"\d+", "0")
    words = pc.replace_substring_regex(without_numbers, r"[\pP\pS]+", " ")
    trimmed = pc.utf8_trim_whitespace(pc.replace_substring_regex(words, r"\s+", " "))
    return trimmed.combine_chunks() if isinstance(trimmed, pa.ChunkedArray) else trimmed


def _band_hashes(signatures: np.ndarray[Any, np.dtype[np.uint32]]) -> np.ndarray[Any, Any]:
    """Combine the hashes of each band, and its number, into one hash."""
    bands = signatures.reshape(-1, BANDS, HASHES_PER_BAND).astype(np.uint64)
    numbers = np.arange(1, BANDS + 1, dtype=np.uint64) * _MIX
    mixed = np.broadcast_to(numbers, bands.shape[:2]).copy()
    for index in range(HASHES_PER_BAND):
        mixed ^= bands[:, :, index]
        mixed *= _MIX
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _keys(rows: pa.Table) -> np.ndarray[Any, np.dtype[np.uint64]]:
    column = rows["key"]
    return key_numbers(column.chunk(0)) if column.num_chunks else np.zeros((0, 2), dtype=np.uint64)


def _key_array(keys: np.ndarray[Any, Any]) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(keys))
    return pa.Array.from_buffers(pa.binary(KEY_BYTES), len(keys), [None, data])


def _as_one(keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """View the two numbers of a key as one value that NumPy can compare."""
    return np.ascontiguousarray(keys).view([("leading", "<u8"), ("trailing", "<u8")]).ravel()
