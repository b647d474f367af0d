"""`dragoman prepare`: clean, deduplicate, split and encode a corpus."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.console import TrustPartsOption, needs, print_warnings, stoppable

if TYPE_CHECKING:
    from dragoman.workflow.preparation import PreparationResult


@stoppable()
def prepare(
    recipe: Annotated[Path, typer.Argument(help="Recipe file.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="Settings to change, for example corpus.max_tokens=100."
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Number of worker processes (0 = all cores).")
    ] = 0,
    glossary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Terms to learn, a TSV file (source, tab, target); sets corpus.glossary.",
        ),
    ] = None,
    cluster: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Run on the Ray cluster at this address.")
    ] = "",
    trust_parts: TrustPartsOption = False,
) -> None:
    """Clean, deduplicate, split and encode a corpus. Run it again to resume.

    Examples:
      dragoman prepare first/recipe.yaml
      dragoman prepare first/recipe.yaml corpus.max_tokens=100 --workers 4
      dragoman prepare first/recipe.yaml --glossary terms.tsv
    """
    changes = list(settings or [])
    if glossary is not None:
        changes.append(f"corpus.glossary={json.dumps(_as_named_in(recipe, glossary))}")
    with needs("preparing a corpus", "prepare"):
        from dragoman.workflow import preparation
    from dragoman.cli.display.preparation import PreparationDisplay
    from dragoman.recipe.files import load_recipe
    from dragoman.storage.mirror import local_path, path_text

    print_warnings(load_recipe(recipe, changes))
    # Daft and Ray are imported when the first task runs.
    with (
        PreparationDisplay() as display,
        needs("preparing a corpus", "cluster" if cluster else "prepare"),
    ):
        result = preparation.prepare(
            recipe,
            changes,
            workers=workers,
            cluster=cluster,
            trust_parts=trust_parts,
            on_progress=display.show,
        )
    typer.echo(_summary(result, ["dragoman", "train", path_text(local_path(recipe)), *changes]))


def _as_named_in(recipe: Path, file: Path) -> str:
    """Name a file as a recipe does: by its URL, or relative to the recipe."""
    from dragoman.storage.mirror import local_path, locate, path_text

    path, folder = local_path(file), local_path(recipe).parent
    if locate(path) is not None:
        return path_text(path)
    return str(path.absolute()) if locate(folder) is not None else os.path.relpath(path, folder)


def _short(path: Path) -> str:
    from dragoman.storage.mirror import locate, path_text

    return os.path.relpath(path) if locate(path) is None else path_text(path)


def _summary(result: PreparationResult, next_command: list[str]) -> str:
    """Say what was prepared, what to check, and what to type next."""
    from dragoman.corpus.report.advice import advice
    from dragoman.workflow.preparation import REPORT_PAGE

    splits = result.report.splits
    train_pairs = splits.train - result.report.vocabulary.too_long
    counts = zip(result.report.corpora, result.manifest.origins.values(), strict=True)
    synthetic = sum(count for corpus, count in counts if corpus.synthetic)
    written = f" ({synthetic:,} of them synthetic)" if synthetic else ""
    lines = [
        f"{train_pairs:,} pairs to train on{written}, {splits.validation:,} for validation, "
        f"{splits.test:,} for test.",
        *(f"! {message}" for message in advice(result.report)),
        f"Report: {_short(result.folder / REPORT_PAGE)}",
        f"Next, type: {shlex.join(next_command)}",
    ]
    return "\n".join(lines)
