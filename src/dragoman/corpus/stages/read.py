"""Stage 1: read a corpus and store its rows in chunks.

A file is read once, from beginning to end. All expensive work comes later and runs on chunks, in
many processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pyarrow as pa

from dragoman.corpus import table
from dragoman.corpus.counts import Counts, NoCounts, ReadCounts
from dragoman.corpus.filter import Pair
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.row import Reject
from dragoman.corpus.task import PreparationTask
from dragoman.recipe.parts import Choice, choose
from dragoman.storage.files import atomic_folder
from dragoman.storage.mirror import StoredPath, names

SCHEMA = pa.schema([("number", pa.int64()), ("source", pa.string()), ("target", pa.string())])
_EXAMPLES = 5
Columns = tuple[list[int], list[str], list[str]]


class Rejects:
    """Counts the rows that cannot be read, by reason, and keeps the numbers of the first ones."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, list[int]] = {}

    def add(self, reject: Reject) -> None:
        """Count a reject."""
        self.counts[reject.reason] += 1
        examples = self.examples.setdefault(reject.reason, [])
        if len(examples) < _EXAMPLES:
            examples.append(reject.number)


class ReadTask(PreparationTask):
    """Reads one corpus into a folder of chunks; the last chunk has the counts."""

    format: Choice
    files: tuple[StoredPath, ...]
    source: str
    target: str
    chunk_rows: int

    def run(self) -> None:
        """Read the corpus."""
        reader = choose("corpus.readers", self.format, "corpus.format", CorpusReader)
        # Columns, because a million small tuples would slow the garbage collector down.
        columns: Columns = ([], [], [])
        numbers, sources, targets = columns
        rejects = Rejects()
        rows = chunks = 0
        with atomic_folder(self.result) as folder:
            for row in reader(self.source, self.target).read(self.files):
                rows += 1
                if isinstance(row, Reject):
                    rejects.add(row)
                    continue
                number, source, target = row
                numbers.append(number)
                sources.append(source)
                targets.append(target)
                if len(numbers) == self.chunk_rows:
                    write_chunk(folder, chunks, columns, NoCounts())
                    for column in columns:
                        column.clear()
                    chunks += 1
            counts = ReadCounts(rows=rows, rejects=rejects.counts, rejected_rows=rejects.examples)
            write_chunk(folder, chunks, columns, counts)


def write_chunk(folder: Path, chunk: int, columns: Columns, counts: Counts) -> None:
    """Write a chunk of pairs into a temporary folder."""
    numbers, sources, targets = columns
    arrays = [
        table.numbers(np.array(numbers, dtype=np.int64)),
        *map(table.texts, (sources, targets)),
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    table.write_directly(folder / f"chunk-{chunk:05}.arrow", [batch], counts)


def chunks_of(folder: Path) -> list[Path]:
    """List the chunks of a corpus that was read, in order."""
    return [folder / name for name in names(folder) if fnmatch(name, "chunk-*.arrow")]


def counts_of(folder: Path) -> ReadCounts:
    """Read the counts of a corpus that was read."""
    return table.read_counts(chunks_of(folder)[-1], ReadCounts)


def read_pairs(folder: Path) -> Iterator[Pair]:
    """Yield the pairs of a corpus that was read."""
    for chunk in chunks_of(folder):
        yield from table.pairs(table.read(chunk))
