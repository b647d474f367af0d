"""`dragoman explain`: show how a run translates one sentence."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.console import TrustPartsOption, needs, stoppable
from dragoman.errors import DataError


@stoppable("no page was written")
def explain(
    run: Annotated[str, typer.Argument(help="Run folder.")],
    sentence: Annotated[str, typer.Argument(help="The sentence to translate, in quotation marks.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="Settings to change, for example decoding.beam_size=3."
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML page to write.")] = Path(
        "explanation.html"
    ),
    figures: Annotated[
        Path | None, typer.Option(help="Also write PNG and SVG figures into this folder.")
    ] = None,
    language: Annotated[str, typer.Option(help="Target language (multilingual models).")] = "",
    trust_parts: TrustPartsOption = False,
) -> None:
    """Translate a sentence; write a page with its probabilities, attention and beam search.

    Examples:
      dragoman explain first/run "It is half past two."
      dragoman explain first/run "It is half past two." --figures figures
    """
    not_settings = [word for word in settings or [] if "=" not in word]
    if not_settings:
        raise DataError(
            f"found {not_settings[0]!r} after the sentence, expected settings such as "
            "decoding.beam_size=3. Put the sentence in quotation marks: "
            f"dragoman explain {shlex.quote(run)} "
            f"{shlex.quote(' '.join([sentence, *not_settings]))}"
        )
    with needs("explaining", "explain"):
        from dragoman.cli.display.explanation import show_explanation
        from dragoman.workflow import explanation

        result = explanation.explain(
            run, sentence, settings or [], language=language, trust_parts=trust_parts
        )
        paths = []
        if figures is not None:
            from dragoman.explanation.draw import draw

            paths = draw(result, figures)
    result.save(output)
    show_explanation(result, output, paths)
