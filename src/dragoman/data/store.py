"""How do token ids lie on disk, and how are they read without being loaded?

A shard is an Arrow file of one batch: for each pair the ids of its source and of its target, and
the corpus it is from. It is mapped into memory, so opening it costs nothing and reading it costs
the pages that are touched. A prepared folder is complete when its `manifest.json` is there; the
manifest names every shard with its rows, tokens and SHA-256.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dragoman.durable import new_file
from dragoman.errors import DataError

FORMAT = 1
MANIFEST = "manifest.json"

Ids = np.ndarray[Any, np.dtype[Any]]


def write_shard(path: Path, rows: pa.Table, longest: int) -> None:
    """Write one shard; pairs with more than `longest` tokens on a side are counted, not written."""
    lengths = [pc.list_value_length(rows[side]).to_numpy() for side in ("source", "target")]
    fits = (lengths[0] <= longest) & (lengths[1] <= longest)
    kept = rows.filter(pa.array(fits)).combine_chunks()
    origins = zip(*np.unique(kept["origin"].to_numpy(), return_counts=True), strict=True)
    counts = {
        "rows": len(kept),
        "too_long": int((~fits).sum()),
        "source_tokens": int(lengths[0][fits].sum()),
        "target_tokens": int(lengths[1][fits].sum()),
        "longest": int(max(each[fits].max(initial=0) for each in lengths)),
        "origins": {str(origin): int(count) for origin, count in origins},
    }
    batches = kept.to_batches() or [pa.RecordBatch.from_pylist([], schema=kept.schema)]
    schema = kept.schema.with_metadata({"counts": json.dumps(counts, sort_keys=True)})
    # Not compressed: what is mapped must be what is read.
    with (
        new_file(path) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        writer.write_batch(batches[0])


def shard_counts(path: Path) -> dict[str, Any]:
    """Read what was counted when the shard was written."""
    with pa.memory_map(str(path)) as source:
        counts: dict[str, Any] = json.loads(pa.ipc.open_file(source).schema.metadata[b"counts"])
        return counts


@dataclass(frozen=True, slots=True)
class Shard:
    """One mapped shard: all ids in a row, and where each pair begins."""

    source_ids: Ids
    source_starts: Ids
    target_ids: Ids
    target_starts: Ids
    origins: Ids

    @classmethod
    def open(cls, path: Path) -> Shard:
        """Map the file."""
        try:
            batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        except (OSError, pa.ArrowInvalid) as error:
            raise DataError(
                f"{path.name} cannot be read ({error}); run `dragoman prepare` again"
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
        """Tokens of each source."""
        return np.diff(self.source_starts)

    @property
    def target_lengths(self) -> Ids:
        """Tokens of each target."""
        return np.diff(self.target_starts)

    def source(self, row: int) -> Ids:
        """The ids of one source."""
        return self.source_ids[self.source_starts[row] : self.source_starts[row + 1]]

    def target(self, row: int) -> Ids:
        """The ids of one target."""
        return self.target_ids[self.target_starts[row] : self.target_starts[row + 1]]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared folder."""

    folder: Path
    manifest: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> Prepared:
        """Read the manifest; the shards stay closed until they are needed."""
        try:
            manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise DataError(
                f"{str(folder)!r} is not a prepared folder, or its preparation was not finished; "
                "type: dragoman prepare RECIPE"
            ) from None
        except ValueError:
            raise DataError(
                f"the manifest of {str(folder)!r} is damaged; type: dragoman prepare RECIPE"
            ) from None
        if manifest.get("format") != FORMAT:
            raise DataError(
                f"{str(folder)!r} has format {manifest.get('format')}, expected {FORMAT}; "
                "prepare it again with this version"
            )
        return cls(folder, manifest)

    @property
    def shards(self) -> list[Path]:
        """The training shards, in order."""
        return [self.folder / shard["file"] for shard in self.manifest["train"]]

    @property
    def rows(self) -> list[int]:
        """How many pairs each shard has."""
        return [shard["rows"] for shard in self.manifest["train"]]
