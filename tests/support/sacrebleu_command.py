"""Run sacreBLEU's own command on random texts, as the reference for our scores."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_WORDS = (
    *("the", "The", "a", "of", "and", "in", "house", "houses", "Straße", "schön", "naïve", "日本"),
    *("1,000", "3.5", "U.S.", "it's", "mother-in-law", '"quoted"', "(so)", "e.g.", "50%", "–", "…"),
)


def random_texts(
    seed: int, count: int = 30, *, error_rates: Sequence[float] = (0.3,)
) -> list[list[str]]:
    """A text, and one variant for each rate in which that share of the words is replaced.

    A few lines of the variants are empty.
    """
    rng = random.Random(seed)
    original = [rng.choices(_WORDS, k=rng.randint(1, 12)) for _ in range(count)]
    variants = [
        [
            [word if rng.random() >= rate else rng.choice(_WORDS) for word in line]
            if rng.random() > 0.03
            else []
            for line in original
        ]
        for rate in error_rates
    ]
    return [[" ".join(line) + rng.choice(["", ".", " .", " "]) for line in text]
            for text in (original, *variants)]  # fmt: skip


def sacrebleu(
    folder: Path,
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    *options: str,
) -> str:
    """Run the command on texts and return what it prints."""
    named = {f"reference-{number}": text for number, text in enumerate(references)}
    for name, lines in {**systems, **named}.items():
        text = "".join(f"{line}\n" for line in lines)
        (folder / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", *named, "-i", *systems, *options]
    return subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", check=True
    ).stdout
