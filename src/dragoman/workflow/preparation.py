"""Prepare a corpus for training, for `dragoman prepare`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.corpus import runner
from dragoman.corpus.pipeline import Pipeline
from dragoman.corpus.report.gather import gather
from dragoman.corpus.report.html import render
from dragoman.corpus.report.model import Report
from dragoman.corpus.runner import PreparationProgress
from dragoman.data.manifest import Manifest
from dragoman.recipe.schema import Recipe
from dragoman.storage.files import refuse_outside_links, write_text
from dragoman.storage.machine import available_cpus
from dragoman.storage.mirror import existing, local_path, read_text
from dragoman.workflow.recipe import open_recipe

REPORT, REPORT_PAGE = "report.json", "report.html"


@dataclass(frozen=True, slots=True)
class PreparationResult:
    """A prepared folder and its report."""

    folder: Path
    manifest: Manifest
    report: Report


def prepare(
    recipe: Recipe | str | Path,
    settings: Sequence[str] = (),
    *,
    workers: int = 0,
    cluster: str = "",
    trust_parts: bool = False,
    on_progress: Callable[[PreparationProgress], None] | None = None,
) -> PreparationResult:
    """Clean, deduplicate, split and encode the corpora of a recipe; translate synthetic ones.

    Finished stages are kept, so a second call continues after the last finished stage. `workers` is
    the number of processes (0 = all cores that this process may use). `cluster` is the address of
    a Ray cluster. `trust_parts` allows models that translate synthetic corpora to import parts that
    are not in this package.

    This function changes the environment of the process: Daft and Ray send usage statistics by
    default, so their telemetry is switched off before they are loaded, for example with
    `DAFT_ANALYTICS_ENABLED=0`, `RAY_USAGE_STATS_ENABLED=0` and `DO_NOT_TRACK=1`. It also sets the
    runner of Daft.
    """
    loaded, base_folder = open_recipe(recipe, settings)
    if cluster:
        runner.use_cluster(cluster)
    report_progress = on_progress or _ignore
    folder = local_path(loaded.corpus.folder, base_folder)
    refuse_outside_links(folder)
    count = workers or available_cpus()
    pipeline = Pipeline(loaded, base_folder, folder, count, report_progress, trust_parts)
    result = pipeline.run()
    report_progress(PreparationProgress("report", 0, 1))
    report = gather(result)
    _write_report(folder, report, recipe)
    report_progress(PreparationProgress("report", 1, 1))
    return PreparationResult(folder, result.manifest, report)


def _ignore(progress: PreparationProgress) -> None:
    """Do nothing."""


def _write_report(folder: Path, report: Report, recipe: Recipe | str | Path) -> None:
    """Write the report, unless the same report already exists."""
    path, page = folder / REPORT, folder / REPORT_PAGE
    text = report.to_json()
    if len(existing([path, page])) == 2 and read_text(path) == text:
        return
    # The name only, not the path: the report of a corpus must be the same in every folder.
    name = "RECIPE" if isinstance(recipe, Recipe) else shlex.quote(Path(recipe).name)
    write_text(page, render(report, f"dragoman train {name}"))
    write_text(path, text)
