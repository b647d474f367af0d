"""How fast does `dragoman train` learn, beside bare PyTorch in the same run?

    python bench/training.py [--quick]

Ratios of time, alternating, median of the repeats; 1 is as fast, more is faster:

tiny_vs_bare, base_vs_bare   the whole loop of `dragoman train` (reading, schedule, clipping,
                             journal) against a bare loop with every trick, on the same batches
tiny_vs_nn_transformer       against `nn.Transformer` as a user would start it; with `_kept`,
                             under the same settings of the allocator

The text is Multi30k, found through DRAGOMAN_DATA or beside the repository. Every contender is a
process of its own (`bare.py`, and this file with `--ours`), asked in turn for one pass over the same
batches. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

HERE = Path(__file__).parent
TOKENS = 4096
STEPS = {"tiny": (24, 8), "base": (3, 1)}
"""Batches of a pass: in full, and with --quick."""


def prepare(folder: Path) -> None:
    from dragoman.workflow import preparation

    named = os.environ.get("DRAGOMAN_DATA")
    data = Path(named) if named else HERE.parents[1] / "shared" / "data"
    files = [str(data / "multi30k" / f"train.{language}.gz") for language in ("en", "de")]
    (folder / "tiny.yaml").write_text(_recipe("tiny", files))
    (folder / "base.yaml").write_text(_recipe("base", files))
    for _ in preparation.prepare(folder / "tiny.yaml"):
        pass


def _recipe(preset: str, files: list[str]) -> str:
    # The bare loop's model: it adds sinusoids.
    model = "model: {position: sinusoidal, dropout: 0.3}\n" if preset == "tiny" else ""
    return (
        f"preset: {preset}\nlanguages: {{source: en, target: de}}\n"
        f"corpus: {{train: [{{files: {json.dumps(files)}}}], held_out: 100}}\n"
        f"{model}tokenizer: {{vocabulary_size: 8000}}\n"
        f"training: {{folder: run-{preset}, tokens_per_update: {TOKENS}, micro_batch: {TOKENS}, "
        "optimizer: adam, moving_average: 0, validation_pairs: 10}\n"
    )


def write_batches(folder: Path, path: Path, count: int) -> list[int]:
    """Write the first batches that a run sees; give the target tokens of each."""
    import numpy as np

    from dragoman.data.sampler import Sampler
    from dragoman.data.store import Prepared

    planned = Sampler(Prepared.open(folder / "prepared"), 1, TOKENS).batches()
    arrays, tokens = {}, []
    for number, each in enumerate(islice(planned, count)):
        batch = each.read()
        arrays[f"source{number}"], arrays[f"target{number}"] = batch.source, batch.target
        arrays[f"expected{number}"] = batch.expected
        tokens.append(int(batch.target_is_real.sum()))
    np.savez(path, **arrays)
    return tokens


def run_ours(recipe: Path, count: int) -> None:
    """Train as the command does; for each line on the input, go on for `count` steps."""
    from dragoman.workflow import training

    never = 10**9
    settings = [f"training.{name}={never}" for name in ("steps", "validate_every", "save_every")]
    events = training.train(recipe, [*settings, f"training.log_every={count}"])
    for _ in sys.stdin:
        start = time.perf_counter()
        next(events)
        print(time.perf_counter() - start, flush=True)


class Contender:
    """A process that learns when it is asked to, and says how long it took."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.seconds: list[float] = []

    def learn(self) -> float:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"a contender has died with code {self.process.wait()}")
        return float(answer)

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


def race(folder: Path, size: str, kinds: list[str], steps: int, repeats: int) -> dict[str, float]:
    """Let everyone learn the same batches, in turn; give how much faster we are than each."""
    from dragoman.tokenizer.folder import load_tokenizer

    path = folder / f"{size}.npz"
    tokens = write_batches(folder, path, steps * (repeats + 1))
    vocabulary = load_tokenizer(folder / "prepared" / "tokenizer" / "target").size
    ours = [str(HERE / "training.py"), "--ours", str(folder / f"{size}.yaml"), str(steps)]
    contenders = {"ours": Contender(ours)}
    for kind in kinds:
        bare = [str(HERE / "bare.py"), size, kind, str(path), str(vocabulary), str(steps)]
        contenders[kind] = Contender(bare)
    speeds: dict[str, list[float]] = {kind: [] for kind in contenders}
    for number in range(repeats + 1):
        asked = sum(tokens[number * steps : (number + 1) * steps])
        for kind, contender in contenders.items():
            seconds = contender.learn()
            if number:  # The first pass warms up.
                speeds[kind].append(asked / seconds)
    for kind, contender in contenders.items():
        contender.end()
        passes = " ".join(f"{each:8,.0f}" for each in speeds[kind])
        middle = statistics.median(speeds[kind])
        print(f"{size:<5}{kind:<11}{middle:8,.0f} target tokens/s   of {passes}", flush=True)
    faster = {
        kind: statistics.median(own / each for own, each in zip(speeds["ours"], others, strict=True))
        for kind, others in speeds.items()
    }
    return faster | {"speed": statistics.median(speeds["ours"])}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="under three minutes")
    parser.add_argument("--ours", nargs=2, metavar=("RECIPE", "STEPS"), help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, default=0)
    given = parser.parse_args()
    if given.ours:
        run_ours(Path(given.ours[0]), int(given.ours[1]))
        return
    repeats = given.repeats or (3 if given.quick else 7)
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as name:
        folder = Path(name)
        prepare(folder)
        tiny = race(
            folder, "tiny", ["bare", "torch", "torch-kept"], STEPS["tiny"][given.quick], repeats
        )
        base = race(folder, "base", ["bare"], STEPS["base"][given.quick], repeats)
    result = {
        "tiny_vs_bare": tiny["bare"],
        "base_vs_bare": base["bare"],
        "tiny_vs_nn_transformer": tiny["torch"],
        "tiny_vs_nn_transformer_kept": tiny["torch-kept"],
        "tiny_tokens_per_second": tiny["speed"],
        "base_tokens_per_second": base["speed"],
    }
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


if __name__ == "__main__":
    main()
