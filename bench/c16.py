"""Measure C16 one network at a time, and write its finding when all six are measured.

    python bench/c16.py "large transformer" [--quick]

`dragoman lab run C16 --full` does the same with one command, in five to seven hours of one core.
Here the numbers of each network are stored at once in docs/lab/c16/, so that two networks can be
measured at the same time, or on several days. Networks: transformer, recurrent, convolutional, and
the same with "large". The text is found through DRAGOMAN_DATA; runs are kept in `lab-runs` or
DRAGOMAN_LAB.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from dragoman.lab.baselines import comparison, study
from dragoman.lab.claims.c16_baseline_table import NAMES, BaselineTable
from dragoman.lab.digest import measurement_code
from dragoman.lab.experiment import Size
from dragoman.lab.finding import write_finding
from dragoman.lab.gallery import one_thread, store
from dragoman.storage.files import write_text
from dragoman.storage.machine import vector_instructions

GALLERY = Path(__file__).parents[1] / "docs" / "lab"
SEED = 2026
CODE = measurement_code(BaselineTable.__module__).digest


def measure(name: str, size: Size, path: Path) -> None:
    """Measure one network, and store its numbers with the processor time."""
    with one_thread():
        start = time.process_time()
        numbers = study(comparison(size), name, SEED).numbers()
        seconds = time.process_time() - start
    part = {
        "code": CODE,
        "size": size,
        "seconds": round(seconds, 1),
        "instructions": ", ".join(vector_instructions()),
        "numbers": numbers,
    }
    write_text(path, json.dumps(part) + "\n")


def read_parts(folder: Path, size: Size) -> dict[str, dict[str, Any]]:
    """The networks that today's code has measured in this size, by name."""
    paths = {name: part_path(folder, name) for name in NAMES}
    parts = {name: json.loads(path.read_text()) for name, path in paths.items() if path.is_file()}
    return {
        name: part for name, part in parts.items() if (part["code"], part["size"]) == (CODE, size)
    }


def part_path(folder: Path, name: str) -> Path:
    """The file of one network."""
    return folder / "c16" / f"{name.replace(' ', '-')}.json"


def main() -> None:
    """Measure the networks that are named; write the finding if none is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", choices=NAMES, metavar="NETWORK")
    parser.add_argument("--quick", action="store_true", help="the short size, to try the script")
    parser.add_argument("-o", "--output", type=Path, default=GALLERY, help="folder of the findings")
    given = parser.parse_args()
    size: Size = "quick" if given.quick else "full"
    for name in given.networks:
        measure(name, size, part_path(given.output, name))
        print(f"{name}: measured", flush=True)
    parts = read_parts(given.output, size)
    if missing := [name for name in NAMES if name not in parts]:
        print(f"To be measured: {', '.join(missing)}")
        return
    numbers = {name: parts[name]["numbers"] for name in NAMES}
    seconds = sum(part["seconds"] for part in parts.values())
    finding = store(BaselineTable(), numbers, size, SEED, seconds, given.output)
    # The networks may have been measured on several kinds of processor.
    processors = sorted({part["instructions"] for part in parts.values()})
    finding = finding.model_copy(update={"instructions": " or ".join(processors)})
    write_finding(finding, given.output)
    print(f"{finding.verdict}: {finding.explanation}")


if __name__ == "__main__":
    main()
