"""`dragoman models`: the versions of an adapted model."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.console import TrustPartsOption, needs, stoppable
from dragoman.cli.help import App

app = App(help="List, compare and roll back the versions of an adapted model.")

FolderArgument = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Folder that `dragoman adapt` wrote.")
]


@app.command("list")
def list_versions(folder: FolderArgument) -> None:
    """List the versions with their scores on the test sets, and mark the current one.

    Examples:
      dragoman models list adapted
      dragoman models list /srv/models/en-fr
    """
    from dragoman.cli.display.models import show_versions
    from dragoman.workflow import models

    show_versions(models.list_versions(folder))


@app.command("diff")
@stoppable("nothing was changed")
def diff(
    folder: FolderArgument,
    first: Annotated[int, typer.Argument(metavar="A", help="Number of a version.")],
    second: Annotated[int, typer.Argument(metavar="B", help="Number of another version.")],
    text: Annotated[
        Path | None,
        typer.Option(help="Text file: show the lines that the two versions translate differently."),
    ] = None,
    trust_parts: TrustPartsOption = False,
) -> None:
    """Compare two versions: scores, training data, settings, and translations of a text.

    Examples:
      dragoman models diff adapted 1 2
      dragoman models diff adapted 1 2 --text in.txt
    """
    with needs("comparing translations", "infer"):
        from dragoman.cli.display.models import show_comparison
        from dragoman.workflow import models

        comparison = models.compare_versions(
            folder, first, second, text=text, trust_parts=trust_parts
        )
    show_comparison(comparison)


@app.command("rollback")
def rollback(
    folder: FolderArgument,
    to: Annotated[
        int | None,
        typer.Option(metavar="N", help="Version to use (default: the parent of the current one)."),
    ] = None,
) -> None:
    """Use an older version again. Nothing is removed; a running server follows in seconds.

    Examples:
      dragoman models rollback adapted
      dragoman models rollback adapted --to 1
    """
    from dragoman.workflow import models

    record = models.roll_back(folder, to)
    typer.echo(f"The current version is {record.number} now; it was {record.parent}.")
    typer.echo(
        f"To undo this, type: dragoman models rollback {shlex.quote(str(folder))} "
        f"--to {record.parent}"
    )
