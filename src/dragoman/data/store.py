"""Stores token ids on disk, and reads them without loading them into memory.

A shard is an Arrow file with one batch. Each row has the ids of the source, the ids of the target,
and the number of the corpus it comes from. The file is memory-mapped: opening it is free, and
reading costs only the pages that are used. A shard of a remote folder is fetched before it is read,
while the one before it is used.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from filelock import FileLock

from dragoman.data.manifest import MANIFEST, Manifest, ShardCounts, read_manifest
from dragoman.errors import DataError
from dragoman.storage.files import atomic_write, sha256
from dragoman.storage.mirror import fetch, fetch_all, locate, open_input

Ids = np.ndarray[Any, np.dtype[Any]]


def write_shard(
    path: Path, rows: pa.Table, max_tokens: int, augmented: int = 0, annotated: int = 0
) -> None:
    """Write one shard; leave out and count pairs with more than `max_tokens` tokens on a side.

    `augmented` and `annotated` are the numbers of rows with span tokens and with terms, for the
    counts.
    """
    lengths = [pc.list_value_length(rows[side]).to_numpy() for side in ("source", "target")]
    fits = (lengths[0] <= max_tokens) & (lengths[1] <= max_tokens)
    kept = rows.filter(pa.array(fits)).combine_chunks()
    origins = zip(*np.unique(kept["origin"].to_numpy(), return_counts=True), strict=True)
    counts = ShardCounts(
        rows=len(kept),
        too_long=int((~fits).sum()),
        augmented=augmented,
        annotated=annotated,
        source_tokens=int(lengths[0][fits].sum()),
        target_tokens=int(lengths[1][fits].sum()),
        longest=int(max(side_lengths[fits].max(initial=0) for side_lengths in lengths)),
        origins={int(origin): int(count) for origin, count in origins},
    )
    batches = kept.to_batches() or [pa.RecordBatch.from_pylist([], schema=kept.schema)]
    text = json.dumps(counts.model_dump(mode="json"), sort_keys=True)
    schema = kept.schema.with_metadata({"counts": text})
    # Without compression, because compressed pages cannot be memory-mapped.
    with (
        atomic_write(path) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        writer.write_batch(batches[0])


def shard_counts(path: Path) -> ShardCounts:
    """Read the counts of a shard."""
    with open_input(path) as source:
        text = pa.ipc.open_file(source).schema.metadata[b"counts"]
        return ShardCounts.model_validate_json(text)


@dataclass(frozen=True, slots=True)
class DataShard:
    """One memory-mapped shard: all ids of a side in one array, and where each row starts."""

    source_ids: Ids
    source_starts: Ids
    target_ids: Ids
    target_starts: Ids
    origins: Ids

    @classmethod
    def open(cls, path: Path) -> DataShard:
        """Map the file into memory."""
        try:
            batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        except (OSError, pa.ArrowInvalid) as error:
            raise DataError(
                f"{path} cannot be read ({error}); run `dragoman prepare` again"
            ) from None
        source, target = batch["source"], batch["target"]
        return cls(
            source.values.to_numpy(),
            source.offsets.to_numpy(),
            target.values.to_numpy(),
            target.offsets.to_numpy(),
            batch["origin"].to_numpy(),
        )

    def __len__(self) -> int:
        return len(self.origins)

    @property
    def source_lengths(self) -> Ids:
        """The number of tokens of each source."""
        return np.diff(self.source_starts)

    @property
    def target_lengths(self) -> Ids:
        """The number of tokens of each target."""
        return np.diff(self.target_starts)

    def source(self, row: int) -> Ids:
        """Return the ids of one source."""
        return self.source_ids[self.source_starts[row] : self.source_starts[row + 1]]

    def target(self, row: int) -> Ids:
        """Return the ids of one target."""
        return self.target_ids[self.target_starts[row] : self.target_starts[row + 1]]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared folder."""

    folder: Path
    """On this machine."""
    manifest: Manifest
    origin: Path | None = None
    """The remote folder, from which shards are fetched when they are read."""

    @classmethod
    def open(cls, folder: Path, command: str = "dragoman prepare RECIPE") -> Prepared:
        """Read the manifest; shards are opened later. `command` is for the error message.

        Of a remote folder, all published files except the shards are fetched.
        """
        manifest = read_manifest(folder, command)
        if locate(folder) is None:
            return cls(folder, manifest)
        return cls(fetch_all(folder, [*manifest.files, MANIFEST]), manifest, folder)

    def has_hash(self, corpus_sha256: str) -> bool:
        """Whether a run or a card with this hash was trained on this corpus."""
        # Versions before the content was hashed wrote the hash of the file.
        return corpus_sha256 in (self.manifest.content_sha256, sha256(self.folder / MANIFEST))

    def shard(self, number: int) -> Path:
        """Return the path of a training shard, which is fetched if necessary."""
        name = self.manifest.train[number].file
        if self.origin is None:
            return self.folder / name
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # The ranks of one machine read the same shards; one of them fetches.
        with FileLock(path.with_name(f".{path.name}.lock")):
            return fetch(self.origin / name)

    def read_shards(self, numbers: Iterable[int]) -> Iterator[DataShard]:
        """Open shards in this order; the next remote one is fetched while one is used."""
        if self.origin is None:
            yield from (DataShard.open(self.shard(number)) for number in numbers)
            return
        with ThreadPoolExecutor(1, thread_name_prefix="shards") as pool:
            waiting: deque[Future[Path]] = deque()
            for number in numbers:
                waiting.append(pool.submit(self.shard, number))
                if len(waiting) > 1:
                    yield DataShard.open(waiting.popleft().result())
            for fetching in waiting:
                yield DataShard.open(fetching.result())

    @property
    def rows(self) -> list[int]:
        """The number of pairs in each shard."""
        return [shard.rows for shard in self.manifest.train]
