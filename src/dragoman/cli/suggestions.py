"""`dragoman suggestions`: the corrections that people sent to a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.help import App
from dragoman.cli.keys import StateOption

app = App(help="Export the corrections that people sent to a server.")


@app.command("export")
def export(
    state: StateOption,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write: .tsv or .jsonl.")
    ] = Path("corrections.tsv"),
    languages: Annotated[
        str,
        typer.Option(metavar="EN-DE", help="Source and target language. Default: the only pair."),
    ] = "",
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the exported suggestions from the state.")
    ] = False,
) -> None:
    """Write suggestions to a file, oldest first, for adapting a model.

    TSV has the columns source, suggestion, machine translation, model and time, without a header;
    line breaks and tabs become spaces. JSON lines keep the texts as they are.

    Examples:
      dragoman suggestions export --state state -o corrections.tsv
      dragoman suggestions export --state state --languages en-de --remove
    """
    from dragoman.serving.state import State
    from dragoman.serving.suggestion_export import export_suggestions

    opened = State(state, must_exist=True)
    count = export_suggestions(opened, output, languages, removes=remove)
    opened.close()
    typer.echo(f"Wrote {count:,} {'suggestion' if count == 1 else 'suggestions'} to {output}.")
