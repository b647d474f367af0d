"""What does sacreBLEU's own command say, and about which texts is it asked?"""

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


def texts(seed: int, count: int = 30, *, wrong: Sequence[float] = (0.3,)) -> list[list[str]]:
    """A text, and others that say something else for so many of its words; some say nothing."""
    chance = random.Random(seed)
    first = [chance.choices(_WORDS, k=chance.randint(1, 12)) for _ in range(count)]
    others = [
        [
            [word if chance.random() >= rate else chance.choice(_WORDS) for word in line]
            if chance.random() > 0.03
            else []
            for line in first
        ]
        for rate in wrong
    ]
    return [[" ".join(line) + chance.choice(["", ".", " .", " "]) for line in text]
            for text in (first, *others)]  # fmt: skip


def sacrebleu(
    folder: Path,
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    *options: str,
) -> str:
    """Run the command on texts, and give what it prints."""
    named = {f"reference-{number}": text for number, text in enumerate(references)}
    for name, lines in {**systems, **named}.items():
        text = "".join(f"{line}\n" for line in lines)
        (folder / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", *named, "-i", *systems, *options]
    return subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", check=True
    ).stdout
