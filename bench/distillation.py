"""Distills OPUS-MT English-French on everyday sentences, and measures teacher and student.

    python bench/distillation.py TEACHER OUTPUT [--sources 40000] [--only-text] [KEY=VALUE]...

TEACHER is the run that `dragoman import` wrote; it translates with an int8 export. The text is
Tatoeba from DRAGOMAN_DATA: 1,000 sentences for the test, 500 for validation, and others whose
English side the teacher translates. The second test set is every tenth line of newstest2014. It has
other sentences than the student learns from, so it shows what a student of one domain cannot do.

The files are written to OUTPUT/text, and the command that is run is printed. Nothing here is part
of CI: `tests/journey/test_distill.py` does the same with small models.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

DATA = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).parents[2] / "shared" / "data"))
TEST, VALIDATION = 1000, 500
EVERY = 10
"""Every tenth line of newstest2014 is used."""


def read(path: Path) -> list[str]:
    """Return the lines of a compressed text."""
    return gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]


def write(path: Path, lines: Iterable[str]) -> None:
    """Write lines of text."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_text(folder: Path, sources: int) -> None:
    """Write the sets; a sentence belongs to one of them by the hash of its English side."""
    folder.mkdir(parents=True, exist_ok=True)
    # Of several translations, the first is kept.
    pairs: dict[str, str] = {}
    for line in read(DATA / "tatoeba" / "fra.txt.gz"):
        english, french = line.split("\t")[:2]
        pairs.setdefault(english, french)
    english = sorted(pairs, key=lambda text: hashlib.sha256(text.encode()).digest())
    sets = {
        "tatoeba": english[:TEST],
        "validation": english[TEST : TEST + VALIDATION],
    }
    for name, texts in sets.items():
        write(folder / f"{name}.en", texts)
        write(folder / f"{name}.fr", [pairs[text] for text in texts])
    write(folder / "sources.en", english[TEST + VALIDATION :][:sources])
    for side in ("en", "fr"):
        lines = read(DATA / "wmt" / f"newstest2014.en-fr.{side}.gz")
        write(folder / f"newstest2014.{side}", lines[::EVERY])


def main() -> None:
    """Write the text, and distill."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("teacher", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("settings", nargs="*")
    parser.add_argument("--sources", type=int, default=40_000)
    parser.add_argument("--only-text", action="store_true")
    arguments = parser.parse_intermixed_args()
    folder = arguments.output / "text"
    write_text(folder, arguments.sources)
    text = str(folder)
    command = [
        *("dragoman", "distill", str(arguments.teacher), "--quantization", "int8"),
        *("--beam-size", "1", "--workers", "1"),
        *("--data", f"{text}/sources.en"),
        *("--validation", f"{text}/validation.en", f"{text}/validation.fr"),
        *("--test", f"{text}/tatoeba.en", f"{text}/tatoeba.fr"),
        *(f"{text}/newstest2014.en", f"{text}/newstest2014.fr"),
        *("-o", str(arguments.output / "student"), *arguments.settings),
    ]
    print(shlex.join(command), flush=True)
    if not arguments.only_text:
        sys.exit(subprocess.run([sys.executable, "-m", *command], check=False).returncode)


if __name__ == "__main__":
    main()
