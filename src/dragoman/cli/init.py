"""`dragoman init`: preview corpus files and write a recipe for them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.console import needs, printable
from dragoman.errors import DataError

if TYPE_CHECKING:
    from dragoman.corpus.preview import CorpusPreview


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
    """Read your files, show five pairs, and write a recipe for them.

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
    counts = [_count(preview.pairs, "pair")]
    if preview.untranslated:
        counts.append(f"{preview.untranslated:,} untranslated")
    counts.append(f"{_count(preview.unreadable, 'row')} that cannot be read")
    typer.echo(f"{', '.join(counts)}. The first pairs:\n")
    for pair in preview.examples:
        lines = (
            f"  {preview.languages.source}  {pair.source}",
            f"  {preview.languages.target}  {pair.target}",
        )
        typer.echo("\n".join(map(printable, lines)) + "\n")
    for warning in preview.warnings:
        typer.echo(f"Warning: {warning}\n", err=True)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _print_next(recipe: Path) -> None:
    typer.echo(f"Wrote {recipe}. Check it, then type: dragoman prepare {shlex.quote(str(recipe))}")
