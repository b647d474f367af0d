"""Write the training curves and sample translations of one or two runs as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dragoman.dashboard.page import PAGE, write_page
from dragoman.dashboard.run_data import read_run, run_names
from dragoman.errors import DataError
from dragoman.storage.mirror import local_path


def write_dashboard(runs: Sequence[str | Path], output: str | Path = PAGE) -> Path:
    """Write the page of one run, or of two runs over each other; return its path.

    The runs may be unfinished: the page then shows what they have written so far.
    """
    if not 1 <= len(runs) <= 2:
        raise DataError(f"found {len(runs)} runs, expected one or two: dragoman dashboard RUN RUN2")
    folders = [local_path(run) for run in runs]
    path = local_path(output)
    pairs = zip(folders, run_names(folders), strict=True)
    write_page(path, [read_run(folder, name) for folder, name in pairs])
    return path
