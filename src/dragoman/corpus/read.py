"""How does a corpus file become rows that many processes can share?

A file is read once, from its beginning to its end, and laid down in chunks. All that costs time
comes later and works on chunks.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from dragoman.corpus import table
from dragoman.corpus.reader import Reader
from dragoman.corpus.row import Reject
from dragoman.corpus.task import Task
from dragoman.durable import new_folder
from dragoman.part import Choice, choose

SCHEMA = pa.schema([("number", pa.int64()), ("source", pa.string()), ("target", pa.string())])
_EXAMPLES = 5
Columns = tuple[list[int], list[str], list[str]]


class ReadTask(Task):
    """Reads one corpus into a folder of chunks; the last one has the counts."""

    format: Choice
    files: tuple[Path, ...]
    source: str
    target: str
    chunk_rows: int

    def run(self) -> None:
        """Read."""
        chosen = choose("corpus.format", self.format, "corpus.format", Reader)
        # Columns, for a million small tuples would keep the garbage collector busy.
        columns: Columns = ([], [], [])
        numbers, sources, targets = columns
        rejects: Counter[str] = Counter()
        places: dict[str, list[int]] = {}
        count = chunks = 0
        with new_folder(self.result) as folder:
            for item in chosen(self.source, self.target).read(self.files):
                count += 1
                if isinstance(item, Reject):
                    rejects[item.reason] += 1
                    seen = places.setdefault(item.reason, [])
                    if len(seen) < _EXAMPLES:
                        seen.append(item.number)
                    continue
                number, source, target = item
                numbers.append(number)
                sources.append(source)
                targets.append(target)
                if len(numbers) == self.chunk_rows:
                    _write(folder, chunks, columns, {})
                    for column in columns:
                        column.clear()
                    chunks += 1
            counts = {"rows": count, "rejects": dict(rejects), "rejected_lines": places}
            _write(folder, chunks, columns, counts)


def _write(folder: Path, chunk: int, columns: Columns, counts: object) -> None:
    numbers, sources, targets = columns
    arrays = [
        table.numbers(np.array(numbers, dtype=np.int64)),
        *map(table.texts, (sources, targets)),
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    table.write_now(folder / f"chunk-{chunk:05}.arrow", [batch], counts)


def chunks_of(folder: Path) -> list[Path]:
    """List the chunks of a corpus that was read, in order."""
    return sorted(folder.glob("chunk-*.arrow"))
