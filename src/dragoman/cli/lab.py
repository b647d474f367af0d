"""`dragoman lab`: test the lectures' claims by experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.console import complete_claim, needs, stoppable
from dragoman.cli.help import App
from dragoman.errors import DataError

app = App(help="Test the lectures' claims by experiment.")


@app.command("list")
def lab_list() -> None:
    """List the claims with their lectures and durations.

    Examples:
      dragoman lab list
      dragoman lab list | grep NLU
    """
    from dragoman.cli.display.lab import show_claims
    from dragoman.lab.catalog import list_claims

    show_claims(list_claims().values())


@app.command("run")
def lab_run(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CLAIM]...",
            help="Claims, for example C9. To list them: dragoman lab list.",
            autocompletion=complete_claim,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Run all claims.")] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick",
            help="Run all seeds and steps, or a short version (default: quick).",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 1,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for numbers, figures and pages.")
    ] = Path("lab"),
) -> None:
    """Run experiments. Each one writes a figure and a verdict on its claim.

    Examples:
      dragoman lab run C9
      dragoman lab run --all --full
    """
    from dragoman.lab.catalog import find_claim, list_claims

    if bool(names) == every:
        raise DataError(
            "name one or more claims, for example: dragoman lab run C9; or run all claims: "
            "dragoman lab run --all"
        )
    numbers = list(list_claims()) if every else [find_claim(name).number for name in names or []]
    with needs("the lab", "all"):
        from dragoman.lab import gallery
        from dragoman.lab.experiment import load_experiment

        experiments = [load_experiment(number) for number in numbers]
    from dragoman.cli.display.lab import show_finding

    with stoppable("finished experiments are kept"):
        for experiment in experiments:
            typer.echo(f"{experiment.number()} {experiment.title} …", err=True)
            show_finding(gallery.run(experiment, "full" if full else "quick", seed, output))
            page = gallery.write_pages(output)
    typer.echo(f"Open {page}")


@app.command("render")
def lab_render(
    folder: Annotated[Path, typer.Argument(help="Output folder of `dragoman lab run`.")] = Path(
        "lab"
    ),
) -> None:
    """Rewrite verdicts, figures and pages from stored measurements.

    No experiment runs again.

    Examples:
      dragoman lab render
      dragoman lab render other-folder
    """
    with needs("the lab", "all"):
        from dragoman.lab import gallery
    findings = gallery.render(folder)
    claims = "1 claim" if len(findings) == 1 else f"{len(findings)} claims"
    typer.echo(f"Rendered {claims}. Open {folder / 'index.html'}")
