"""Write the artifacts of this version, which every later version must read.

    python tests/golden/write.py

Once per release: a small corpus is prepared, a small model is trained and exported, and its
translations are recorded in `tests/golden/VERSION/`. `test_golden.py` reads the folders of all
versions. A folder that exists is never written again. The corpus has digits in words, English to
German. Exported weights are float32, because sums with int8 weights depend on the processor.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import dragoman
from dragoman.data.store import DataShard, Prepared
from dragoman.inference.loading import EngineName
from dragoman.tokenizer.folder import load_tokenizer

FOLDER = Path(__file__).parent
EXPECTED = "expected.json"
SOURCES = [
    "one two three",
    "seven",
    "nine zero four five",
    "six six six",
    "eight {name} two",
    "Three elephants.",
    "",
]
_DIGITS = {
    "en": ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"],
    "de": ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"],
}
_ROWS = 450
_RECIPE = """\
preset: demo
languages: {source: en, target: de}
corpus:
  train: [{files: [train.en, train.de]}]
  held_out: 20
  filters: [unicode]
tokenizer: {kind: sentencepiece, vocabulary_size: 320}
model:
  width: 16
  heads: 2
  encoder_layers: 1
  decoder_layers: 1
  feed_forward_width: 32
  position: rotary    # Without a table of positions, which would be most of the export.
  dropout: 0.0
training:
  steps: 900
  warmup_steps: 100
  learning_rate: 0.01
  validate_every: 300
  save_every: 900
  tokens_per_update: 512
  micro_batch: 512
  threads: 1
"""
_KEPT = {
    "prepared": ["manifest.json", "*.arrow", "tokenizer/*/*", "validation.*", "test.*"],
    "run": ["format.json", "recipe.yaml", "model.safetensors", "tokenizer/*/*", "run.json"],
    "exported": ["*", "tokenizer/*/*"],
}
"""Files that are kept of each folder; reports, figures and checkpoints are large."""


def main() -> None:
    """Write the folder of this version."""
    target = FOLDER / dragoman.__version__
    if target.exists():
        sys.exit(
            f"{target} exists. Users have models of that version, so its artifacts do not change; "
            "write those of the next version."
        )
    with tempfile.TemporaryDirectory() as temporary:
        work, kept = Path(temporary, "work"), Path(temporary, "kept")
        work.mkdir()
        make_artifacts(work)
        for folder, patterns in _KEPT.items():
            for pattern in patterns:
                for path in filter(Path.is_file, sorted((work / folder).glob(pattern))):
                    copy = kept / path.relative_to(work)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, copy)
        expected = {
            "source": SOURCES,
            "run": translate(kept / "run", "pytorch", SOURCES),
            "exported": translate(kept / "exported", "ctranslate2", SOURCES),
            "first_pair": first_pair(kept / "prepared"),
        }
        text = json.dumps(expected, ensure_ascii=False, indent=1)
        (kept / EXPECTED).write_text(text + "\n", encoding="utf-8")
        shutil.copytree(kept, target)
    print(f"Written: {target}")


def make_artifacts(work: Path) -> None:
    """Prepare, train and export with the public functions."""
    rng = random.Random(1)
    rows = sorted(
        {tuple(rng.randrange(10) for _ in range(rng.randint(1, 4))) for _ in range(_ROWS)}
    )
    rng.shuffle(rows)
    for language, words in _DIGITS.items():
        lines = (" ".join(words[digit] for digit in row) for row in rows)
        (work / f"train.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    recipe = work / "recipe.yaml"
    recipe.write_text(_RECIPE, encoding="utf-8")
    dragoman.prepare(recipe)
    dragoman.train(recipe)
    dragoman.export(work / "run", output=work / "exported", quantization="float32")


def translate(folder: Path, engine: EngineName, sources: Sequence[str]) -> list[str]:
    """Return the translations of all sources; each alone, so that no batch changes a sum."""
    with dragoman.Translator.load(folder, engine=engine, device="cpu", threads=1) as translator:
        return [translator.translate(source).text for source in sources]


def first_pair(folder: Path) -> list[str]:
    """Return the text of the first training pair, decoded by the tokenizers of the folder."""
    prepared = Prepared.open(folder)
    shard = DataShard.open(prepared.shard(0))
    tokens = (shard.source(0), shard.target(0))
    sides = (load_tokenizer(folder / "tokenizer" / side) for side in ("source", "target"))
    return [
        tokenizer.decode([ids.tolist()])[0] for tokenizer, ids in zip(sides, tokens, strict=True)
    ]


if __name__ == "__main__":
    main()
