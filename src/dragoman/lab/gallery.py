"""Run experiments, store their findings, and render figures and pages from them.

    FOLDER/c09.json      the finding: claim, criterion, numbers, verdict, and duration
    FOLDER/c09.svg       the figure
    FOLDER/README.md     all findings of the folder, for GitHub
    FOLDER/index.html    the same as one self-contained page for the browser

Figures and pages are made from the JSON files alone, so they can be rendered again at any time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

from dragoman import __version__
from dragoman.errors import DataError
from dragoman.lab.digest import measurement_code
from dragoman.lab.experiment import Experiment, Numbers, Size, load_experiment
from dragoman.lab.finding import Finding, read_findings, write_finding
from dragoman.lab.page import html_page, markdown_page
from dragoman.storage.files import atomic_write, write_text
from dragoman.storage.machine import vector_instructions


def run(experiment: Experiment, size: Size, seed: int, folder: Path) -> Finding:
    """Run one experiment and write its finding and its figure."""
    with one_thread():
        start = time.process_time()  # Other work on the machine does not count.
        measured = experiment.measure(size, seed)
        seconds = time.process_time() - start
    return store(experiment, measured, size, seed, seconds, folder)


def store(
    experiment: Experiment, measured: Numbers, size: Size, seed: int, seconds: float, folder: Path
) -> Finding:
    """Judge what was measured, and write the finding and its figure."""
    numbers = json.loads(json.dumps(measured, allow_nan=False))  # Judge exactly what is stored.
    judgment = experiment.conclude(numbers)
    code = measurement_code(type(experiment).__module__)
    finding = Finding(
        number=experiment.number(),
        title=experiment.title,
        sources=experiment.sources,
        claim=experiment.claim,
        method=experiment.method,
        criterion=experiment.criterion,
        verdict=judgment.verdict,
        summary=judgment.summary,
        explanation=judgment.explanation,
        is_seed_independent=experiment.is_seed_independent,
        size=size,
        seed=seed,
        seconds=round(seconds, 1),
        dragoman_version=__version__,
        torch_version=torch.__version__,
        instructions=", ".join(vector_instructions()),
        code=code.digest,
        settings=code.settings,
        numbers=numbers,
    )
    folder.mkdir(parents=True, exist_ok=True)
    draw(experiment, numbers, folder / f"{finding.stem}.svg")
    write_finding(finding, folder)
    return finding


def render(folder: Path) -> list[Finding]:
    """Judge the stored numbers of a folder again; rewrite its findings, figures and pages."""
    findings = [judge_again(finding) for finding in read_findings(folder)]
    if not findings:
        raise DataError(
            f"there are no findings (c01.json, c02.json, …) in {str(folder)!r}; "
            "make some with: dragoman lab run C9"
        )
    for finding in findings:
        draw(load_experiment(finding.number), finding.numbers, folder / f"{finding.stem}.svg")
        write_finding(finding, folder)
    write_pages(folder)
    return findings


def judge_again(finding: Finding) -> Finding:
    """The same measurement with the verdict and the texts of today's experiment."""
    experiment = load_experiment(finding.number)
    judgment = experiment.conclude(finding.numbers)
    return finding.model_copy(
        update={
            "title": experiment.title,
            "sources": experiment.sources,
            "claim": experiment.claim,
            "method": experiment.method,
            "criterion": experiment.criterion,
            "verdict": judgment.verdict,
            "summary": judgment.summary,
            "explanation": judgment.explanation,
            "is_seed_independent": experiment.is_seed_independent,
        }
    )


def draw(experiment: Experiment, numbers: Numbers, path: Path) -> None:
    """Draw the figure. The same numbers give the same file."""
    with rc_context({"svg.hashsalt": path.stem, "font.size": 9, "svg.fonttype": "path"}):
        figure = Figure(figsize=(7, experiment.figure_height), dpi=120, layout="constrained")
        experiment.draw(numbers, figure)
        _fix_layout(figure)
        file_format = path.suffix[1:]
        metadata = {"Date": None} if file_format == "svg" else {}
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format=file_format, metadata=metadata)


def _fix_layout(figure: Figure) -> None:
    """Round the positions of the axes: the layout's solver may differ in the last digits."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(bound, 4) for bound in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


def write_pages(folder: Path) -> Path:
    """Write README.md and index.html for all findings of a folder; return the HTML page."""
    findings = read_findings(folder)
    write_text(folder / "README.md", markdown_page(findings))
    figures = {
        finding.number: (folder / f"{finding.stem}.svg").read_bytes() for finding in findings
    }
    path = folder / "index.html"
    write_text(path, html_page(findings, figures))
    return path


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread: sums keep one order on every machine, and small matrices need no more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
