"""`dragoman evaluate`: score a run on its test set, or compare several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from dragoman.cli.console import EngineOption, TrustPartsOption, needs, split_settings, stoppable
from dragoman.errors import DataError


@stoppable("no result was written")
def evaluate(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN... [KEY=VALUE]...",
            help="Run folder, further runs to compare with it, and decoding settings.",
        ),
    ],
    source: Annotated[
        Path | None, typer.Option(help="Text to translate (default: the test set of the run).")
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(help="Reference translation of --source (repeat for several)."),
    ] = None,
    tokenized: Annotated[
        bool,
        typer.Option(
            "--tokenized", help="For tokenized text: also show BLEU without further tokenization."
        ),
    ] = False,
    robustness: Annotated[
        bool,
        typer.Option("--robustness", help="Also test typos, capitals, numbers and placeholders."),
    ] = False,
    test: Annotated[
        Literal["bootstrap", "randomization"],
        typer.Option(help="Significance test for the comparison of runs."),
    ] = "bootstrap",
    json: Annotated[Path | None, typer.Option(help="Write the result to this JSON file.")] = None,
    engine: EngineOption = "auto",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    trust_parts: TrustPartsOption = False,
) -> None:
    """Score a run on its test set: BLEU, chrF, TER with 95 % confidence intervals.

    Examples:
      dragoman evaluate first/run
      dragoman evaluate first/run other/run --json scores.json
      dragoman evaluate first/run --source test.en --reference test.de
    """
    from dragoman.storage.files import write_text

    with needs("evaluating", "evaluate"):
        from dragoman.cli.display.evaluation import EvaluationProgressBar, show_evaluation
        from dragoman.workflow import evaluation

    folders, settings = split_settings(runs)
    if not folders:
        raise DataError("no run was named; type: dragoman evaluate RUN")
    first, *others = map(Path, folders)
    with EvaluationProgressBar() as progress_bar:
        result = evaluation.evaluate(
            first,
            settings,
            source=source,
            references=reference or (),
            against=others,
            tokenized=tokenized,
            robustness=robustness,
            engine=engine,
            device=device,
            test=test,
            trust_parts=trust_parts,
            on_progress=progress_bar.update,
        )
    show_evaluation(result)
    if json is not None:
        write_text(json, result.to_json() + "\n")
