"""Measure C16 one training at a time, and write its finding when none is missing.

    python bench/c16.py "large transformer" [--quick]

`dragoman lab run C16 --full` does the same with one command, in seven to fifteen hours of one core.
Here the numbers of each training are stored at once in docs/lab/c16/, so that two networks can be
measured at the same time, or on several days and machines. Networks: transformer, recurrent,
convolutional, and the same with "large". Without a network, nothing is trained: the finding is
written from what is stored, or the networks are named that need more trainings. The text is found
through DRAGOMAN_DATA; runs are kept in `lab-runs` or DRAGOMAN_LAB.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dragoman.errors import DivergedError
from dragoman.lab import baselines
from dragoman.lab.baselines import comparison
from dragoman.lab.claims import c16_baseline_table
from dragoman.lab.claims.c16_baseline_table import NAMES, BaselineTable, train_network
from dragoman.lab.digest import measurement_code
from dragoman.lab.experiment import Size
from dragoman.lab.finding import write_finding
from dragoman.lab.gallery import one_thread, store
from dragoman.lab.translation_runs import ParallelText, TranslatorResult, train_translator
from dragoman.storage.files import write_text
from dragoman.storage.machine import vector_instructions

GALLERY = Path(__file__).parents[1] / "docs" / "lab"
SEED = 2026
CODE = measurement_code(BaselineTable.__module__).digest


class MissingTrainingError(Exception):
    """A network needs a training that is not stored."""


class StoredTrainings:
    """Stands for `train_translator`: reads the numbers of a training, or trains and stores them.

    A training that diverged raises `DivergedError` each time, without training again.
    """

    def __init__(self, folder: Path, *, may_train: bool) -> None:
        self.folder = folder
        self.may_train = may_train
        self.used: list[dict[str, Any]] = []

    def __call__(self, text: ParallelText, settings: Sequence[str], seed: int) -> TranslatorResult:
        """Return the result of a training, without its translations."""
        path = self.folder / f"{training_name(text, settings, seed)}.json"
        if not path.is_file():
            if not self.may_train:
                raise MissingTrainingError
            write_text(path, json.dumps(train(text, settings, seed)) + "\n")
            print(path.stem, flush=True)
        stored = json.loads(path.read_text(encoding="utf-8"))
        self.used.append(stored)
        if "diverged" in stored:
            raise DivergedError(stored["diverged"])
        return TranslatorResult(**stored["numbers"], translations=[])


def train(text: ParallelText, settings: Sequence[str], seed: int) -> dict[str, Any]:
    """Train and score a model; return what is stored of it, also of a training that diverges."""
    start = time.process_time()
    try:
        with one_thread():
            result: dict[str, Any] = {"numbers": train_translator(text, settings, seed).numbers()}
    except DivergedError as error:
        result = {"diverged": str(error)}
    return {
        "settings": list(settings),
        "seed": seed,
        "seconds": round(time.process_time() - start, 1),
        "instructions": ", ".join(vector_instructions()),
        **result,
    }


def training_name(text: ParallelText, settings: Sequence[str], seed: int) -> str:
    """The name of a training's file; other code of the claim gives another name."""
    values = dict(setting.split("=", 1) for setting in settings)
    identity = repr((text.folder.name, tuple(settings), seed, CODE))
    return "-".join(
        (
            values["model.architecture"],
            values["model.width"],
            values["training.steps"],
            sha256(identity.encode()).hexdigest()[:8],
        )
    )


@contextmanager
def replaced_training(trainings: StoredTrainings) -> Iterator[None]:
    """Let the claim, and the search of its learning rates, use stored trainings."""
    with (
        patch.object(baselines, "train_translator", trainings),
        patch.object(c16_baseline_table, "train_translator", trainings),
    ):
        yield


def network(name: str) -> str:
    """Check the name of a network; `choices` of argparse refuses an empty list."""
    if name not in NAMES:
        raise argparse.ArgumentTypeError(f"{name!r} is none of: {', '.join(NAMES)}")
    return name


def main() -> None:
    """Measure the networks that are named; write the finding if nothing is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", type=network, metavar="NETWORK")
    parser.add_argument("--quick", action="store_true", help="the short size, to try the script")
    parser.add_argument("-o", "--output", type=Path, default=GALLERY, help="folder of the findings")
    given = parser.parse_args()
    size: Size = "quick" if given.quick else "full"
    stored = given.output / "c16"
    with replaced_training(StoredTrainings(stored, may_train=True)):
        for name in given.networks:
            train_network(comparison(size), name, SEED)
    missing, numbers, trainings = [], {}, StoredTrainings(stored, may_train=False)
    with replaced_training(trainings):
        for name in NAMES:
            try:
                numbers[name] = train_network(comparison(size), name, SEED)
            except MissingTrainingError:
                missing.append(name)
    if missing:
        print(f"To be measured: {', '.join(missing)}")
        return
    seconds = sum(training["seconds"] for training in trainings.used)
    finding = store(BaselineTable(), numbers, size, SEED, seconds, given.output)
    # The networks may have been measured on several kinds of processor.
    processors = sorted({training["instructions"] for training in trainings.used})
    finding = finding.model_copy(update={"instructions": " or ".join(processors)})
    write_finding(finding, given.output)
    print(f"{finding.verdict}: {finding.explanation}")


if __name__ == "__main__":
    main()
