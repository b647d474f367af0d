"""Cost of preparation as the corpus grows, in seconds and memory.

    python bench/scale.py ROWS [--filters unicode,length,...] [--folder WORK]

Makes ROWS pairs of realistic length from the shared Europarl text (the first half of one sentence,
the second half of another), one in fifty of them twice, and prepares them: clean, exact and near
duplicates, split, tokenizer, shards. Prints the seconds of each stage and the peak memory of all
processes together, then reads the first batches of an epoch with the training reader. The last line
is JSON. The text is found through DRAGOMAN_DATA, or beside the repository.
"""

from __future__ import annotations

import argparse
import bz2
import json
import multiprocessing
import os
import shutil
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

import psutil


def write_text(folder: Path, rows: int) -> None:
    """Write the corpus; the mixture is a function of the row number."""
    named = os.environ.get("DRAGOMAN_DATA")
    data = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    sides = []
    for language in ("en", "de"):
        with bz2.open(data / "europarl" / f"train.2005-2010.{language}.bz2", "rt") as file:
            words = [line.split() for line in file]
        halves = [(line[: len(line) // 2], line[len(line) // 2 :]) for line in words]
        sides.append([(" ".join(first), " ".join(second)) for first, second in halves])
    count = len(sides[0])
    files = [(folder / f"all.{language}").open("w") for language in ("en", "de")]
    for row in range(rows):
        number = row - 1 if row % 50 == 49 else row
        first, second = number % count, (number * 7919 + number // count * 104729) % count
        for side, file in zip(sides, files, strict=True):
            file.write(f"{side[first][0]} {side[second][1]}\n")
    for file in files:
        file.close()


class Memory(threading.Thread):
    """Measures the memory of this process and its children."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.largest = 0

    def run(self) -> None:
        """Measure twice a second."""
        me = psutil.Process()
        while True:
            sizes = []
            for process in (me, *me.children(recursive=True)):
                try:
                    memory = process.memory_info()
                    sizes.append(memory.rss - memory.shared)
                except psutil.Error:
                    continue
            self.peak = max(self.peak, sum(sizes))
            self.largest = max(self.largest, *sizes)
            time.sleep(0.5)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=int)
    parser.add_argument("--filters", default="unicode,length,ratio,copies,script,placeholders")
    parser.add_argument("--folder", default="")
    given = parser.parse_args()
    folder = Path(given.folder or tempfile.mkdtemp(prefix="dragoman-scale-"))
    folder.mkdir(parents=True, exist_ok=True)
    # In its own process, so that its memory is not counted.
    writer = multiprocessing.get_context("spawn").Process(
        target=write_text, args=(folder, given.rows)
    )
    writer.start()
    writer.join()
    (folder / "recipe.yaml").write_text(
        "preset: small\nlanguages: {source: en, target: de}\n"
        "corpus:\n  train: [{files: [all.en, all.de]}]\n  duplicates: near\n"
        f"  filters: [{given.filters}]\ntokenizer: {{sample: 1000000}}\n"
    )
    from dragoman.data.sampler import Sampler
    from dragoman.data.store import Prepared
    from dragoman.workflow import preparation

    memory = Memory()
    memory.start()
    seconds: dict[str, float] = {}
    last = start = time.perf_counter()

    def on_progress(progress: preparation.PreparationProgress) -> None:
        nonlocal last
        now = time.perf_counter()
        seconds[progress.stage] = seconds.get(progress.stage, 0.0) + now - last
        last = now

    prepared = preparation.prepare(folder / "recipe.yaml", on_progress=on_progress)
    whole = time.perf_counter() - start
    for stage, value in seconds.items():
        print(f"{stage:<17}{value:9.1f} s{1e6 * value / given.rows:9.2f} s/M pairs", flush=True)
    peak, largest = memory.peak, memory.largest
    report = prepared.report
    print(json.dumps(dict(report.corpora[0].dropped)))
    before = psutil.Process().memory_info().rss
    begun = time.perf_counter()
    batches = Sampler(Prepared.open(folder / "prepared"), 1, 4096).batches()
    next(batches).read()
    first = time.perf_counter() - begun
    for planned in islice(batches, 2000):
        planned.read()
    result = {
        "rows": given.rows,
        "kept": report.splits.train,
        "seconds": round(whole, 1),
        "seconds_per_million": {k: round(1e6 * v / given.rows, 2) for k, v in seconds.items()},
        "peak_memory_gb": round(peak / 1e9, 2),
        "largest_process_gb": round(largest / 1e9, 2),
        "reader_first_batch_seconds": round(first, 2),
        "reader_memory_gb": round((psutil.Process().memory_info().rss - before) / 1e9, 2),
        "disk_gb": round(sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e9, 1),
    }
    print(json.dumps(result), flush=True)
    if not given.folder:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
