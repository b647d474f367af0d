"""`dragoman corpus`: look at the sentence pairs of a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.console import needs, printable
from dragoman.cli.help import App

app = App(help="Look at the sentence pairs of a corpus.")


@app.command("show")
def show_pairs(
    files: Annotated[
        list[Path],
        typer.Argument(help="One corpus file, two aligned files, or a prepared folder."),
    ],
    count: Annotated[int, typer.Option(min=1, help="Number of pairs.")] = 10,
    start: Annotated[int, typer.Option(min=1, help="Number of the first pair.")] = 1,
    languages: Annotated[
        str,
        typer.Option(
            metavar="EN-DE", help="Source and target language. Default: read from the file."
        ),
    ] = "",
    format: Annotated[str, typer.Option(help="File format. Default: by file extension.")] = "",
) -> None:
    """Print sentence pairs of corpus files or of a prepared folder.

    Examples:
      dragoman corpus show corpus.en corpus.de --count 5
      dragoman corpus show first/prepared --start 100
    """
    with needs("reading a corpus", "prepare"):
        from dragoman.corpus.opening import CorpusRequest
        from dragoman.text.languages import LanguagePair
        from dragoman.workflow.corpus_pairs import read_pairs

    request = CorpusRequest(tuple(files), LanguagePair.parse(languages), format)
    for number, source, target in read_pairs(request, start=start, count=count):
        typer.echo(f"{number:>8}  {printable(source)}\n{'':>8}  {printable(target)}\n")
