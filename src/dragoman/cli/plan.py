"""`dragoman plan`: say what a recipe will cost before it is run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.console import complete_recipe, needs, stoppable


def plan(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="A recipe file or a preset: demo, tiny, small, base, big.",
            autocompletion=complete_recipe,
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="Settings to change, for example training.steps=500."
        ),
    ] = None,
    gpus: Annotated[
        str,
        typer.Option(
            metavar="8xA100", help="GPUs of a machine (default: the CPU cores of this machine)."
        ),
    ] = "",
    machines: Annotated[int, typer.Option(min=1, help="Number of machines with --gpus.")] = 1,
    cores: Annotated[
        int, typer.Option(min=0, help="CPU cores (0 = of this machine, or 8 for each GPU).")
    ] = 0,
    pairs: Annotated[
        int, typer.Option(min=0, help="Training pairs (0 = those of the prepared corpus).")
    ] = 0,
    tokens_per_pair: Annotated[
        float, typer.Option(min=0, help="Tokens per side of a pair, with --pairs (0 = 30).")
    ] = 0.0,
    sentences: Annotated[
        int, typer.Option(min=1, help="Number of sentences to translate.")
    ] = 1_000_000,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure this machine with short runs (minutes).")
    ] = False,
    budget: Annotated[
        float | None, typer.Option(min=0, help="Money; says whether the plan fits.")
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Devices and prices (YAML) in place of the built-in."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Say what a recipe will cost: time, memory, disk, energy and money.

    Examples:
      dragoman plan first/recipe.yaml --measure
      dragoman plan base --pairs 4500000 --gpus 8xA100
      dragoman plan big --pairs 4500000 --gpus 8xA100 --machines 2 --budget 500
    """
    with needs("planning", "prepare"):
        from dragoman.workflow import planning
    from dragoman.cli.display.plan import show_plan
    from dragoman.planning.figures import STAGES

    options = planning.PlanOptions(
        gpus=gpus,
        machines=machines,
        cores=cores,
        pairs=pairs,
        tokens_per_pair=tokens_per_pair,
        sentences=sentences,
        measure=frozenset(STAGES if measure else ()),
        budget=budget,
        prices=prices,
    )
    with stoppable("nothing is kept; type the same command again"):
        result = planning.plan(recipe, settings or [], options, on_progress=_report)
    if json:
        typer.echo(result.model_dump_json(indent=1))
    else:
        show_plan(result)


def _report(stage: str) -> None:
    typer.echo(f"measuring {stage} …", err=True)
