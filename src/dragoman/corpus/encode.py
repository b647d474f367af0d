"""How does clean text become shards of token ids?

One bucket becomes one shard. A bucket is a random sample of the corpus in the order of hashes, so
shards and what stands in them are shuffled already.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dragoman.corpus import table
from dragoman.corpus.split import SIDES
from dragoman.corpus.task import Task
from dragoman.data.store import write_shard
from dragoman.tokenizer.folder import load_tokenizer

_BLOCK = 20_000


class EncodeTask(Task):
    """Encodes the training pairs of one bucket."""

    rows: Path
    tokenizers: tuple[Path, Path]
    """The folders of the source's and the target's tokenizer; the same when they share one."""
    longest: int
    """A pair with more tokens than this on a side is left out, and counted."""
    threads: int
    """Threads of one task, where there are fewer tasks than workers; they change no byte."""

    def run(self) -> None:
        """Encode."""
        rows = table.read_bucket([self.rows], SIDES.index("train"))
        first, second = self.tokenizers
        source_tokenizer = load_tokenizer(first)
        target_tokenizer = source_tokenizer if first == second else load_tokenizer(second)
        source_tokenizer.threads = target_tokenizer.threads = self.threads
        lists: list[pa.RecordBatch] = []
        for start in range(0, max(1, len(rows)), _BLOCK):
            block = rows.slice(start, _BLOCK)
            lists.append(
                pa.RecordBatch.from_arrays(
                    [
                        _ids(source_tokenizer, block["source"]),
                        _ids(target_tokenizer, block["target"]),
                        _plain(block["origin"]),
                    ],
                    names=["source", "target", "origin"],
                )
            )
        write_shard(self.result, pa.Table.from_batches(lists), self.longest)


def _ids(tokenizer: Any, texts: pa.ChunkedArray) -> pa.Array:
    kind = pa.uint16() if tokenizer.size <= np.iinfo(np.uint16).max else pa.int32()
    return pa.array(tokenizer.encode(texts.to_pylist()), pa.list_(kind))


def _plain(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
