"""How fast is preparation, measured against the bare engines in the same run?

    python bench/preparation.py [--quick] [--pairs N]

Three ratios, ours against the bare engine, alternating, median of the repeats; 1 is as fast, more
is faster:

clean_vs_bare_daft            read two text files, clean, drop exact duplicates, write: our pipeline
                              against a plain Daft program with the same steps in its batch
                              function; that one keeps no row numbers, counts no reasons,
                              survives no bad line, and looks for no shifted ones
encode_vs_bare_sentencepiece  encode both sides into shards: our tasks against SentencePiece's own
                              threaded batch call, which writes nothing
batches_vs_bare_arrow         padded batches of an epoch against walking the bare Arrow table row
                              by row

The text is the demo grammar's, cut up and varied, so the benchmark needs no data. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["DAFT_ANALYTICS_ENABLED"] = "0"
os.environ["DO_NOT_TRACK"] = "1"
os.environ.setdefault("DAFT_PROGRESS_BAR", "0")

STEPS = ("unicode", "length", "ratio", "copies", "placeholders")
WORKERS = 2


def write_text(folder: Path, pairs: int) -> None:
    """Write line-aligned files: demo sentences joined to real lengths, one in ten twice."""
    from dragoman.corpus import demo

    chance = random.Random(1)
    items = [(item.source, item.target) for item in demo.items(1, 20_000, "train")]
    with (folder / "all.en").open("w") as source, (folder / "all.de").open("w") as target:
        last: list[tuple[str, str]] = []
        for number in range(pairs):
            if number % 10 or not last:
                last = chance.choices(items, k=chance.randint(1, 6))
            source.write(" ".join(each[0] for each in last) + "\n")
            target.write(" ".join(each[1] for each in last) + "\n")


def recipe_for(folder: Path) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(
        "preset: tiny\nlanguages: {source: en, target: de}\n"
        "corpus:\n  train: [{files: [all.en, all.de]}]\n  held_out: 0\n  duplicates: exact\n"
        f"  steps: [{', '.join(STEPS)}]\ntokenizer: {{vocabulary_size: 8000, sample: 100000}}\n"
    )
    return path


def run_ours(folder: Path) -> dict[str, float]:
    """Prepare from nothing; give the seconds of each stage."""
    from dragoman.corpus.pipeline import Preparation
    from dragoman.recipe_file import load_recipe

    shutil.rmtree(folder / "prepared", ignore_errors=True)
    preparation = Preparation(load_recipe(recipe_for(folder)), folder, folder / "prepared", WORKERS)
    seconds: dict[str, float] = {}
    last = time.perf_counter()
    for progress in preparation.run():
        now = time.perf_counter()
        seconds[progress.stage] = seconds.get(progress.stage, 0.0) + now - last
        last = now
    return seconds


def run_bare_daft(folder: Path) -> float:
    """The same cleaning, as a person would write it with Daft alone."""
    import daft
    import pyarrow as pa

    from dragoman.corpus.cleaning import Pair, Step
    from dragoman.part import Choice, choose

    shutil.rmtree(folder / "bare", ignore_errors=True)
    start = time.perf_counter()

    @daft.cls(use_process=True, max_concurrency=WORKERS)
    class Clean:
        def __init__(self) -> None:
            self.steps = [
                choose("corpus.step", Choice(name=name), "", Step)("en", "de") for name in STEPS
            ]

        @daft.method.batch(
            return_dtype=daft.DataType.struct(
                {"source": daft.DataType.string(), "target": daft.DataType.string()}
            ),
            batch_size=100_000,
        )
        def run(self, sources: daft.Series, targets: daft.Series) -> list[dict[str, str] | None]:
            found: list[dict[str, str] | None] = []
            for row in zip(sources.to_pylist(), targets.to_pylist(), strict=True):
                pair: Pair | str = Pair(*row)
                for step in self.steps:
                    pair = step.apply(pair)  # type: ignore[arg-type]
                    if isinstance(pair, str):
                        break
                is_kept = not isinstance(pair, str)
                found.append({"source": pair[0], "target": pair[1]} if is_kept else None)
            return found

    columns = {
        name: pa.array((folder / f"all.{end}").read_text().split("\n")[:-1])
        for name, end in (("source", "en"), ("target", "de"))
    }
    frame = daft.from_arrow(pa.table(columns))
    cleaned = frame.select(Clean().run(frame["source"], frame["target"]).alias("pair"))
    kept = cleaned.where(cleaned["pair"].not_null())
    kept = kept.select(
        kept["pair"]["source"].alias("source"), kept["pair"]["target"].alias("target")
    )
    kept.distinct().write_parquet(str(folder / "bare"))
    return time.perf_counter() - start


def run_bare_sentencepiece(folder: Path) -> float:
    from dragoman.corpus import table
    from dragoman.tokenizer.sentencepiece import library

    work = folder / "prepared" / "work"
    splits = sorted(next(work.glob("split-*")).glob("*.arrow"))
    model = str(next(work.glob("tokenizer-*")) / "tokenizer.model")
    tokenizer = library.SentencePieceProcessor(model_file=model)
    texts = [table.read_bucket([path], 0) for path in splits]
    sides = [(rows["source"].to_pylist(), rows["target"].to_pylist()) for rows in texts]
    start = time.perf_counter()
    for source, target in sides:
        tokenizer.encode(source, num_threads=WORKERS)
        tokenizer.encode(target, num_threads=WORKERS)
    return time.perf_counter() - start


def run_batches(folder: Path) -> float:
    from dragoman.data.sampler import Sampler
    from dragoman.data.store import Prepared

    start = time.perf_counter()
    for planned in Sampler(Prepared.open(folder / "prepared"), 1, 4096).batches():
        if planned.then.epoch:
            break
        planned.read()
    return time.perf_counter() - start


def run_bare_arrow(folder: Path) -> float:
    import pyarrow as pa

    start = time.perf_counter()
    for path in sorted((folder / "prepared").glob("train-*.arrow")):
        batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        source, target = batch["source"], batch["target"]
        for row in range(batch.num_rows):
            source[row].values.to_numpy()
            target[row].values.to_numpy()
    return time.perf_counter() - start


def median(repeats: int, *runs: Callable[[], float]) -> list[float]:
    """Run them in turn, so that a busy moment of the machine meets all of them."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for index, run in enumerate(runs):
            times[index].append(run())
    for each in times:
        print("   ", " ".join(f"{value:8.2f}" for value in each), file=sys.stderr)
    return [statistics.median(each) for each in times]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="under three minutes")
    parser.add_argument("--pairs", type=int, default=0)
    given = parser.parse_args()
    pairs = given.pairs or (150_000 if given.quick else 600_000)
    folder = Path(tempfile.mkdtemp(prefix="dragoman-bench-"))
    try:
        write_text(folder, pairs)
        cleaning = ("read", "clean", "exact duplicates")
        stages: list[dict[str, float]] = []

        def ours() -> float:
            stages.append(run_ours(folder))
            return sum(stages[-1][stage] for stage in cleaning)

        repeats = 3
        clean, bare_daft = median(repeats, ours, lambda: run_bare_daft(folder))
        shards = statistics.median(each["shards"] for each in stages)
        (bare_sentencepiece,) = median(repeats, lambda: run_bare_sentencepiece(folder))
        batches, bare_arrow = median(
            repeats, lambda: run_batches(folder), lambda: run_bare_arrow(folder)
        )
        for stage in stages[-1]:
            seconds = statistics.median(each[stage] for each in stages)
            print(f"{stage:<17}{seconds:8.2f} s {1e6 * seconds / pairs:8.1f} s/M pairs")
        result = {
            "pairs": pairs,
            "clean_vs_bare_daft": round(bare_daft / clean, 3),
            "encode_vs_bare_sentencepiece": round(bare_sentencepiece / shards, 3),
            "batches_vs_bare_arrow": round(bare_arrow / batches, 3),
            "batch_pairs_per_second": round(pairs / batches),
        }
        print(json.dumps(result))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
