"""`dragoman dashboard`: write the curves and samples of one or two runs as an HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def dashboard(
    run: Annotated[str, typer.Argument(help="Run folder, finished or not.")],
    second: Annotated[
        str, typer.Argument(metavar="[RUN2]", help="Second run, drawn over the first.")
    ] = "",
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML page to write.")] = Path(
        "dashboard.html"
    ),
) -> None:
    """Write a page with the training curves and sample translations of a run.

    To watch a training live: dragoman train RECIPE --dashboard.

    Examples:
      dragoman dashboard first/run
      dragoman dashboard first/run second/run -o both.html
    """
    from dragoman.storage.mirror import path_text
    from dragoman.workflow.dashboard import write_dashboard

    path = write_dashboard([run, second] if second else [run], output)
    typer.echo(f"{path_text(path)}: open it in a browser")
