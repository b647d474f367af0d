"""`dragoman export` and `dragoman import`: exchange models with other programs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from dragoman.cli.console import TrustPartsOption, needs


def export(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    to: Annotated[
        Literal["ctranslate2", "huggingface"], typer.Option(help="Output format.")
    ] = "ctranslate2",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Output folder (default: a folder inside RUN)."),
    ] = None,
    quantization: Annotated[
        Literal["float32", "int8", "int8_float32", "int16", "float16", "bfloat16"],
        typer.Option(help="Number format of the weights."),
    ] = "float32",
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing export in the output folder.")
    ] = False,
    trust_parts: TrustPartsOption = False,
) -> None:
    """Export a model to CTranslate2 or Hugging Face.

    Examples:
      dragoman export first/run --quantization int8 -o first-int8
      dragoman export first/run --to huggingface -o first-huggingface
    """
    with needs("exporting", "all"):
        from dragoman.workflow import exporting

        result = exporting.export(
            run,
            to=to,
            output=output,
            quantization=quantization,
            force=force,
            trust_parts=trust_parts,
        )
    from dragoman.storage.mirror import path_text

    folder = path_text(result.folder)
    typer.echo(f"Wrote {folder}")
    if to == "ctranslate2":
        typer.echo(f"Type: dragoman translate {shlex.quote(folder)} < in.txt")


def import_model(
    model: Annotated[
        Path,
        typer.Argument(
            help="Folder of a Marian model (OPUS-MT) from Hugging Face or of a CTranslate2 model, "
            "or an Argos package."
        ),
    ],
    run: Annotated[Path, typer.Argument(help="Folder to write.")],
    languages: Annotated[
        str,
        typer.Option(
            metavar="en-de",
            help="Source and target language, if the model does not name them or has several.",
        ),
    ] = "",
) -> None:
    """Import a published model, to translate, serve or (Marian) train with it.

    Examples:
      dragoman import opus-mt-en-de en-de
      dragoman import translate-en_es-1_0.argosmodel en-es
      dragoman import opus-mt-en-ROMANCE en-fr --languages en-fr
    """
    with needs("importing", "train"):
        from dragoman.interop.folder import is_export
        from dragoman.text.languages import LanguagePair
        from dragoman.workflow import exporting

        pair = LanguagePair.parse(languages)
        written = exporting.import_model(model, run, source=pair.source, target=pair.target)
    typer.echo(f"Wrote {written}")
    if is_export(written):
        typer.echo("This model can translate and serve. It cannot be trained.")
    typer.echo(f"Type: dragoman translate {shlex.quote(str(written))} < in.txt")
