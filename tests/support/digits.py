"""A corpus and a recipe so small that a whole training run takes a second.

The task is to reverse digits: "3 1 4" becomes "4 1 3". This module writes what `dragoman prepare`
would write, in the same layout, and the same for the same seed.

    recipe = digits.write(tmp_path)                   prepared/ and recipe.yaml, 12 updates
    result = training.train(recipe)                   run/
    recipe = digits.write_recipe(tmp_path, training={"steps": 20}, model={"dropout": 0.0})
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from dragoman.data.manifest import FORMAT
from dragoman.data.store import Prepared, shard_counts, write_shard
from dragoman.storage.files import sha256
from dragoman.tokenizer.folder import tokenizer_class

Pairs = Sequence[tuple[str, str]]

LANGUAGES = {"source": "qaa", "target": "qab"}
"""Codes for private use: digits, and digits reversed."""
VOCABULARY = 400
"""More than all words, or all bytes with the merges of the digits."""

RECIPE: dict[str, Any] = {
    "languages": LANGUAGES,
    "tokenizer": {"kind": "words", "vocabulary_size": VOCABULARY},
    "model": {
        "width": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "heads": 2,
        "feed_forward_width": 64,
        "dropout": 0.1,
    },
    # Four micro-batches per update, so that one, two or four ranks can share them.
    "training": {
        "steps": 12,
        "tokens_per_update": 512,
        "micro_batch": 128,
        "learning_rate": 0.01,
        "warmup_steps": 20,
        "precision": "float32",
        "validate_every": 4,
        "validation_pairs": 20,
        "save_every": 4,
        "log_every": 1,
    },
    # An untrained model writes up to the length limit.
    "decoding": {"max_extra_tokens": 2},
}


def digit_pairs(count: int, longest: int, rng: random.Random) -> list[tuple[str, str]]:
    """Random digits, one to `longest` of them, and the same reversed."""
    sources = [rng.choices("0123456789", k=rng.randint(1, longest)) for _ in range(count)]
    return [(" ".join(source), " ".join(reversed(source))) for source in sources]


def write_prepared(
    folder: Path, train: Pairs, held_out: Pairs, *, kind: str = "words", shards: int = 3
) -> Prepared:
    """Write a prepared folder of these pairs; the held-out ones are validation and test set.

    Every third training pair belongs to a second corpus.
    """
    texts = [text for pair in train for text in pair]
    tokenizer = tokenizer_class(kind).train(texts, VOCABULARY, list(LANGUAGES.values()))
    for side in LANGUAGES:
        (folder / "tokenizer" / side).mkdir(parents=True)
        tokenizer.save(folder / "tokenizer" / side)
    ids = pa.list_(pa.uint16())
    table = pa.table(
        {
            "source": pa.array(tokenizer.encode([source for source, _ in train]), ids),
            "target": pa.array(tokenizer.encode([target for _, target in train]), ids),
            "origin": pa.array([int(row % 3 == 2) for row in range(len(train))], pa.int32()),
        }
    )
    shard_entries = []
    for shard in range(shards):
        path = folder / f"train-{shard:05}.arrow"
        write_shard(path, table.take(list(range(shard, len(table), shards))), max_tokens=256)
        shard_entries.append(
            {"file": path.name, "sha256": sha256(path), **shard_counts(path).model_dump()}
        )
    for name in ("validation", "test"):
        for index, side in enumerate(LANGUAGES):
            text = "".join(f"{pair[index]}\n" for pair in held_out)
            (folder / f"{name}.{side}").write_text(text, encoding="utf-8")
    origins = table["origin"].to_pylist()
    manifest = {
        "format": FORMAT,
        "languages": LANGUAGES,
        "train": shard_entries,
        "origins": {str(number): origins.count(number) for number in (0, 1)},
        "weights": {"0": 1.0, "1": 1.0},
        "corpora": ["first", "second"],
        "files": {
            path.relative_to(folder).as_posix(): sha256(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix != ".arrow"
        },
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return Prepared.open(folder)


def write_recipe(
    folder: Path, name: str = "recipe.yaml", **settings: Mapping[str, Any] | int
) -> Path:
    """Write a recipe for a very small model; given sections change those of `RECIPE`."""
    recipe = dict(RECIPE)
    for section, value in settings.items():
        is_section = isinstance(value, Mapping)
        recipe[section] = {**recipe.get(section, {}), **value} if is_section else value
    path = folder / name
    path.write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
    return path


def write(
    folder: Path,
    *,
    pairs: int = 400,
    longest: int = 6,
    seed: int = 1,
    kind: str = "words",
    **settings: Mapping[str, Any] | int,
) -> Path:
    """Write everything that `dragoman train` needs into a folder; return the path of the recipe."""
    rng = random.Random(seed)
    train, held_out = digit_pairs(pairs, longest, rng), digit_pairs(40, longest, rng)
    write_prepared(folder / "prepared", train, held_out, kind=kind)
    settings["tokenizer"] = {"kind": kind, **settings.get("tokenizer", {})}
    return write_recipe(folder, **settings)
