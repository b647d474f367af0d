"""A small corpus with everything that preparation has to deal with, and its published files."""

import random
from pathlib import Path

from dragoman.corpus import demo
from dragoman.storage.files import sha256
from dragoman.storage.mirror import names

RECIPE = """\
preset: tiny
languages: {source: en, target: de}
corpus:
  train:
    - {files: ['part-*.en', 'part-*.de']}
    - {files: [extra.tsv], weight: 2}
  held_out: 100
  duplicates: near
  filters: [unicode, length, ratio, copies, placeholders]
tokenizer: {vocabulary_size: 400}
"""


def write_corpus(folder: Path, count: int = 1500, seed: int = 1) -> Path:
    """Write three files of demo text with duplicates, near duplicates, and bad rows."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    pairs = [(item.source, item.target) for item in demo.items(seed, count, "train")]
    pairs += pairs[::10]  # exact duplicates
    pairs += [(f"{source} !", f"{target} !") for source, target in pairs[:200:20]]
    copy = "This line was copied, not translated."
    pairs += [(copy, copy), ("", "leer"), ("Only one side is long " * 9, "kurz")]
    random.Random(seed).shuffle(pairs)
    third = len(pairs) // 3
    for number in range(2):
        part = pairs[number * third : (number + 1) * third]
        for index, language in enumerate(("en", "de")):
            text = "".join(f"{pair[index]}\n" for pair in part)
            (folder / f"part-{number}.{language}").write_text(text, encoding="utf-8")
    rows = "".join(f"{source}\t{target}\n" for source, target in pairs[2 * third :])
    (folder / "extra.tsv").write_bytes(rows.encode() + b"\xff\xfe\tbad\nlonely\n")
    return folder / "recipe.yaml"


def published(folder: Path) -> dict[str, str]:
    """Return every published file with its hash; the folder may be remote."""
    return {name: sha256(folder / name) for name in names(folder) if not name.startswith("work/")}
