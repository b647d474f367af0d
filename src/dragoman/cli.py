"""What does the command `dragoman` understand?

It parses, calls, and prints; it decides nothing. Heavy imports stay inside the commands, so
that help answers at once.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dragoman import __version__
from dragoman.errors import DataError, DragomanError, MissingExtraError, Stopped

if TYPE_CHECKING:
    from rich.progress import TaskID

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

corpus = typer.Typer(no_args_is_help=True, help="Look into corpora.")
app.add_typer(corpus, name="corpus")
lab = typer.Typer(no_args_is_help=True, help="Try the lectures' claims.")
app.add_typer(lab, name="lab")

_INPUT_OUTPUT = 74  # The exit code that systems have for it.


def main() -> None:
    """Run the command; print our own errors as text, and end with their exit code."""
    try:
        app()
    except DragomanError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"dragoman: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        if "--debug" in sys.argv or not error.strerror:
            raise
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"dragoman: {where}{error.strerror}", err=True)
        sys.exit(_INPUT_OUTPUT)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"dragoman {__version__}")
        raise typer.Exit


@app.callback()
def dragoman(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an error.")] = False,
) -> None:
    """Turn your own parallel text into your own translator, and see how it thinks."""


@app.command()
def show(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or: demo, tiny, small, base, big.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Change settings, as model.norm=pre."),
    ] = None,
    model: Annotated[
        bool, typer.Option("--model", help="Show the model's rooms and what they cost.")
    ] = False,
    length: Annotated[
        int, typer.Option(min=1, help="Tokens of the sentence that --model measures.")
    ] = 32,
) -> None:
    """Print a recipe with every setting resolved; redirect it to have a file to edit."""
    from dragoman.recipe_file import dump_recipe, load_recipe

    resolved = load_recipe(recipe, settings or [])
    if not model:
        from dragoman.exporting.capability.table import summary

        typer.echo(dump_recipe(resolved), nl=False)
        typer.echo("".join(f"# {line}\n" for line in summary(resolved)), nl=False)
        return
    with _needs("showing a model", "train"):
        from dragoman.model.cost import measure
    from dragoman.cost_display import show_cost

    show_cost(measure(resolved, length, length), length)


@contextmanager
def _stoppable(then: str = "type the same command to go on") -> Iterator[None]:
    """After Ctrl-C, say what to do then, and end."""

    def end() -> None:
        sys.stdout.flush()
        typer.echo(f"dragoman: stopped; {then}", err=True)
        # At once: threads of an engine that come back into an ending Python would abort it. Nothing
        # is lost, for all that is kept appears in one move.
        os._exit(Stopped.exit_code)

    def stop(*_: object) -> None:
        # A library may swallow the exception, as some do while they are imported.
        timer = threading.Timer(2.0, end)
        timer.daemon = True
        timer.start()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except KeyboardInterrupt:
        end()
    finally:
        signal.signal(signal.SIGINT, before)


@app.command()
@_stoppable()
def prepare(
    recipe: Annotated[Path, typer.Argument(help="A recipe file.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Change settings, as corpus.longest=100."),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Processes to use; 0: one for each core.")
    ] = 0,
    cluster: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Run on the Ray cluster at this address.")
    ] = "",
) -> None:
    """Clean, deduplicate, split and encode your corpus; run it again and it goes on."""
    with _needs("preparing a corpus", "prepare"):
        from dragoman.workflow import preparation
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description:<17}"), BarColumn(), MofNCompleteColumn())
    with Bar(*columns, TextColumn("{task.fields[rate]}"), TimeRemainingColumn()) as bar:
        shown: dict[str, TaskID] = {}
        for stage, done, total in preparation.prepare(
            recipe, settings or [], workers=workers, cluster=cluster
        ):
            if stage not in shown:
                shown[stage] = bar.add_task(stage, total=total, rate="")
            speed = bar.tasks[shown[stage]].speed
            bar.update(shown[stage], completed=done, rate=f"{speed:.1f}/s" if speed else "")
    typer.echo(preparation.summary(recipe, settings or []), nl=False)


@app.command()
def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe file.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Change settings, as training.steps=500."),
    ] = None,
) -> None:
    """Train on what was prepared; run it again and it goes on where it was."""
    with _needs("training", "train"):
        from dragoman.workflow import training
    from dragoman.display import show_training
    from dragoman.recipe_file import load_recipe

    most = load_recipe(recipe, settings or []).training
    show_training(training.train(recipe, settings or []), most.steps, most.minutes)


def _parted(words: list[str]) -> tuple[list[str], list[str]]:
    """Part the names of runs from settings; a folder may have = in its name."""
    settings = [each for each in words if "=" in each and not Path(each).exists()]
    return [each for each in words if each not in settings], settings


_Engine = Annotated[
    Literal["auto", "ctranslate2", "pytorch"],
    typer.Option(help="Who translates; auto: CTranslate2 where it can."),
]


@app.command()
@_stoppable("with --input and --output, the same command goes on where it was")
def translate(
    models: Annotated[
        list[str],
        typer.Argument(metavar="RUN... [KEY=VALUE]...", help="A run; several translate together."),
    ],
    source: Annotated[Path | None, typer.Option("--input", "-i", help="A file, not stdin.")] = None,
    target: Annotated[Path | None, typer.Option("--output", "-o", help="Where it goes.")] = None,
    shard: Annotated[
        str, typer.Option(metavar="3/64", help="Only this share of the input file.")
    ] = "1/1",
    json: Annotated[bool, typer.Option("--json", help="Scores, tokens and flags too.")] = False,
    language: Annotated[str, typer.Option(help="Of a model with several, the target's.")] = "",
    engine: _Engine = "auto",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[int, typer.Option(min=0, help="0: one for each core.")] = 0,
) -> None:
    """Translate line by line, from stdin to stdout, or a file; run it again and it goes on.

    dragoman translate run decoding.beam=1 < in.txt > out.txt
    """
    runs, settings = _parted(models)
    with _needs("translating", "infer"):
        from dragoman.translator import Translator
        from dragoman.workflow import translation

    if (source is None) != (target is None):
        raise DataError("name both --input and --output, or neither to use stdin and stdout")
    part = translation.Shard.read(shard)
    if source is None and part.of > 1:
        raise DataError("a shard is a share of a file; name --input and --output")
    translator = Translator.load(runs, settings, engine=engine, device=device, threads=threads)
    if source is not None and target is not None:
        from dragoman.translation_display import show_translation

        job = translation.Job(translator, source, target, part, as_json=json, language=language)
        show_translation(job)
        return
    lines = translation.decode_lines(sys.stdin.buffer)
    # Whoever types waits for each line; whoever pipes wants many at once.
    asked = ([each] for each in lines) if sys.stdin.isatty() else [lines]
    for some in asked:
        for each in translator.stream(some, language=language, with_alignment=json):
            sys.stdout.buffer.write(translation.render(each, as_json=json).encode() + b"\n")
        sys.stdout.buffer.flush()


@app.command()
@_stoppable("nothing was kept")
def evaluate(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN... [KEY=VALUE]...", help="A run; others are compared with it."),
    ],
    source: Annotated[Path | None, typer.Option(help="Text to translate.")] = None,
    reference: Annotated[
        list[Path] | None, typer.Option(help="Its translation; again for another.")
    ] = None,
    papers: Annotated[
        bool, typer.Option("--papers", help="The text is tokenised: its BLEU as well.")
    ] = False,
    robustness: Annotated[
        bool, typer.Option("--robustness", help="Try what confuses translators.")
    ] = False,
    test: Annotated[
        Literal["bootstrap", "randomisation"], typer.Option(help="How runs are compared.")
    ] = "bootstrap",
    json: Annotated[Path | None, typer.Option(help="Write all numbers here.")] = None,
    engine: _Engine = "auto",
) -> None:
    """Score a run on its test text: BLEU, chrF, TER, with intervals and signatures."""
    from json import dumps

    from dragoman.durable import write_text

    with _needs("evaluating", "evaluate"):
        from dragoman.evaluation_display import show_evaluation
        from dragoman.workflow import evaluation

    folders, settings = _parted(runs)
    if not folders:
        raise DataError("no model was named; expected a run")
    first, *others = map(Path, folders)
    found = evaluation.evaluate(
        first,
        settings,
        source=source,
        references=reference or (),
        against=others,
        papers=papers,
        robustness=robustness,
        engine=engine,
        test=test,
    )
    show_evaluation(found)
    if json is not None:
        write_text(json, dumps(found.as_dict(), indent=1) + "\n")


@app.command()
@_stoppable("nothing was kept")
def explain(
    run: Annotated[str, typer.Argument(help="A run.")],
    sentence: Annotated[str, typer.Argument(help="What to translate, in quotation marks.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Change settings, as decoding.beam=3."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path(
        "explanation.html"
    ),
    figures: Annotated[
        Path | None, typer.Option(help="Draw PNG and SVG pictures into this folder too.")
    ] = None,
    language: Annotated[str, typer.Option(help="Of a model with several, the target's.")] = "",
) -> None:
    """Show how a sentence is translated: probabilities, attention and search, on one page.

    dragoman explain run "It is half past two." -o page.html
    """
    with _needs("explaining", "explain"):
        from dragoman.explanation_display import show_explanation
        from dragoman.workflow import explanation

        found, pictures = explanation.explain_sentence(
            run, sentence, settings or [], language=language, page=output, figures=figures
        )
    show_explanation(found, output, pictures)


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A run.")],
    to: Annotated[
        Literal["ctranslate2", "huggingface"], typer.Option(help="For whom.")
    ] = "ctranslate2",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A folder; beside the model if not said.")
    ] = None,
    quantization: Annotated[
        str, typer.Option(help="float32, int8, int8_float32, int16, float16 or bfloat16.")
    ] = "float32",
) -> None:
    """Write a model for other programs, and for serving without PyTorch."""
    with _needs("exporting", "all"):
        from dragoman.workflow import exporting

        place = exporting.export(run, to, output, quantization)
    typer.echo(f"Wrote {place}")


@app.command("import")
def import_model(
    folder: Annotated[Path, typer.Argument(help="A Marian or OPUS-MT folder of Hugging Face.")],
    run: Annotated[Path, typer.Argument(help="A new folder for the run.")],
) -> None:
    """Turn a published translator into a run: to translate with, explain and fine-tune."""
    with _needs("importing", "train"):
        from dragoman.workflow import exporting

        exporting.bring(folder, run)
    typer.echo(f"Wrote {run}. Type: dragoman translate {shlex.quote(str(run))} < in.txt")


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="A folder for the recipe; it may be new.")],
    source: Annotated[
        Path | None, typer.Option(help="The source, or one file that holds both sides.")
    ] = None,
    target: Annotated[Path | None, typer.Option(help="The target, aligned line by line.")] = None,
    languages: Annotated[
        str, typer.Option(metavar="EN-DE", help="Source and target; guessed where not said.")
    ] = "",
    format: Annotated[str, typer.Option(help="The format; told by the ending if not said.")] = "",
    demo: Annotated[
        bool, typer.Option("--demo", help="Numbers, dates and times, English to German.")
    ] = False,
) -> None:
    """Look at your files, show five pairs, and write a recipe that fits them."""
    with _needs("looking at a corpus", "prepare"):
        from dragoman.workflow import preparation

    if demo:
        _say_next(preparation.init_demo(folder))
        return
    if source is None:
        raise DataError("name your text with --source and --target, or take ours with --demo")
    path, seen = preparation.init(
        folder, [source, target] if target else [source], languages, format
    )
    typer.echo(f"{seen.pairs:,} pairs, {seen.rejects:,} rows that cannot be read. The first:\n")
    for pair in seen.examples:
        lines = (f"  {seen.source}  {pair.source}", f"  {seen.target}  {pair.target}")
        typer.echo("\n".join(map(_printable, lines)) + "\n")
    _say_next(path)


def _say_next(recipe: Path) -> None:
    typer.echo(f"Wrote {recipe}. Read it, then type: dragoman prepare {shlex.quote(str(recipe))}")


@corpus.command("show")
def show_pairs(
    files: Annotated[list[Path], typer.Argument(help="A corpus file, two of them, or a folder.")],
    count: Annotated[int, typer.Option(min=1, help="How many pairs.")] = 10,
    start: Annotated[int, typer.Option(min=1, help="The first pair to show.")] = 1,
    languages: Annotated[str, typer.Option(metavar="EN-DE", help="Source and target.")] = "en-de",
    format: Annotated[str, typer.Option(help="The format; told by the ending if not said.")] = "",
) -> None:
    """Print pairs, one below the other, from any format or a prepared folder."""
    with _needs("reading a corpus", "prepare"):
        from dragoman.workflow import preparation

    for number, first, second in preparation.pairs(files, start, count, languages, format):
        typer.echo(f"{number:>8}  {_printable(first)}\n{'':>8}  {_printable(second)}\n")


def _printable(text: str) -> str:
    """Text of a corpus may hold anything; a terminal obeys some of it."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


