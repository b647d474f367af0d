"""What does a reader find in a prepared folder, and when is it whole?

    train-00000.arrow ...     the shards
    tokenizer/source, target  the vocabularies
    development.source ...    the held-out sets, one sentence a line
    manifest.json             what belongs to it, with the hash of every file

The manifest is taken away first and comes last: while it is there, everything is.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.corpus.cleaning import Pair
from dragoman.data.store import FORMAT, MANIFEST, shard_counts
from dragoman.durable import place, sha256, write_text


def publish(
    folder: Path,
    shards: Sequence[Path],
    tokenizers: tuple[Path, Path],
    held_out: Mapping[str, Iterable[Pair]],
    facts: Mapping[str, Any],
) -> None:
    """Put finished files into the prepared folder; do nothing where they are."""
    finished = {path.name: path for path in shards}
    for side, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        finished |= {f"tokenizer/{side}/{file.name}": file for file in tokenizer.iterdir()}
    texts = {name: text for side in held_out for name, text in _texts(side, held_out[side])}
    counted = [shard_counts(path) for path in shards]
    manifest = {
        **facts,
        "format": FORMAT,
        "train": [
            {"file": path.name, "sha256": sha256(path), **counts}
            for path, counts in zip(shards, counted, strict=True)
        ],
        "files": {name: sha256(path) for name, path in finished.items() if name.startswith("tok")}
        | {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()},
        "origins": {
            str(number): sum(counts["origins"].get(str(number), 0) for counts in counted)
            for number in range(len(facts["corpora"]))
        },
    }
    text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    published = folder / MANIFEST
    is_there = all((folder / name).exists() for name in (*finished, *texts))
    if is_there and published.exists() and published.read_text(encoding="utf-8") == text:
        return
    _withdraw(published)
    for name, path in finished.items():
        place(path, folder / name)
    for name, content in texts.items():
        write_text(folder / name, content)
    write_text(published, text)


def _withdraw(published: Path) -> None:
    """Take away what an earlier run has published, and nothing else."""
    if not published.exists():
        return
    try:
        old = json.loads(published.read_text(encoding="utf-8"))
        shards = [shard["file"] for shard in old["train"]]
    except (ValueError, KeyError, TypeError):
        shards = []
    published.unlink()
    for name in shards:
        (published.parent / Path(name).name).unlink(missing_ok=True)
    shutil.rmtree(published.parent / "tokenizer", ignore_errors=True)


def _texts(side: str, pairs: Iterable[Pair]) -> list[tuple[str, str]]:
    listed = list(pairs)
    return [
        (f"{side}.{column}", "".join(f"{_one_line(pair[index])}\n" for pair in listed))
        for index, column in enumerate(("source", "target"))
    ]


def _one_line(text: str) -> str:
    return text.replace("\n", " ")
