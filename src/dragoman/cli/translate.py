"""`dragoman translate`: translate stdin, one text, a text file, or documents."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.console import EngineOption, TrustPartsOption, needs, stoppable
from dragoman.errors import DataError, FlaggedError

if TYPE_CHECKING:
    from dragoman.inference.translator import Translator
    from dragoman.workflow.documents import DocumentsReport

_RESUME = "type the same command again to continue"
_LINES_KEPT = "the lines that were written are complete"
_INTERACTIVE = "Type a sentence and press Enter. To end, press Ctrl-D."
_INTERRUPTED = "to end without this message, press Ctrl-D on an empty line"


def translate(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="Folder of a run, an adapted model or a CTranslate2 export."
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DOCUMENT|KEY=VALUE]...",
            help="Documents (files, folders, patterns), and settings to change, for example "
            "decoding.beam_size=1.",
        ),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Translate this text instead of stdin.")] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="Text file, plain or compressed (gz, bz2, xz, zst); several: a pattern in quotes, "
            "or this option again.",
        ),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Output file; of several files or of documents: a folder."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Translate files with this many processes (0 = all cores); -o is a folder.",
        ),
    ] = None,
    cluster: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Translate files on the Ray cluster at this address."),
    ] = "",
    ensemble: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN", help="Average the probabilities with those of this run (repeatable)."
        ),
    ] = None,
    shard: Annotated[
        str, typer.Option(metavar="3/64", help="Translate only this shard: the third of 64.")
    ] = "1/1",
    plain: Annotated[
        bool, typer.Option("--plain", help="Translate a document (po, html, …) line by line.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="Write JSON with scores, tokens and flags; of documents: the summary."
        ),
    ] = False,
    glossary: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Terms for documents (TSV, CSV, TBX)."),
    ] = None,
    memory: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Earlier translations for documents (TMX, PO, XLIFF; repeatable)."
        ),
    ] = None,
    memory_threshold: Annotated[
        float,
        typer.Option(
            min=0.5, max=1.0, help="Smallest similarity of a fuzzy match (1 = only equal texts)."
        ),
    ] = 0.9,
    protect: Annotated[
        list[str] | None,
        typer.Option(metavar="REGEX", help="Text that must not change in documents (repeatable)."),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Translate again what is already translated; of several files: replace other "
            "translations.",
        ),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with code 7 if a text was flagged."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only count units and characters of documents."),
    ] = False,
    language: Annotated[str, typer.Option(help="Target language (multilingual models).")] = "",
    engine: EngineOption = "auto",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    threads: Annotated[int, typer.Option(min=0, help="CPU threads (0 = all cores).")] = 0,
    trust_parts: TrustPartsOption = False,
) -> None:
    """Translate documents in their own format, or text line by line (stdin, or a file).

    Examples:
      dragoman translate first/run messages.po page.html report.docx -o translated
      dragoman translate first/run docs/ -o docs-de --glossary terms.tsv
      dragoman translate first/run --text "Good morning."
      dragoman translate first/run decoding.beam_size=1 < in.txt > out.txt
      dragoman translate first/run -i in.txt.gz -o out.txt
      dragoman translate first/run --ensemble second/run < in.txt > out.txt
      dragoman translate first/run -i 'texts/*.txt.gz' -o translated --workers 8
      dragoman translate s3://models/en-de -i 's3://texts/*.zst' -o s3://texts/de/ \\
        --cluster HOST:6379 --workers 64
    """
    settings, documents = _split_arguments(run, arguments or [])
    if cluster or workers is not None or _are_several(inputs or []):
        _check_options(
            {
                "a document": documents,
                "--text": text is not None,
                "--shard": shard != "1/1",
                "--glossary": glossary,
                "--memory": memory,
                "--protect": protect,
                "--strict": strict,
                "--dry-run": dry_run,
                "--device": device != "auto",
                "--threads": threads,
            },
            inputs or [],
            target,
        )
        _translate_text_files(
            models=(run, *(ensemble or [])),
            inputs=tuple(inputs or []),
            output=str(target),
            settings=tuple(settings),
            language=language,
            engine=engine,
            as_json=json,
            plain=plain,
            overwrite=overwrite,
            trust_parts=trust_parts,
            workers=workers or 0,
            cluster=cluster,
        )
        return
    source = Path(inputs[0]) if inputs else None
    _check_arguments(documents, source, target, text, plain=plain)
    if not documents and (glossary or memory or protect or overwrite or strict or dry_run):
        raise DataError(
            "--glossary, --memory, --protect, --overwrite, --strict and --dry-run are for "
            "documents; give them after the model, and an output folder: -o FOLDER"
        )
    is_interactive = source is None and text is None and not documents and sys.stdin.isatty()
    is_resumable = source is not None or documents
    hint = _INTERRUPTED if is_interactive else _RESUME if is_resumable else _LINES_KEPT
    with stoppable(hint):
        with needs("translating", "infer"):
            from dragoman.inference.translator import Translator
            from dragoman.workflow import translation

        part = translation.FileShard.parse(shard)
        if source is None and part.total > 1:
            raise DataError("--shard needs a file; give --input and --output")
        if source is not None:
            translation.check_source(source, plain=plain)  # Before the model is loaded.
        if is_interactive:
            typer.echo(f"Loading {run} …", err=True)
        folders = [run, *(ensemble or [])]
        with Translator.load(
            folders,
            settings,
            engine=engine,
            device=device,
            threads=threads,
            trust_parts=trust_parts,
        ) as translator:
            if translator.checkpoint:
                typer.echo(
                    f"dragoman: the training of {run} is not finished; "
                    f"using checkpoint {translator.checkpoint}",
                    err=True,
                )
            if documents and target is not None:
                from dragoman.cli.display.documents import documents_progress, show_documents
                from dragoman.workflow.documents import translate_files

                with documents_progress() as on_progress:
                    report = translate_files(
                        translator,
                        documents,
                        target,
                        glossary=glossary,
                        memory=memory or (),
                        memory_threshold=memory_threshold,
                        protect=protect or (),
                        language=language,
                        overwrite=overwrite,
                        dry_run=dry_run,
                        on_progress=on_progress,
                    )
                show_documents(report, as_json=json, is_dry=dry_run)
                _check_report(report, strict=strict)
            elif source is not None and target is not None:
                from dragoman.cli.display.translation import show_translation, translation_progress

                with translation_progress() as on_lines:
                    result = translation.translate_file(
                        translator,
                        source,
                        target,
                        shard=part,
                        as_json=json,
                        language=language,
                        plain=plain,
                        on_progress=on_lines,
                    )
                show_translation(result)
            else:
                _translate_lines(translator, text, language, as_json=json)


def _are_several(inputs: list[str]) -> bool:
    """Return whether the inputs are several files, or a pattern."""
    from dragoman.storage.mirror import is_pattern

    return len(inputs) > 1 or any(map(is_pattern, inputs))


def _check_options(others: dict[str, object], inputs: list[str], target: Path | None) -> None:
    """Refuse options that do not go together with several files or processes."""
    mistakes = []
    used = [name for name, value in others.items() if value]
    if used:
        mistakes.append(
            f"{', '.join(used)} cannot be used with several input files, --workers or --cluster; "
            "each worker uses one thread of the CPU, and the whole of every file is translated"
        )
    if not inputs:
        mistakes.append("several processes translate files: give -i FILE or -i 'PATTERN'")
    if target is None:
        mistakes.append("give a folder for the translations: -o FOLDER")
    if mistakes:
        raise DataError("\n".join(mistakes))


def _translate_text_files(**options: Any) -> None:
    """Translate several files, and show what it took."""
    with (
        stoppable(_RESUME),
        needs("translating several files", "cluster" if options["cluster"] else "prepare"),
    ):
        from dragoman.cli.display.preparation import PreparationDisplay
        from dragoman.cli.display.translation import show_text_files
        from dragoman.workflow.text_files import TextFilesRequest, translate_text_files

        with PreparationDisplay() as display:
            result = translate_text_files(TextFilesRequest(**options), display.show)
        show_text_files(result)


def _check_report(report: DocumentsReport, *, strict: bool) -> None:
    """End with an error if a document was not translated, or if a text was flagged."""
    if report.errors:
        raise DataError(
            f"{len(report.errors)} of {len(report.documents)} documents were not translated; "
            "see the messages above"
        )
    if strict and report.total("flagged"):
        raise FlaggedError(report.total("flagged"))


def _check_arguments(
    documents: list[str], source: Path | None, target: Path | None, text: str | None, *, plain: bool
) -> None:
    """Refuse options that do not go together."""
    if documents and (source is not None or text is not None or target is None):
        raise DataError(
            "documents need an output folder (-o FOLDER), and neither --input nor --text"
        )
    if documents and plain:
        raise DataError("--plain is for one file: give it with --input, and -o OUTPUT")
    if not documents and (source is None) != (target is None):
        raise DataError("give both --input and --output, or neither to use stdin and stdout")
    if text is not None and source is not None:
        raise DataError("give either --text or --input, not both")
    if documents:
        from dragoman.workflow.documents import find_documents

        find_documents(documents, target or Path())  # Before the model is loaded.


def _split_arguments(run: str, arguments: list[str]) -> tuple[list[str], list[str]]:
    """Separate settings (KEY=VALUE) from documents; suggest what else may be meant."""
    from dragoman.artifact import resolve_model

    settings: list[str] = []
    documents: list[str] = []
    for argument in arguments:
        path = Path(argument)
        # Not `Path.exists`: it raises an error if a text is too long for the name of a file.
        is_model = os.path.isdir(path) and (resolve_model(path) / "recipe.yaml").is_file()
        is_path = os.path.exists(path) or any(character in argument for character in "*?[")
        if "=" in argument and not is_path:
            settings.append(argument)
        elif is_path and not is_model:
            documents.append(argument)
        else:
            quoted, model = shlex.quote(argument), shlex.quote(run)
            if is_model:
                advice = f"For an ensemble, type: dragoman translate {model} --ensemble {quoted}"
            elif path.suffix and " " not in argument:
                advice = "There is no such file"
            else:
                advice = f"To translate a text, type: dragoman translate {model} --text {quoted}"
            raise DataError(
                f"found {argument!r} after the model, expected documents, or settings as "
                f"KEY=VALUE. {advice}"
            )
    return settings, documents


def _translate_lines(
    translator: Translator, text: str | None, language: str, *, as_json: bool
) -> None:
    """Translate one text, lines that are typed, or lines from a pipe."""
    from dragoman.workflow.translation import decode_lines, render

    def write(lines: Iterable[str]) -> None:
        for result in translator.stream(lines, language=language, with_alignment=as_json):
            sys.stdout.buffer.write(render(result, as_json=as_json).encode() + b"\n")
        sys.stdout.buffer.flush()

    if text is not None:
        write([text])
    elif sys.stdin.isatty():
        typer.echo(_INTERACTIVE, err=True)
        typer.echo("> ", err=True, nl=False)
        for line in decode_lines(sys.stdin.buffer):
            write([line])
            typer.echo("> ", err=True, nl=False)
        typer.echo(err=True)
    else:
        write(decode_lines(sys.stdin.buffer))
