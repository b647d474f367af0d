"""`dragoman plan --measure` compared with real runs on this machine.

    python bench/plan.py [--write] [--folder FOLDER] [--only NAME]

Five runs: one preparation (100,000 pairs of Europarl), training of the presets tiny, small and base
(vocabulary of 8,000, short), and one translation. Each is planned first, with a measurement, and
then made. The planned and the real figures are compared: CPU seconds, peak memory of the process
and its children, bytes written. A ratio above 1 means that the plan was too high.

The text is found through DRAGOMAN_DATA or beside the repository. --write puts the table into
docs/plan.md. One thread per process, so that CPU seconds do not depend on waiting threads.
"""

from __future__ import annotations

import argparse
import bz2
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from dragoman.planning.usage import run_measured
from dragoman.workflow.planning import PlanOptions, plan

HERE = Path(__file__).parent
DOCUMENT = HERE.parent / "docs" / "plan.md"
BEGIN, END = "<!-- runs: begin -->", "<!-- runs: end -->"
PAIRS = 100_000
SENTENCES = 200
TRAINING = {
    "tiny": {"steps": 120, "validate_every": 60, "save_every": 40},
    "small": {"steps": 6, "validate_every": 3, "save_every": 2},
    "base": {"steps": 4, "validate_every": 4, "save_every": 2, "tokens_per_update": 2000},
}
VALIDATION_PAIRS = {"tiny": 100, "small": 30, "base": 10}
FIGURES = {
    "preparation": ("cpu_time", "peak_memory", "written"),
    "training": ("cpu_time", "peak_memory_per_rank", "written"),
    "translation": ("cpu_time", "peak_memory", "written"),
}


class Row(NamedTuple):
    """CPU seconds, peak memory and bytes written of one run."""

    name: str
    planned: list[float]
    real: list[float]


def write_text(folder: Path) -> None:
    """Write the first pairs of Europarl, and the text to translate."""
    named = os.environ.get("DRAGOMAN_DATA")
    data = Path(named) if named else HERE.parents[1] / "shared" / "data"
    for language in ("en", "de"):
        source = data / "europarl" / f"train.2005-2010.{language}.bz2"
        with bz2.open(source, "rt", encoding="utf-8") as file:
            lines = list(islice(file, PAIRS + SENTENCES))
        (folder / f"train.{language}").write_text("".join(lines[:PAIRS]), encoding="utf-8")
        if language == "en":
            (folder / "in.txt").write_text("".join(lines[PAIRS:]), encoding="utf-8")


def write_recipe(folder: Path, preset: str) -> Path:
    """Write a recipe of a preset; all presets share one prepared folder."""
    path = folder / f"{preset}.yaml"
    training = {
        **TRAINING[preset],
        "folder": f"run-{preset}",
        "validation_pairs": VALIDATION_PAIRS[preset],
        "patience": 0,
    }
    content = {
        "preset": preset,
        "languages": {"source": "en", "target": "de"},
        "corpus": {"train": [{"files": ["train.en", "train.de"]}]},
        "tokenizer": {"vocabulary_size": 8000},
        "training": training,
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def compare(name: str, stage: str, recipe: Path, command: list[str], options: PlanOptions) -> Row:
    """Plan a run, make it, and return the planned and the real figures."""
    folder = recipe.parent

    def planned() -> list[float]:
        figures = plan(recipe, (), options).stage(stage)
        return [figures.value(figure) for figure in FIGURES[stage]]

    def real() -> list[float]:
        usage, _ = run_measured((sys.executable, "-m", "dragoman", *command))
        return [usage.cpu_seconds, usage.peak_bytes, usage.written_bytes]

    return Row(name, kept(folder, f"{name}, planned", planned), kept(folder, f"{name}, real", real))


def kept(folder: Path, name: str, measure: Callable[[], list[float]]) -> list[float]:
    """Measure once; a second start of this program in the same folder reads the figures."""
    path = folder / f"{name}.json"
    if not path.exists():
        print(name, file=sys.stderr)
        values = measure()
        path.write_text(json.dumps(values), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def runs(folder: Path, only: str) -> list[Row]:
    """Make the comparisons whose name begins with `only`."""
    if not (folder / "in.txt").exists():
        write_text(folder)
    recipes = {preset: write_recipe(folder, preset) for preset in TRAINING}
    tiny = recipes["tiny"]
    measured = PlanOptions(cores=1, sentences=SENTENCES)
    options = replace(measured, pairs=PAIRS, measure=frozenset({"preparation"}))
    jobs = [("preparation", "preparation", tiny, ["prepare", str(tiny)], options)]
    options = replace(measured, measure=frozenset({"training"}))
    for preset, recipe in recipes.items():
        jobs.append((f"training, {preset}", "training", recipe, ["train", str(recipe)], options))
    options = replace(measured, measure=frozenset({"translation"}))
    files = [str(folder / name) for name in ("in.txt", "out.txt")]
    command = ["translate", str(folder / "run-tiny"), "-i", files[0], "-o", files[1]]
    jobs.append(("translation, tiny", "translation", tiny, command, options))
    return [compare(*job) for job in jobs if job[0].startswith(only)]


def table(rows: list[Row]) -> str:
    """Return the table for the document."""
    lines = [
        "| run | CPU seconds: plan / real | ratio | peak memory: plan / real | ratio "
        "| written: plan / real | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [row.name]
        units = ((1, "s"), (1e6, "MB"), (1e6, "MB"))
        for planned, real, (scale, unit) in zip(row.planned, row.real, units, strict=True):
            texts = (f"{value / scale:,.1f}" for value in (planned, real))
            cells += [f"{' / '.join(texts)} {unit}", f"{planned / real:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run the comparison, print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into docs/plan.md")
    parser.add_argument("--folder", type=Path, help="keep and reuse the runs in this folder")
    parser.add_argument("--only", default="", help="runs whose name begins with this text")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        text = table(runs(folder, arguments.only))
    print(text)
    if arguments.write:
        document = DOCUMENT.read_text(encoding="utf-8")
        before, after = document.partition(BEGIN)[0], document.partition(END)[2]
        DOCUMENT.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
