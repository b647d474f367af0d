"""How is an experiment run, kept and shown?

    FOLDER/c09.json     the claim, its criterion, all numbers, the verdict, and what it took
    FOLDER/c09.svg      the figure
    FOLDER/README.md    every claim that stands in the folder, with figure and verdict

The page is made from the JSON files alone, so it can be made again at any time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

from dragoman import __version__
from dragoman.durable import new_file, write_text
from dragoman.lab.experiment import Experiment, Size, claims

_PAGE = "README.md"
_SIGNS = {"holds": "●", "holds in part": "◐", "does not hold here": "○"}


def run(experiment: Experiment, size: Size, seed: int, folder: Path) -> dict[str, Any]:
    """Run one experiment, write its numbers and its figure, and give what was written."""
    name = experiment.name()
    with _one_thread():
        start = time.perf_counter()
        measured = experiment.measure(size, seed)
        seconds = time.perf_counter() - start
    numbers = json.loads(json.dumps(measured, allow_nan=False))  # What is judged is what is stored.
    judgement = experiment.judge(numbers)
    told = {
        "claim": name,
        "title": experiment.title,
        "says": experiment.claim,
        "lectures": list(experiment.lectures),
        "method": experiment.method,
        "criterion": experiment.criterion,
        "verdict": judgement.verdict,
        "because": judgement.because,
        "is_certain": experiment.is_certain,
        "size": size,
        "seed": seed,
        "seconds": round(seconds, 1),
        "dragoman": __version__,
        "torch": torch.__version__,
        "numbers": numbers,
    }
    folder.mkdir(parents=True, exist_ok=True)
    draw(experiment, numbers, folder / f"{_stem(name)}.svg")
    write_text(folder / f"{_stem(name)}.json", render(told))
    return told


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute in one thread: sums in one order everywhere, and small matrices gain by no more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def render(told: dict[str, Any]) -> str:
    """One line for each thing that is told: numbers are for machines, the rest is to be read."""
    lines = (f" {json.dumps(key)}: {json.dumps(told[key], ensure_ascii=False)}" for key in told)
    return "{\n" + ",\n".join(lines) + "\n}\n"


def draw(experiment: Experiment, numbers: dict[str, Any], path: Path) -> None:
    """Draw the figure; the same numbers give the same file."""
    with rc_context({"svg.hashsalt": path.stem, "font.size": 9, "svg.fonttype": "path"}):
        figure = Figure(figsize=(7, 3.6), dpi=120, layout="constrained")
        experiment.draw(numbers, figure)
        kind = path.suffix[1:]
        kept = {"Date": None} if kind == "svg" else {}
        with new_file(path) as temporary:
            figure.savefig(temporary, format=kind, metadata=kept)


def write_page(folder: Path) -> Path:
    """Write the page of everything that was run into this folder."""
    found = list(_found(folder))
    lines = [
        "# The lectures' claims, tried",
        "",
        "Each claim is one file in `src/dragoman/lab/claim/`. Its criterion can fail, and a test "
        "shows with other numbers that it would. A quick run is short and knows few seeds: what it "
        "finds may be chance. Time is what this run took; translators that another claim had "
        "trained before are not trained again.",
        "",
        "| claim | verdict | run with | seconds |",
        "|---|---|---|---|",
    ]
    for told in found:
        link = f"[{told['claim']} {told['title']}](#{_anchor(told)})"
        verdict = f"{_SIGNS[told['verdict']]} {told['verdict']}"
        typed = f"`dragoman lab run {told['claim']} --{told['size']} --seed {told['seed']}`"
        lines.append(f"| {link} | {verdict} | {typed} | {told['seconds']:.0f} |")
    for told in found:
        lines += ["", *_section(told)]
    path = folder / _PAGE
    write_text(path, "\n".join(lines) + "\n")
    return path


def _section(told: dict[str, Any]) -> Iterator[str]:
    yield f"## {told['claim']} {told['title']}"
    yield ""
    yield f"*{told['says']}* (lectures {', '.join(told['lectures'])})"
    yield ""
    yield f"**{_SIGNS[told['verdict']]} {told['verdict']}.** {told['because']}"
    yield ""
    yield f"![{told['title']}]({_stem(told['claim'])}.svg)"
    yield ""
    yield f"*What was done.* {told['method']}"
    yield ""
    yield f"*Criterion.* {told['criterion']}"


def _anchor(told: dict[str, Any]) -> str:
    """As GitHub makes it of a heading."""
    heading = f"{told['claim']} {told['title']}".lower()
    return "".join(
        "-" if each == " " else each for each in heading if each.isalnum() or each in " -_"
    )


def _found(folder: Path) -> Iterator[dict[str, Any]]:
    for name in claims():
        path = folder / f"{_stem(name)}.json"
        if path.exists():
            yield json.loads(path.read_text(encoding="utf-8"))


def _stem(name: str) -> str:
    return f"c{int(name[1:]):02}"
