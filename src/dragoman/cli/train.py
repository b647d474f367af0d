"""`dragoman train`: train a model on a prepared corpus."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.console import needs

if TYPE_CHECKING:
    from dragoman.training.card import Card


def train(
    recipe: Annotated[Path, typer.Argument(help="Recipe file.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="Settings to change, for example training.steps=500."
        ),
    ] = None,
    dashboard: Annotated[
        bool,
        typer.Option(
            "--dashboard",
            help="Serve a page with live curves and sample translations, on this machine only.",
        ),
    ] = False,
    dashboard_port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="Port of the --dashboard page (0 = any free port)."),
    ] = 0,
) -> None:
    """Train a model on a prepared corpus. Run it again to resume.

    Examples:
      dragoman train first/recipe.yaml
      dragoman train first/recipe.yaml --dashboard
      dragoman train first/recipe.yaml training.steps=500 training.folder=short
    """
    with needs("training", "train"):
        from dragoman.training.device import keep_memory
        from dragoman.workflow import training
    from dragoman.cli.display.training import TrainingDisplay
    from dragoman.storage.mirror import path_text

    keep_memory()
    with TrainingDisplay() as display:
        result = training.train(
            recipe,
            settings or [],
            on_progress=display.show,
            dashboard_port=dashboard_port if dashboard or dashboard_port else None,
        )
    display.print(result.card.cost)
    relative, named = os.path.relpath(result.folder), path_text(result.folder)
    is_elsewhere = relative.startswith("..") or named != str(result.folder)
    run = shlex.quote(named if is_elsewhere else relative)
    if result.was_finished:
        changed = _longer(result.card)
        others = [text for text in settings or [] if text.partition("=")[0] not in changed]
        arguments = [*others, *(f"{name}={value}" for name, value in changed.items())]
        command = shlex.join(["dragoman", "train", str(recipe), *arguments])
        display.print(f"train longer:  {command}")
    display.print(f"curves:        {run}/dashboard.html")
    display.print(f"evaluate:      dragoman evaluate {run}")
    display.print(f"translate:     dragoman translate {run}")


def _longer(card: Card) -> dict[str, str]:
    """Return the settings that let a finished training continue: its limit is doubled."""
    settings = card.recipe.training
    if card.ended_by == "minutes":
        return {"training.minutes": f"{2 * settings.minutes:g}"}
    if card.ended_by == "patience":
        return {"training.patience": str(2 * settings.patience)}
    changed = {"training.steps": str(2 * max(card.updates, settings.steps))}
    if settings.schedule == "linear":
        # The learning rate depends on the last step, so a longer training is a new run.
        changed["training.folder"] = f"{settings.folder}-longer"
    return changed
