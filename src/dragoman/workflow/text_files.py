"""Translate many text files with several processes, on this machine or on a Ray cluster.

Each input file gives one output file with the same name in the output folder, compressed like the
input. `translation_tasks.py` does the work. Intermediate results are in OUTPUT/.parts/NAME/KEY,
where KEY is a hash of the source, the model and the settings; so a second run of the same command
continues, and a changed source, model or setting starts again. At the end they are deleted, and a
card with the cost of the whole job is written.
"""

from __future__ import annotations

import glob
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from dragoman.corpus import runner
from dragoman.corpus.runner import PreparationProgress
from dragoman.corpus.stage_key import stage_key
from dragoman.corpus.synthetic import NamedModel, TranslationModel, translation_model
from dragoman.errors import DataError, DragomanError
from dragoman.inference.loading import EngineName, FoundModel, LoadOptions, find_model
from dragoman.recipe.schema import DecodingRecipe
from dragoman.storage import mirror
from dragoman.storage.files import remove, write_text
from dragoman.storage.machine import available_cpus
from dragoman.storage.mirror import is_pattern, local_path, locate, path_text
from dragoman.workflow import translation
from dragoman.workflow.translation import TranslationFacts, check_source
from dragoman.workflow.translation_tasks import (
    ReadTextTask,
    TextFileCard,
    TranslatePartTask,
    WriteTextTask,
    part_path,
    read_index,
)

_PARTS = ".parts"


@dataclass(frozen=True, slots=True)
class TextFilesRequest:
    """What to translate, and how: the options of the command."""

    models: tuple[str, ...]
    """One run or export; several runs are an ensemble."""
    inputs: tuple[str, ...]
    """Paths, URLs and patterns."""
    output: str
    """A folder."""
    settings: tuple[str, ...] = ()
    language: str = ""
    engine: EngineName = "auto"
    as_json: bool = False
    plain: bool = False
    overwrite: bool = False
    trust_parts: bool = False
    workers: int = 0
    """Number of worker processes (0 = all cores of this machine or of the cluster)."""
    cluster: str = ""
    """Address of a Ray cluster; without it, this machine works alone."""


class CostCard(TranslationFacts):
    """What a job took; written into the output folder."""

    files: int
    sentences: int
    """Lines that contain more than space."""
    cpu_seconds: float
    """CPU time of all tasks, with the loading of the model, also of earlier runs of the command;
    without this process and without tasks that were lost with a machine."""
    seconds: float
    """Duration of the last run of the command."""
    hosts: dict[str, int]
    """Number of lines that each machine translated."""
    workers: int
    """Greatest number of worker processes (0 = all cores)."""
    language: str


@dataclass(frozen=True, slots=True)
class TextFilesResult:
    """Translated files."""

    folder: Path
    card: CostCard
    card_path: Path
    was_complete: bool
    """True if all translations already existed and nothing was done."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file to translate, with the paths of its results."""

    source: Path
    output: Path
    fingerprint: tuple[int, int | str]
    key: str

    @property
    def card_path(self) -> Path:
        return self.output.with_name(f"{self.output.name}.card.json")

    @property
    def all_parts(self) -> Path:
        """The folder of the parts of this output, also of earlier models and settings."""
        return self.output.parent / _PARTS / self.output.name

    @property
    def parts(self) -> Path:
        return self.all_parts / self.key

    @property
    def text(self) -> Path:
        return self.parts / "text"

    def card(self) -> TextFileCard | None:
        """Read the card if this file is translated."""
        try:
            card = TextFileCard.model_validate_json(mirror.read_text(self.card_path))
        except (OSError, ValidationError):
            return None
        return card if card.key == self.key and mirror.exists(self.output) else None


def translate_text_files(
    request: TextFilesRequest, on_progress: Callable[[PreparationProgress], None] | None = None
) -> TextFilesResult:
    """Translate text files line by line, with several processes; resume an interrupted job.

    Like `preparation.prepare`, this function switches the telemetry of Daft and Ray off in the
    environment of the process, and sets the runner of Daft.
    """
    began = time.monotonic()
    report = on_progress or (lambda _: None)
    sources, available_model = _check(request)
    named = NamedModel(
        request.models,
        tuple(local_path(name) for name in request.models),
        request.settings,
        request.language,
        request.trust_parts,
    )
    model = translation_model(available_model, named)
    files = [_file(source, request, model) for source in sources]
    cards = [file.card() for file in files]
    missing = [file for file, card in zip(files, cards, strict=True) if card is None]
    _refuse_existing(missing, request)
    if missing:
        if request.cluster:
            runner.use_cluster(request.cluster)
        _translate(missing, request, model, available_model.recipe.decoding, report)
    job_key = stage_key([file.key for file in files])
    card_path = local_path(request.output) / f"translation-{job_key}.card.json"
    was_complete = not missing
    card = _read_cost(card_path) if was_complete else None
    if card is None:
        written = [one for file in files if (one := file.card()) is not None]
        card = CostCard(
            key=job_key,
            files=len(files),
            lines=sum(one.lines for one in written),
            sentences=sum(one.sentences for one in written),
            flags=_sum([one.flags for one in written]),
            cpu_seconds=round(sum(one.cpu_seconds for one in written), 3),
            seconds=round(time.monotonic() - began, 3),
            hosts=_sum([one.hosts for one in written]),
            workers=request.workers,
            model=model.model_hash,
            engine=model.engine,
            quantization=model.quantization,
            decoding=available_model.recipe.decoding,
            language=request.language,
        )
        write_text(card_path, card.model_dump_json(indent=1) + "\n")
    for file in files:
        remove(file.all_parts)
    _remove_if_empty(local_path(request.output) / _PARTS)
    return TextFilesResult(local_path(request.output), card, card_path, was_complete)


