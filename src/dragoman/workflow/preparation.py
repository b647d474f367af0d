"""How does raw text become a prepared corpus?

The rooms of this folder know all stages, which stay strangers to each other. Each function is what
one command does, without its printing.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from dragoman.corpus import demo, engine
from dragoman.corpus.look import Look, look, write_recipe
from dragoman.corpus.pipeline import Preparation, Progress, guess_format
from dragoman.corpus.reader import Reader
from dragoman.corpus.report import gather
from dragoman.corpus.report_html import advice, render
from dragoman.corpus.row import Reject
from dragoman.data.store import Prepared, Shard
from dragoman.durable import write_text
from dragoman.errors import DataError
from dragoman.part import Choice, choose
from dragoman.recipe_file import load_recipe
from dragoman.tokenizer.folder import load_tokenizer

_DEMO: dict[demo.Part, int] = {"train": 60_000, "development": 500, "test": 2_000}


def prepare(
    recipe: Path, overrides: Sequence[str] = (), *, workers: int = 0, cluster: str = ""
) -> Iterator[Progress]:
    """Turn the text that a recipe names into a prepared folder; give progress as it is made."""
    settings = load_recipe(recipe, overrides)
    if cluster:
        engine.use_cluster(cluster)
    home = recipe.resolve().parent
    folder = home / settings.corpus.folder
    preparation = Preparation(settings, home, folder, workers or os.cpu_count() or 1)
    yield from preparation.run()
    yield Progress("report", 0, 1)
    report = gather(preparation)
    text = json.dumps(report, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    path = folder / "report.json"
    is_there = path.exists() and (folder / "report.html").exists()
    if not is_there or path.read_text(encoding="utf-8") != text:
        write_text(folder / "report.html", render(report))
        write_text(path, text)
    yield Progress("report", 1, 1)


def summary(recipe: Path, overrides: Sequence[str] = ()) -> str:
    """Say in a few lines what a preparation came to, and where to look."""
    folder = recipe.resolve().parent / load_recipe(recipe, overrides).corpus.folder
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    sides = report["sides"]
    lines = [
        f"{sides['train']:,} pairs to train on, {sides['development']:,} for development, "
        f"{sides['test']:,} for test."
    ]
    lines += [f"! {each}" for each in advice(report)]
    lines.append(f"Look at {os.path.relpath(folder / 'report.html')}")
    return "".join(f"{line}\n" for line in lines)


def init(folder: Path, files: Sequence[Path], languages: str, format_: str) -> tuple[Path, Look]:
    """Look at corpus files and write a recipe for them; never over one that is there."""
    path = _new_recipe(folder)
    source, target = _language_pair(languages)
    seen = look([file.resolve() for file in files], source, target, format_ or None)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, write_recipe(seen, folder.resolve()))
    return path, seen


def init_demo(folder: Path) -> Path:
    """Write the demo corpus and a recipe for it; never over one that is there."""
    path = _new_recipe(folder)
    demo.write(folder, seed=1, counts=_DEMO)
    sides = {part: f"[{part}.en, {part}.de]" for part in _DEMO}
    corpora = "".join(f"  {part}: [{{files: {files}}}]\n" for part, files in sides.items())
    write_text(
        path,
        "# Numbers, dates, clock times and prices: a small problem that is learned in minutes.\n"
        "preset: demo\n"
        f"languages: {{source: en, target: de}}\ncorpus:\n{corpora}"
        "  steps: [unicode]  # Made by a grammar, it needs no cleaning.\n",
    )
    return path


def _new_recipe(folder: Path) -> Path:
    path = folder / "recipe.yaml"
    if path.exists():
        raise DataError(f"{path} exists already; remove it, or choose another folder")
    return path


def pairs(
    files: Sequence[Path], start: int, count: int, languages: str, format_: str
) -> Iterator[tuple[int, str, str]]:
    """Give numbered pairs of a corpus file in any format, or of a prepared folder."""
    if len(files) == 1 and files[0].is_dir():
        yield from islice(_prepared_pairs(files[0]), start - 1, start - 1 + count)
        return
    name = format_ or guess_format([[file] for file in files])
    reader = choose("corpus.format", Choice(name=name), "format", Reader)
    rejects: Counter[str] = Counter()
    shown = seen = 0
    for row in reader(*_language_pair(languages)).read(files):
        if isinstance(row, Reject):
            rejects[row.reason] += 1
            continue
        seen += 1
        if seen >= start:
            yield row
            shown += 1
        if shown == count:
            return
    if not shown:
        reasons = ", ".join(f"{reason} ({number:,})" for reason, number in rejects.most_common(3))
        raise DataError(
            f"there is no pair from number {start:,} on; {seen:,} can be read as {name}, "
            f"rejected: {reasons or 'nothing'}. Name the languages with --languages, as en-de"
        )


def _language_pair(text: str) -> tuple[str, str]:
    """Read `en-de`, or `en:pt-BR` where a code has a region; nothing is nothing."""
    if not text:
        return "", ""
    match = re.fullmatch(r"([a-zA-Z]{2,3})-([a-zA-Z]{2,3})|([\w-]{2,}):([\w-]{2,})", text)
    if match is None:
        raise DataError(f"found --languages {text!r}, expected en-de, or en:pt-BR with a region")
    source, target = (each for each in match.groups() if each)
    return source, target


def _prepared_pairs(folder: Path) -> Iterator[tuple[int, str, str]]:
    prepared = Prepared.open(folder)
    source, target = (load_tokenizer(folder / "tokenizer" / side) for side in ("source", "target"))
    number = 0
    for path in prepared.shards:
        shard = Shard.open(path)
        for row in range(len(shard)):
            number += 1
            first, second = shard.source(row).tolist(), shard.target(row).tolist()
            yield number, " ".join(source.pieces(first)), " ".join(target.pieces(second))
