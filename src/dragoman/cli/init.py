"""`dragoman init`: preview corpus files, show their problems, and write a recipe for them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.console import counted, needs, printable
from dragoman.errors import DataError

if TYPE_CHECKING:
    from dragoman.corpus.preview import CorpusPreview
    from dragoman.corpus.problems import Problems

_EXAMPLE_COLUMNS = 68


def init(
    folder: Annotated[Path, typer.Argument(help="Folder for the recipe; created if missing.")],
    source: Annotated[
        Path | None, typer.Option(help="Source text, or one file that contains both sides.")
    ] = None,
    target: Annotated[
        Path | None, typer.Option(help="Target text, aligned with the source line by line.")
    ] = None,
    languages: Annotated[
        str,
        typer.Option(
            metavar="EN-DE",
            help="Source and target language. Default: read from the file, or detected.",
        ),
    ] = "",
    format: Annotated[
        str,
        typer.Option(
            help="csv, jsonl, lines, parquet, po, tmx, tsv or xliff. Default: by file extension."
        ),
    ] = "",
    source_column: Annotated[
        str, typer.Option(help="Column or field of the source (csv, tsv, jsonl, parquet).")
    ] = "",
    target_column: Annotated[
        str, typer.Option(help="Column or field of the target (csv, tsv, jsonl, parquet).")
    ] = "",
    delimiter: Annotated[
        str, typer.Option(help=r'Delimiter of a csv file ("\t" = tab). Default: detected.')
    ] = "",
    validation: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Validation set; repeat the option for two aligned files."
        ),
    ] = None,
    test: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Test set; repeat the option for two aligned files."),
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            help="demo, tiny, small, base or big. Default: depends on the number of pairs."
        ),
    ] = "",
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="Generate a demo corpus: numbers and dates, English to German."
        ),
    ] = False,
) -> None:
    """Read your files, show five pairs and their problems, and write a recipe for them.

    Examples:
      dragoman init first --demo
      dragoman init project --source corpus.en --target corpus.de
      dragoman init project --source memory.tmx --languages fr-es
    """
    with needs("reading a corpus", "prepare"):
        from dragoman.corpus.opening import CorpusRequest
        from dragoman.text.languages import LanguagePair
        from dragoman.workflow import initialization

    if demo:
        if source or target or validation or test:
            raise DataError(
                "--demo writes its own corpus and cannot be combined with --source, --target, "
                "--validation or --test; remove --demo, or remove the other options"
            )
        _print_next(initialization.init_demo(folder))
        return
    if source is None:
        raise DataError(
            "no corpus; give your files with --source and --target, or use --demo for a demo corpus"
        )
    request = CorpusRequest(
        files=(source, target) if target else (source,),
        languages=LanguagePair.parse(languages),
        format=format,
        source_column=source_column,
        target_column=target_column,
        delimiter="\t" if delimiter == r"\t" else delimiter,
    )
    result = initialization.init(
        folder, request, validation=validation or [], test=test or [], preset=preset
    )
    _print_preview(result.preview)
    _print_next(result.recipe)


def _print_preview(preview: CorpusPreview) -> None:
    counts = [counted(preview.pairs, "pair")]
    if preview.untranslated:
        counts.append(f"{preview.untranslated:,} untranslated")
    counts.append(f"{counted(preview.unreadable, 'row')} that cannot be read")
    typer.echo(f"{', '.join(counts)}. The first pairs:\n")
    for pair in preview.examples:
        lines = (
            f"  {preview.languages.source}  {pair.source}",
            f"  {preview.languages.target}  {pair.target}",
        )
        typer.echo("\n".join(map(printable, lines)) + "\n")
    _print_problems(preview.problems, preview.pairs)
    for warning in preview.warnings:
        typer.echo(f"Warning: {warning}\n", err=True)


def _print_problems(problems: Problems, pairs: int) -> None:
    """Print what `prepare` would drop, with the first example of each reason."""
    if problems.shift:
        typer.echo(f"Warning: {problems.shift}.\n", err=True)
    are_all = problems.examined == pairs
    examined = "all pairs" if are_all else f"a random sample of {problems.examined:,} pairs"
    if not problems.by_reason:
        typer.echo(f"No problem in {examined}.\n")
        return
    dropped = sum(problem.count for problem in problems.by_reason)
    share = dropped / problems.examined
    typer.echo(f"Problems in {examined}: `prepare` would drop {dropped:,} ({share:.1%}).\n")
    for problem in problems.by_reason:
        row = problem.example
        typer.echo(f"  {problem.count:>6,}  {problem.reason}, for example row {row.number:,}:")
        for text in (row.source, row.target):
            typer.echo(f"          {printable(_shorten(text)) or '(empty)'}")
    typer.echo()


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _EXAMPLE_COLUMNS else text[: _EXAMPLE_COLUMNS - 1] + "…"


def _print_next(recipe: Path) -> None:
    typer.echo(f"Wrote {recipe}. Check it, then type: dragoman prepare {shlex.quote(str(recipe))}")
