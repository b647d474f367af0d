"""Render the dashboard: one HTML page for one or two runs, or for a run that is being trained.

The page is a template, style sheets and scripts, some of them shared with the explanation page. The
page of runs contains their data and loads nothing. The page of a training asks the server that it
came from for new data, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from dragoman.dashboard.run_data import Heading, Points, RunData
from dragoman.explanation.html_page import Frame, shared_file
from dragoman.storage.files import write_text

PAGE = "dashboard.html"
"""The page that a finished run contains."""
SCRIPTS = ("data", "scales", "charts", "samples", "main")
"""The script files of this page, in the order in which they run."""


def render(runs: Sequence[RunData]) -> str:
    """Render the page of runs as one file."""
    data = {"is_live": False, "runs": [run.model_dump(mode="json") for run in runs]}
    return frame().render(_title([run.heading for run in runs]), data)


def render_live(heading: Heading) -> str:
    """Render the page of a run that is being trained; it fetches the data."""
    run = RunData(heading=heading, points=Points())
    data = {"is_live": True, "runs": [run.model_dump(mode="json")]}
    return frame().render(_title([heading]), data, live_policy())


def live_policy() -> str:
    """Return the Content-Security-Policy of a page that asks its own server for data."""
    return f"{frame().policy}; connect-src 'self'; form-action 'none'"


def write_page(path: Path, runs: Sequence[RunData]) -> None:
    """Write the page of runs."""
    write_text(path, render(runs))


def frame() -> Frame:
    """Read the fixed part of the page."""
    own = files("dragoman.dashboard") / "html"
    scripts = [shared_file("elements.js"), shared_file("colors.js")]
    scripts += [own / f"{name}.js" for name in SCRIPTS]
    return Frame.read(own / "page.html", [shared_file("base.css"), own / "dashboard.css"], scripts)


def _title(headings: Sequence[Heading]) -> str:
    return " and ".join(heading.name for heading in headings) + ": training"
