"""Stage 7: put the finished files into the prepared folder.

    train-00000.arrow ...     the shards
    tokenizer/source, target  the tokenizers
    validation.source ...     the held-out sets, one sentence per line
    manifest.json             all files of the folder, with their hashes

The manifest is removed first and written last. While it exists, the folder is complete.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dragoman.corpus.filter import Pair
from dragoman.data.manifest import MANIFEST, Manifest, ManifestHeader, ManifestShard, read_manifest
from dragoman.data.store import shard_counts
from dragoman.errors import DataError
from dragoman.storage import mirror
from dragoman.storage.files import link_or_copy, remove, sha256, write_text

SIDES = ("source", "target")


def publish(
    folder: Path,
    shards: Sequence[Path],
    tokenizers: tuple[Path, Path],
    held_out: Mapping[str, Iterable[Pair]],
    header: ManifestHeader,
) -> Manifest:
    """Put the files into the prepared folder; do nothing if they are already there."""
    tokenizer_files = {
        f"tokenizer/{side}/{file.name}": file
        for side, tokenizer in zip(SIDES, tokenizers, strict=True)
        for file in (tokenizer / name for name in mirror.names(tokenizer))
    }
    files = {path.name: path for path in shards} | tokenizer_files
    texts = {
        f"{split}.{side}": text
        for split, pairs in held_out.items()
        for side, text in zip(SIDES, _texts(pairs), strict=True)
    }
    manifest = _manifest(header, shards, tokenizer_files, texts)
    path = folder / MANIFEST
    text = manifest.to_json()
    wanted = [folder / name for name in (*files, *texts, MANIFEST)]
    is_complete = len(mirror.existing(wanted)) == len(wanted)
    if is_complete and mirror.read_text(path) == text:
        return manifest
    _remove_published(folder)
    for name, file in files.items():
        link_or_copy(file, folder / name)
    for name, content in texts.items():
        write_text(folder / name, content)
    write_text(path, text)
    return manifest


def _manifest(
    header: ManifestHeader,
    shards: Sequence[Path],
    tokenizer_files: Mapping[str, Path],
    texts: Mapping[str, str],
) -> Manifest:
    train = [
        ManifestShard(file=path.name, sha256=sha256(path), **shard_counts(path).model_dump())
        for path in shards
    ]
    origins: Counter[int] = Counter()
    for shard in train:
        origins.update(shard.origins)
    hashes = {name: sha256(path) for name, path in tokenizer_files.items()}
    hashes |= {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    return Manifest(
        **dict(header),
        train=tuple(train),
        files=hashes,
        origins={number: origins[number] for number in range(len(header.corpora))},
    )


def _remove_published(folder: Path) -> None:
    """Remove the files that an earlier run has published, and nothing else."""
    path = folder / MANIFEST
    if not mirror.exists(path):
        return
    try:
        manifest = read_manifest(folder)
        texts = [name for name in manifest.files if "/" not in name]
        names = [*(shard.file for shard in manifest.train), *texts]
    except DataError:  # Damaged, or of another version.
        names = []
    remove(path)
    for name in names:
        remove(folder / Path(name).name)
    remove(folder / "tokenizer")


def _texts(pairs: Iterable[Pair]) -> tuple[str, str]:
    """Return the text of each side, one sentence per line."""
    listed = list(pairs)
    source = "".join(f"{_one_line(pair.source)}\n" for pair in listed)
    target = "".join(f"{_one_line(pair.target)}\n" for pair in listed)
    return source, target


def _one_line(text: str) -> str:
    return text.replace("\n", " ")