@contextmanager
def _needs(job: str, extra: str) -> Iterator[None]:
    """Say what to install where a package of an extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name and not error.name.startswith("dragoman"):
            raise MissingExtraError(job, error.name, extra) from None
        raise


@lab.command("list")
def lab_list() -> None:
    """List the claims of the lectures that can be tried."""
    with _needs("the lab", "all"):
        from dragoman.lab.experiment import claims

        found = claims()  # Which loads their files.
    for name, experiment in found.items():
        typer.echo(f"{name:4} {experiment.title}")


@lab.command("run")
def lab_run(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[CLAIM]...", help="As C9; see: lab list.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every claim.")] = False,
    full: Annotated[
        bool,
        typer.Option("--full/--quick", help="What an honest answer needs, or a minute at most."),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of all chance.")] = 1,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where numbers, figures and the page go.")
    ] = Path("lab"),
) -> None:
    """Try claims: measure, judge by the stated criterion, and draw."""
    if bool(names) == every:
        raise DataError("name claims, as: dragoman lab run C9; or all of them: --all")
    with _needs("the lab", "all"):
        from dragoman.lab import gallery
        from dragoman.lab.experiment import claims, find

        chosen = [find(name) for name in (claims() if every else names or [])]
    from dragoman.lab_display import show_finding

    with _stoppable("what was measured is kept"):
        for experiment in chosen:
            name = experiment.name()
            typer.echo(f"{name} {experiment.title} …", err=True)
            told = gallery.run(experiment, "full" if full else "quick", seed, output)
            show_finding(told)
            page = gallery.write_page(output)
    typer.echo(f"Look at {page}")
