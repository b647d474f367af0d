"""How much does a published model gain from a domain? OPUS-MT en-fr and the Python documentation.

    python bench/adaptation.py data FOLDER
    python bench/adaptation.py run FOLDER RUN [--pairs 100 1000 5000 20000]
        [--methods full adapters] [--replay 0.5 0] [--minutes 30] [--settings key=value...]
    python bench/adaptation.py table FOLDER

`data` cuts the sets from DRAGOMAN_DATA. The test pairs come from PO files of which no pair is in
the training sets, and each training set contains the smaller ones. General text is newstest2013 and
a sample of Tatoeba. newstest2014 (every tenth line) is in no set: it is the independent test of
general quality.

`run` adapts RUN (`dragoman import helsinki_en_fr RUN`) with `dragoman.adapt`, once for each
combination that is not finished yet, exports the candidate to int8 and measures it. `table` prints
what was measured, as Markdown. Nothing here is part of CI.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from import_opus import DATA, EVERY, read_test_set

TEST_PAIRS = 500
"""In-domain pairs of which adaptation makes the validation and the test set."""
SIZES = (100, 1000, 5000, 20000)
TATOEBA_PAIRS = 7000
SEED = 1
_ESCAPES = {"\\\\": "\\", "\\n": " ", "\\r": " ", "\\t": " "}


class Pair(NamedTuple):
    """A sentence or paragraph and its translation."""

    source: str
    target: str


class GeneralTest(NamedTuple):
    """newstest2014, translated by an int8 export."""

    lines: list[str]
    references: list[str]


class Scores(BaseModel):
    """The quality of one model on all test sets."""

    model_config = ConfigDict(frozen=True)

    bleu: float
    chrf: float
    general_bleu: float
    """newstest2014, with the int8 export."""
    markup: float
    """Percentage of test pairs with markup whose markup is that of the reference."""


class Measurement(BaseModel):
    """One adaptation with its figures."""

    model_config = ConfigDict(frozen=True)

    pairs: int
    method: str
    replay: float
    minutes: float
    """Training time."""
    cpu_seconds: float
    """Of the whole adaptation."""
    updates: int
    verdict: str
    before: Scores
    after: Scores
    """Of the float32 model, as the gate has translated; all with CTranslate2 and one search."""
    int8: Scores


def python_docs() -> Iterator[tuple[str, Pair]]:
    """Yield the PO file and the pair of every entry; line breaks become spaces."""
    path = DATA / "python-docs" / "python-docs.en-fr.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            name, *sides = line.rstrip("\n").split("\t")
            source, target = (
                " ".join(re.sub(r"\\[\\nrt]", lambda m: _ESCAPES[m[0]], side).split())
                for side in sides
            )
            if source != target:
                yield name, Pair(source, target)


def general_text() -> Iterator[Pair]:
    """Yield newstest2013 and a sample of Tatoeba."""
    sides = []
    for language in ("en", "fr"):
        path = DATA / "wmt" / f"newstest2013.{language}.gz"
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            sides.append([line.strip() for line in file])
    yield from map(Pair, *sides)
    with gzip.open(DATA / "tatoeba" / "fra.txt.gz", "rt", encoding="utf-8", newline="\n") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    by_source = {cells[0]: cells[1] for cells in rows}
    chosen = random.Random(SEED).sample(sorted(by_source.items()), TATOEBA_PAIRS)
    yield from (Pair(source, target) for source, target in chosen)


def cut(folder: Path) -> None:
    """Write the test set, the training sets and the general text."""
    by_file: dict[str, list[Pair]] = {}
    for name, pair in python_docs():
        by_file.setdefault(name, []).append(pair)
    names = sorted(by_file)
    random.Random(SEED).shuffle(names)
    test: list[Pair] = []
    while len(test) < TEST_PAIRS:
        test += by_file.pop(names.pop())[:40]
    seen = {pair.source for pair in test[:TEST_PAIRS]}
    train = [pair for name in names for pair in by_file[name] if pair.source not in seen]
    random.Random(SEED).shuffle(train)
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "test.tsv", test[:TEST_PAIRS])
    for size in SIZES:
        write(folder / f"train-{size}.tsv", train[:size])
    write(folder / "general.tsv", list(general_text()))
    print(f"{len(train):,} training pairs in {len(names)} files; {TEST_PAIRS} test pairs")


def write(path: Path, pairs: Sequence[Pair]) -> None:
    """Write pairs as TSV."""
    lines = (f"{pair.source}\t{pair.target}\n" for pair in pairs)
    path.write_text("".join(lines), encoding="utf-8")


def score(
    sources: list[str], references: list[str], lines: list[str], general: GeneralTest
) -> Scores:
    """Score the translations of the in-domain test set and of newstest2014."""
    import sacrebleu

    from dragoman.text.spans import find_spans

    def markup(text: str) -> list[str]:
        return sorted(span.text for span in find_spans(text))

    kept = [
        markup(line) == markup(reference)
        for source, line, reference in zip(sources, lines, references, strict=True)
        if markup(reference) and markup(source) == markup(reference)
    ]
    return Scores(
        bleu=sacrebleu.corpus_bleu(lines, [references]).score,
        chrf=sacrebleu.corpus_chrf(lines, [references]).score,
        general_bleu=sacrebleu.corpus_bleu(general.lines, [general.references]).score,
        markup=100 * sum(kept) / len(kept),
    )


def translate(model: Path, texts: list[str], settings: Sequence[str]) -> list[str]:
    """Translate with the same search for all models."""
    from dragoman.inference.translator import Translator

    search = [setting for setting in settings if setting.startswith("decoding.")]
    with Translator.load(model, search) as translator:
        return [translation.text for translation in translator.translate(texts)]


def int8_of(model: Path, exported: Path) -> Path:
    """Export a model to int8, once."""
    if not exported.exists():
        command = [sys.executable, "-m", "dragoman", "export", str(model)]
        subprocess.run([*command, "--quantization", "int8", "-o", str(exported)], check=True)
    return exported


def adapt_one(
    folder: Path,
    run: Path,
    pairs: int,
    method: str,
    replay: float,
    minutes: float,
    settings: Sequence[str],
) -> Measurement:
    """Adapt the model to one training set, and measure parent and candidate."""
    import dragoman
    from dragoman.adaptation.data import open_test_sets

    name = f"{method}-{pairs}-{replay:g}"
    output = folder / name
    result = dragoman.adapt(
        run,
        [folder / f"train-{pairs}.tsv"],
        output=output,
        test=[folder / "test.tsv"],
        general=[folder / "general.tsv"],
        minutes=minutes,
        settings=[f"adaptation.method={method}", f"adaptation.replay={replay}", *settings],
        keep_work=True,
        on_progress=Lines(),
    )
    news = read_test_set(("en", "fr"), 3003 // EVERY)
    parent_int8 = int8_of(run, folder / "parent-int8")
    parent_news = folder / "parent-newstest2014.txt"
    if not parent_news.exists():
        parent_news.write_text("\n".join(translate(parent_int8, news.sources, settings)))
    exported = int8_of(result.version, folder / f"{name}-int8")
    sources, references = open_test_sets(output / "tests").read("in_domain")
    general = GeneralTest(translate(exported, news.sources, settings), news.references)
    (outputs,) = (output / "work" / "2").glob("*/outputs")
    parent, candidate = (
        (outputs / f"in_domain.{system}").read_text().split("\n")[:-1]
        for system in ("parent", "candidate")
    )
    before = GeneralTest(parent_news.read_text().split("\n"), news.references)
    measurement = Measurement(
        pairs=pairs,
        method=method,
        replay=replay,
        minutes=result.report.cost.minutes,
        cpu_seconds=result.report.cost.cpu_seconds,
        updates=result.report.cost.updates,
        verdict=result.record.state,
        before=score(sources, references, parent, before),
        after=score(sources, references, candidate, general),
        int8=score(sources, references, translate(exported, sources, settings), general),
    )
    shutil.rmtree(output / "work")
    return measurement


class Lines:
    """Prints stages and validations with the time."""

    def __init__(self) -> None:
        self.start = time.monotonic()

    def __call__(self, event: object) -> None:
        """Print what a reader of the log needs."""
        name = type(event).__name__
        if name in ("AdaptationStage", "ValidationResult"):
            print(f"{(time.monotonic() - self.start) / 60:6.1f} min  {event}", flush=True)


def table(folder: Path) -> None:
    """Print all measurements."""
    print("| pairs | method | replay | BLEU | chrF | newstest2014 | markup | int8 BLEU |", end="")
    print(" updates | minutes | CPU s | gate |\n" + "|---" * 12 + "|")
    rows = [
        Measurement.model_validate_json(path.read_bytes())
        for path in folder.glob("measured-*.json")
    ]
    for one in sorted(rows, key=lambda row: (row.method, -row.replay, row.pairs)):
        b, a = one.before, one.after
        print(
            f"| {one.pairs:,} | {one.method} | {one.replay:g} | {b.bleu:.1f} → {a.bleu:.1f} "
            f"| {b.chrf:.1f} → {a.chrf:.1f} | {b.general_bleu:.1f} → {a.general_bleu:.1f} "
            f"| {b.markup:.0f} → {a.markup:.0f} % | {one.int8.bleu:.1f} | {one.updates} "
            f"| {one.minutes:.0f} | {one.cpu_seconds:,.0f} | {one.verdict} |"
        )


def main() -> None:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("data", "run", "table"):
        commands.add_parser(name).add_argument("folder", type=Path)
    options = commands.choices["run"]
    options.add_argument("model", type=Path)
    options.add_argument("--settings", nargs="+", default=[], metavar="key=value")
    options.add_argument("--pairs", type=int, nargs="+", default=list(SIZES))
    options.add_argument("--methods", nargs="+", default=["full", "adapters"])
    options.add_argument("--replay", type=float, nargs="+", default=[0.5, 0.0])
    options.add_argument("--minutes", type=float, default=30.0)
    arguments = parser.parse_args()
    if arguments.command == "data":
        cut(arguments.folder)
    elif arguments.command == "table":
        table(arguments.folder)
    else:
        for replay in arguments.replay:
            for method in arguments.methods:
                for pairs in arguments.pairs:
                    path = arguments.folder / f"measured-{method}-{pairs}-{replay:g}.json"
                    if path.exists():
                        continue
                    print(f"== {pairs} pairs, {method}, replay {replay:g}", flush=True)
                    one = adapt_one(
                        arguments.folder,
                        arguments.model,
                        pairs,
                        method,
                        replay,
                        arguments.minutes,
                        arguments.settings,
                    )
                    path.write_text(one.model_dump_json(indent=1))
                    print(one.after, flush=True)


if __name__ == "__main__":
    main()