def _read_cost(path: Path) -> CostCard | None:
    """Read the card of an earlier run of the command, if there is one."""
    try:
        return CostCard.model_validate_json(mirror.read_text(path))
    except (OSError, ValidationError):
        return None


def _translate(
    files: Sequence[_File],
    request: TextFilesRequest,
    model: TranslationModel,
    decoding: DecodingRecipe,
    report: Callable[[PreparationProgress], None],
) -> None:
    """Run the three stages."""
    # The runner limits the number to the CPUs of the cluster.
    workers = request.workers or (1 << 16 if request.cluster else available_cpus())
    for file in files:
        remove(file.card_path)  # That of an earlier job.
    reading = [
        ReadTextTask(
            result=file.text,
            source=file.source,
            fingerprint=file.fingerprint,
            part_bytes=translation.PART_BYTES,
        )
        for file in files
    ]
    runner.run_stage("read text", reading, workers, report)
    translating = [
        TranslatePartTask(
            result=part_path(file.parts, number, part),
            text=file.text,
            part=part,
            model=model,
            as_json=request.as_json,
        )
        for file in files
        for number, part in enumerate(read_index(file.text).parts)
    ]
    runner.run_stage("translate", translating, workers, report)
    writing = [
        WriteTextTask(
            result=file.card_path,
            text=file.text,
            parts=file.parts,
            output=file.output,
            model=model,
            decoding=decoding,
            key=file.key,
        )
        for file in files
    ]
    runner.run_stage("write", writing, workers, report)


def _check(request: TextFilesRequest) -> tuple[list[Path], FoundModel]:
    """Find the sources and the model; raise with all mistakes of the command."""
    mistakes: list[str] = []
    if request.cluster:
        for name in (*request.models, *request.inputs, request.output):
            if locate(local_path(name)) is None:
                mistakes.append(
                    f"{name!r} is a local path, but the machines of a cluster do not see the disk "
                    "of this one; expected a URL such as s3://BUCKET/KEY, or file:///PATH for a "
                    "disk that all of them share"
                )
    sources: list[Path] = []
    for name in request.inputs:
        try:
            sources += _find_sources(name, plain=request.plain)
        except DragomanError as error:
            mistakes.append(str(error))
    sources = list(dict.fromkeys(sources))
    mistakes += _output_mistakes(sources, local_path(request.output))
    options = LoadOptions(request.engine, trust_parts=request.trust_parts)
    error_of_model: DragomanError | None = None
    available_model: FoundModel | None = None
    try:
        available_model = find_model(
            [local_path(name) for name in request.models], request.settings, options
        )
    except DragomanError as error:
        error_of_model = error
    if error_of_model is not None and not mistakes:
        raise error_of_model
    if available_model is None or mistakes:
        _raise([*mistakes, *([str(error_of_model)] if error_of_model else [])])
    assert available_model is not None
    return sources, available_model


def _raise(mistakes: Sequence[str]) -> None:
    if len(mistakes) == 1:
        raise DataError(mistakes[0])
    listed = "\n".join(f"  {number}. {what}" for number, what in enumerate(mistakes, start=1))
    raise DataError(f"nothing was translated; found {len(mistakes)} mistakes:\n{listed}")


def _find_sources(name: str, *, plain: bool) -> list[Path]:
    """Return the files that a path, a URL or a pattern names."""
    path = local_path(name)
    if not is_pattern(name):
        if mirror.is_folder(path):
            example = shlex.quote(f"{name.rstrip('/')}/*.txt")
            raise DataError(f"{name!r} is a folder; expected files, for example: -i {example}")
        sources = [path]
    elif locate(path) is None:
        sources = [Path(path) for path in sorted(glob.glob(name)) if Path(path).is_file()]
    else:
        sources = mirror.matches(path)
    if not sources:
        raise DataError(
            f"no file matches {name!r}; expected text files. A pattern needs quotes, and * does "
            "not match a slash"
        )
    for source in sources:
        check_source(source, plain=plain)
    return sources


def _output_mistakes(sources: Sequence[Path], folder: Path) -> Iterator[str]:
    url = locate(folder)
    is_bucket = url is not None and not url.key
    if not is_bucket and mirror.exists(folder) and not mirror.is_folder(folder):
        yield f"{path_text(folder)!r} is a file; expected a folder for the translations: -o FOLDER"
    counts = Counter(source.name for source in sources)
    for name, count in counts.items():
        if count > 1:
            yield (
                f"{count} input files have the name {name!r}, and an output has the name of its "
                "input; translate them into different folders"
            )
    for source in sources:
        if (folder / source.name).resolve() == source.resolve():
            yield (
                f"{path_text(source)!r} would be replaced by its translation; choose another "
                "output folder"
            )


def _refuse_existing(files: Sequence[_File], request: TextFilesRequest) -> None:
    """Refuse to replace outputs that this command did not write."""
    if request.overwrite:
        return
    existing = mirror.existing([file.output for file in files])
    mistakes = [
        f"{path_text(file.output)!r} exists, and it is not the translation of this file with this "
        "model and these settings; to replace it, add --overwrite"
        for file in files
        if file.output in existing and not mirror.exists(file.text)
    ]
    if mistakes:
        _raise(mistakes)


def _file(source: Path, request: TextFilesRequest, model: TranslationModel) -> _File:
    fingerprint = mirror.fingerprint(source)
    name = path_text(source.absolute())
    inputs = [name, fingerprint, model.key, request.as_json, translation.PART_BYTES]
    output = local_path(request.output) / source.name
    return _File(source, output, fingerprint, stage_key(inputs))


def _sum(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(sorted(total.items()))


def _remove_if_empty(folder: Path) -> None:
    """Remove a local folder without files; a store has no empty folders."""
    if locate(folder) is None and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
