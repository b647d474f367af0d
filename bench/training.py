"""Speed of `dragoman train` compared with bare PyTorch in the same run.

    python bench/training.py [--quick] [--repeats N]

Ratios of speed, alternating, median of the repeats; above 1 we are faster. `_cpu` is the ratio of
CPU seconds:

tiny_vs_bare, base_vs_bare   the whole loop of `dragoman train` (reading, schedule, clipping,
                             journal) against a bare loop with the same optimizations, on the same
                             batches
tiny_vs_nn_transformer       against `nn.Transformer` as its documentation uses it; with
                             `_allocator`, under the same allocator settings

The text is Multi30k, found through DRAGOMAN_DATA or beside the repository. Every contender is its
own process (`bare.py`, and this file with `--ours`), asked in turn to train on the same batches.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

from timing import Seconds, median, now, ratios, since

HERE = Path(__file__).parent
NAMES = {"bare": "bare", "torch": "nn_transformer", "torch-kept": "nn_transformer_allocator"}
TOKENS = 4096
STEPS = {"tiny": (24, 8), "base": (3, 1)}
"""Batches per pass: in full, and with --quick."""


def prepare(folder: Path) -> None:
    """Prepare Multi30k once for all contenders."""
    from dragoman.workflow import preparation

    named = os.environ.get("DRAGOMAN_DATA")
    data = Path(named) if named else HERE.parents[1] / "shared" / "data"
    files = [str(data / "multi30k" / f"train.{language}.gz") for language in ("en", "de")]
    (folder / "tiny.yaml").write_text(_recipe("tiny", files))
    (folder / "base.yaml").write_text(_recipe("base", files))
    preparation.prepare(folder / "tiny.yaml")


def _recipe(preset: str, files: list[str]) -> str:
    # The model of the bare loop adds sinusoids.
    model = "model: {position: sinusoidal, dropout: 0.3}\n" if preset == "tiny" else ""
    return (
        f"preset: {preset}\nlanguages: {{source: en, target: de}}\n"
        f"corpus: {{train: [{{files: {json.dumps(files)}}}], held_out: 100}}\n"
        f"{model}tokenizer: {{vocabulary_size: 8000}}\n"
        f"training: {{folder: run-{preset}, tokens_per_update: {TOKENS}, micro_batch: {TOKENS}, "
        "optimizer: adam, ema_decay: 0, validation_pairs: 10}\n"
    )


def write_batches(folder: Path, path: Path, count: int) -> list[int]:
    """Write the first batches that a run reads; return the target tokens of each."""
    import numpy as np

    from dragoman.data.sampler import Sampler
    from dragoman.data.store import Prepared

    planned = Sampler(Prepared.open(folder / "prepared"), 1, TOKENS).batches()
    arrays, tokens = {}, []
    for number, plan in enumerate(islice(planned, count)):
        batch = plan.read()
        arrays[f"source{number}"], arrays[f"target{number}"] = batch.source, batch.target
        arrays[f"expected{number}"] = batch.expected
        tokens.append(int(batch.target_is_real.sum()))
    np.savez(path, **arrays)
    return tokens


def run_ours(recipe: Path, count: int) -> None:
    """Train as the command does; for each line on the input, train for `count` updates."""
    from dragoman.training.device import keep_memory
    from dragoman.training.events import TrainingEvent, TrainingProgress
    from dragoman.workflow import training

    keep_memory()
    never = 10**9
    settings = [f"training.{name}={never}" for name in ("steps", "validate_every", "save_every")]
    sys.stdin.readline()
    start = now()

    def on_progress(event: TrainingEvent) -> None:
        nonlocal start
        if isinstance(event, TrainingProgress) and event.step % count == 0:
            print(*since(start), flush=True)
            if not sys.stdin.readline():
                sys.exit()
            start = now()

    training.train(recipe, [*settings, f"training.log_every={count}"], on_progress=on_progress)


class Contender:
    """A process that trains on request and reports how long it took."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def train(self) -> Seconds:
        """Train for one pass."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"a contender has died with code {self.process.wait()}")
        return Seconds(*map(float, answer.split()))

    def end(self) -> None:
        """Stop the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


def race(folder: Path, size: str, kinds: list[str], steps: int, repeats: int) -> dict[str, float]:
    """Train all contenders on the same batches, in turn; return the ratios of speed."""
    from dragoman.tokenizer.folder import load_tokenizer

    path = folder / f"{size}.npz"
    tokens = write_batches(folder, path, steps * (repeats + 1))
    vocabulary = load_tokenizer(folder / "prepared" / "tokenizer" / "target").size
    ours = [str(HERE / "training.py"), "--ours", str(folder / f"{size}.yaml"), str(steps)]
    contenders = {"ours": Contender(ours)}
    for kind in kinds:
        bare = [str(HERE / "bare.py"), size, kind, str(path), str(vocabulary), str(steps)]
        contenders[kind] = Contender(bare)
    times: dict[str, list[Seconds]] = {kind: [] for kind in contenders}
    for number in range(repeats + 1):
        for kind, contender in contenders.items():
            seconds = contender.train()
            if number:  # The first pass is a warm-up.
                times[kind].append(seconds)
    trained = sum(tokens[steps:]) / repeats
    for kind, contender in contenders.items():
        contender.end()
        passes = " ".join(f"{trained / seconds.wall:8,.0f}" for seconds in times[kind])
        speed = trained / median(times[kind]).wall
        print(f"{size:<5}{kind:<11}{speed:8,.0f} target tokens/s   of {passes}", flush=True)
    result = {f"{size}_tokens_per_second": round(trained / median(times["ours"]).wall)}
    for kind in kinds:
        result |= ratios(f"{size}_vs_{NAMES[kind]}", times["ours"], times[kind])
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="about five minutes")
    parser.add_argument("--ours", nargs=2, metavar=("RECIPE", "STEPS"), help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, default=0)
    given = parser.parse_args()
    if given.ours:
        run_ours(Path(given.ours[0]), int(given.ours[1]))
        return
    repeats = given.repeats or (5 if given.quick else 7)
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as name:
        folder = Path(name)
        prepare(folder)
        kinds = ["bare", "torch", "torch-kept"]
        result = race(folder, "tiny", kinds, STEPS["tiny"][given.quick], repeats)
        result |= race(folder, "base", ["bare"], STEPS["base"][given.quick], repeats)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
