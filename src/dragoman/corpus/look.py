"""What is in these files, and which recipe fits them?

`dragoman init` looks before it writes: it reads the files as a preparation would, counts, asks a
detector for the languages, and chooses the size of the model and the vocabulary by the number of
pairs. Each choice stands in the recipe with its reason.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dragoman.corpus.cleaning import Pair
from dragoman.corpus.pipeline import guess_format
from dragoman.corpus.reader import Reader
from dragoman.corpus.row import Row
from dragoman.errors import DataError
from dragoman.part import Choice, choose
from dragoman.recipe_file import load_recipe
from dragoman.tokenizer.advice import advise

_PASSES = 26
"""Over a small corpus, as in the runs of docs/journal.md; half as many lost two points."""
_TOKEN_CHARACTERS = 4.5
"""Of a token, about, padding counted."""
_FEWEST_UPDATES = 1500
_LOOKED_AT = 500
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at the files found."""

    files: tuple[Path, ...]
    format: str
    source: str
    target: str
    pairs: int
    characters: int
    """Of the target."""
    rejects: int
    examples: tuple[Pair, ...]


def look(files: Sequence[Path], source: str, target: str, format_: str | None = None) -> Look:
    """Read the files once; languages that are not said are guessed where the format allows it."""
    name = format_ or guess_format([[path] for path in files])
    reader = choose("corpus.format", Choice(name=name), "format", Reader)
    if len(files) != reader.cls.files:
        raise DataError(f"{name} reads {reader.cls.files} file(s) together, found {len(files)}")
    pairs = characters = rejects = 0
    sample: list[Pair] = []
    for item in reader(source or "en", target or "de").read(files):
        if isinstance(item, Row):
            pairs += 1
            characters += len(item.target)
            if len(sample) < _LOOKED_AT:
                sample.append(Pair(item.source, item.target))
        else:
            rejects += 1
    if not pairs:
        names = " and ".join(path.name for path in files)
        raise DataError(f"{names} hold no pair that could be read as {name}")
    guessed = [_language(side) for side in zip(*sample, strict=True)]
    return Look(
        tuple(files),
        name,
        source or guessed[0],
        target or guessed[1],
        pairs,
        characters,
        rejects,
        tuple(islice((pair for pair in sample if all(pair)), _SHOWN)),
    )


def _language(texts: Sequence[str]) -> str:
    from dragoman.corpus.step.language import detect  # noqa: PLC0415  (loads a model)

    seen = Counter(detect(text) for text in texts)
    seen.pop("unsure", None)
    return seen.most_common(1)[0][0] if seen else ""


def write_recipe(seen: Look, home: Path) -> str:
    """Write a commented recipe for what was seen."""
    preset, why = _preset(seen.pairs)
    size, why_size = advise(seen.pairs)
    duplicates = "near" if seen.pairs >= 1_000_000 else "exact"
    files = ", ".join(_quoted(os.path.relpath(path, home)) for path in seen.files)
    return f"""\
# Written by `dragoman init` after a look at {seen.pairs:,} pairs. Change what you know better:
# `dragoman show recipe.yaml` prints every setting with what it means.
preset: {preset}  # {why}
languages: {{source: {seen.source}, target: {seen.target}}}
corpus:
  train:
    - {{files: [{files}], format: {seen.format}}}
  # Name your own sets, or let some pairs be held out of training for both:
  # development: [{{files: [dev.{seen.source}, dev.{seen.target}]}}]
  # test: [{{files: [test.{seen.source}, test.{seen.target}]}}]
  held_out: {max(100, min(2000, seen.pairs // 50))}
  duplicates: {duplicates}  # {_why_duplicates(duplicates)}
tokenizer:
  vocabulary_size: {size}  # {why_size}
""" + _training(preset, seen)


def _preset(pairs: int) -> tuple[str, str]:
    if pairs < 100_000:
        return "tiny", "the best size for so little text; larger models learn it by heart"
    if pairs < 2_000_000:
        return "small", "large enough for this much text; on a CPU it takes days, there take tiny"
    return "base", "the paper's base model; it wants millions of pairs, and a GPU"


def _training(preset: str, seen: Look) -> str:
    """How long to learn, where the rate falls to zero at the last update."""
    settings = load_recipe(preset).training
    if settings.schedule != "linear":
        return ""
    passes = _PASSES * seen.characters / _TOKEN_CHARACTERS / settings.tokens_per_update
    steps = max(_FEWEST_UPDATES, round(passes, -2))
    return f"""\
training:
  steps: {steps:.0f}  # {_PASSES} passes or so; the rate falls to zero at the last
"""


def _why_duplicates(choice: str) -> str:
    if choice == "near":
        return "large corpora repeat themselves with small changes"
    return "small corpora need every variation they have"


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "''") + "'"
