"""`dragoman distill`: train a small model on the translations of a large one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dragoman.cli.adapt import repeat_options
from dragoman.cli.console import needs, split_settings, stoppable
from dragoman.cli.help import Command
from dragoman.errors import DataError


class DistillCommand(Command):
    """Lets several files follow one option: `--test test.en test.fr`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each of its files."""
        options = ("--data", "--test", "--validation")
        return super().parse_args(ctx, repeat_options(args, options))


@stoppable()
def distill(
    teachers: Annotated[
        list[str],
        typer.Argument(
            metavar="TEACHER... [KEY=VALUE]...",
            help="Model to learn from: a run, an export or a model with versions (several runs = "
            "an ensemble); then settings to change, for example training.steps=2000.",
        ),
    ],
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE...", help="Source text, or parallel corpora whose sources are used."
        ),
    ] = None,
    test: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE...", help="Pairs to compare with: SOURCE TARGET, TSV, TMX, ..."),
    ] = None,
    validation: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE...",
            help="Pairs that choose the best checkpoint (default: held-out sources with the "
            "teacher's translations).",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the student.")
    ] = None,
    preset: Annotated[str, typer.Option(help="Preset of the student.")] = "tiny",
    beam_size: Annotated[
        int | None, typer.Option(min=1, help="Beam size of the teacher (default: its own).")
    ] = None,
    quantization: Annotated[
        Literal["float32", "int8"],
        typer.Option(help="Number format of the teacher that translates (int8 = faster)."),
    ] = "float32",
    workers: Annotated[
        int, typer.Option(min=0, help="Number of worker processes (0 = all cores).")
    ] = 0,
) -> None:
    """Train a small model on the translations of a large one, and compare them.

    Run it again to resume.

    Examples:
      dragoman distill run --data more.en --test test.en test.fr -o student
      dragoman distill run --data *.tmx --test ok.tsv -o new --quantization int8
      dragoman distill run-1 run-2 --data a.en --test ok.tsv -o new seed=2
    """
    with needs("distilling a model", "all"):
        from dragoman.training.device import keep_memory
        from dragoman.workflow import distillation
    from dragoman.cli.display.distillation import DistillationDisplay

    models, changes = split_settings(teachers)
    if output is None:
        raise DataError("no folder for the student; name one, for example: -o student")
    keep_memory()
    with DistillationDisplay() as display, needs("distilling a model", "all"):
        result = distillation.distill(
            models,
            data or (),
            output=output,
            test=test or (),
            validation=validation or (),
            preset=preset,
            beam_size=beam_size,
            quantization=quantization,
            settings=changes,
            workers=workers,
            on_progress=display.show,
        )
        display.show_result(result)
