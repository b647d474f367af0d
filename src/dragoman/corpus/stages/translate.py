"""Stage 1, for synthetic corpora: translate text in one language, and make pairs of it.

    text → batches of 512 lines → one file of translations per batch → chunks of pairs

A batch is the unit of work, of resuming and of caching. The name of its file of translations is the
hash of its text, in a folder whose name is the key of the model (`synthetic.py`). If the file
exists, the batch is not translated again, in whatever recipe it occurs. The lines of a batch are
always translated together, so an interrupted preparation gives the same bytes as any other.

The chunks of pairs look like those of a corpus that was read (`read.py`), so the later stages treat
synthetic text like any other. Pairs whose translation is degenerate are dropped here, and counted.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from dragoman.corpus import table
from dragoman.corpus.counts import NoCounts, ReadCounts, TextBatch, TextCounts
from dragoman.corpus.discovery import Corpus
from dragoman.corpus.files import read_lines
from dragoman.corpus.filter import Pair
from dragoman.corpus.row import Reject
from dragoman.corpus.stage_key import FileHashes, stage_key
from dragoman.corpus.stages.clean import DroppedPairs
from dragoman.corpus.stages.read import Columns, Rejects, chunks_of, write_chunk
from dragoman.corpus.synthetic import TranslationModel, describe_model, load_translator
from dragoman.corpus.task import PreparationTask
from dragoman.errors import DataError
from dragoman.inference.quality import LENGTH, REPETITION
from dragoman.inference.translator import Translation
from dragoman.storage.files import atomic_folder, refuse_outside_links
from dragoman.storage.mirror import StoredPath, locate, path_text

BATCH_ROWS = 512
"""The number of lines that are translated together. A kill loses at most the work on one batch of
each process."""
CHUNK_BATCHES = 128
MAX_LINE_BYTES = 1 << 14
"""A longer line is not a sentence. It is rejected: its translation would take minutes."""

_TEXT_SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])
_TRANSLATION_SCHEMA = pa.schema([("text", pa.string()), ("flag", pa.string())])


class TextTask(PreparationTask):
    """Reads a text file into a folder of chunks of batches; the last chunk has the counts."""

    file: StoredPath
    batch_rows: int

    def run(self) -> None:
        """Read the file."""
        rejects = Rejects()
        rows = chunks = 0
        batches: list[pa.RecordBatch] = []
        numbers: list[int] = []
        texts: list[str] = []
        with atomic_folder(self.result) as folder:
            for number, line in read_lines(self.file, MAX_LINE_BYTES):
                rows += 1
                if isinstance(line, Reject):
                    rejects.add(line)
                    continue
                if len(texts) == self.batch_rows:
                    batches.append(_take_batch(numbers, texts))
                if len(batches) == CHUNK_BATCHES:
                    _write_text(folder, chunks, batches)
                    batches.clear()
                    chunks += 1
                numbers.append(number)
                texts.append(line)
            batches.append(_take_batch(numbers, texts))
            counts = ReadCounts(rows=rows, rejects=rejects.counts, rejected_rows=rejects.examples)
            _write_text(folder, chunks, batches, counts)


class TranslateTask(PreparationTask):
    """Translates one batch."""

    # The model is loaded in a worker process, and its memory is free again after this stage.
    needs_process: ClassVar[bool] = True
    unit: ClassVar[str] = "sentences"

    chunk: StoredPath
    batch: int
    """The number of the batch in its chunk."""
    rows: int
    model: TranslationModel

    @property
    def amount(self) -> int:
        """The number of sentences."""
        return self.rows

    def run(self) -> None:
        """Translate the batch."""
        texts: list[str] = table.read_bucket([self.chunk], self.batch)["text"].to_pylist()
        translator = load_translator(self.model)
        translations = list(translator.stream(texts, language=self.model.language))
        columns = [
            table.texts([translation.text for translation in translations]),
            table.texts([flag_of(translation) for translation in translations]),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=_TRANSLATION_SCHEMA)
        table.write(self.result, [batch], NoCounts())


class PairTask(PreparationTask):
    """Joins the text of one corpus with its translations, as a folder of chunks of pairs."""

    text: StoredPath
    """The result of a `TextTask`."""
    translations: StoredPath
    """The folder of the model's translations."""
    direction: Literal["forward", "backward"]

    def run(self) -> None:
        """Make the pairs."""
        dropped: dict[str, DroppedPairs] = {}
        with atomic_folder(self.result) as folder:
            for number, chunk in enumerate(chunks_of(self.text)):
                columns: Columns = ([], [], [])
                rows, sources, targets = columns
                for row, pair, flag in self._pairs(chunk):
                    reason = _reason_against(pair, flag)
                    if reason:
                        dropped.setdefault(reason, DroppedPairs()).add(row, pair, reason)
                        continue
                    rows.append(row)
                    sources.append(pair.source)
                    targets.append(pair.target)
                read = table.read_counts(chunk, TextCounts).read
                if read is not None:
                    counts = {reason: pairs.counts() for reason, pairs in dropped.items()}
                    read = read.model_copy(update={"dropped": counts})
                write_chunk(folder, number, columns, read or NoCounts())

    def _pairs(self, chunk: Path) -> Iterator[tuple[int, Pair, str]]:
        """Yield the line number, the pair and the flag of every line of a chunk."""
        for index, batch in enumerate(table.read_counts(chunk, TextCounts).batches):
            if not batch.rows:
                continue
            lines = table.read_bucket([chunk], index)
            path = translation_file(self.translations, batch)
            translated = _read_translations(path)
            if len(translated) != len(lines):
                raise DataError(_damaged(path))
            human, machine = lines["text"].to_pylist(), translated["text"].to_pylist()
            sides = (human, machine) if self.direction == "forward" else (machine, human)
            pairs = map(Pair, *sides)
            yield from zip(
                lines["number"].to_pylist(), pairs, translated["flag"].to_pylist(), strict=True
            )


def translate_corpora(
    corpora: Sequence[Corpus],
    work: Path,
    cache: Path,
    hashes: FileHashes,
    run: Callable[[str, Sequence[PreparationTask]], None],
) -> list[Path]:
    """Read and translate synthetic corpora; return the folders of their chunks of pairs.

    `work` is for intermediate files, `cache` is for translations, and `run` runs a stage.
    """
    if corpora:
        refuse_outside_links(cache)
    texts = []
    for corpus in corpora:
        (file,) = corpus.files
        key = stage_key([hashes.hash(file), BATCH_ROWS])
        texts.append(TextTask(result=work / f"text-{key}", file=file, batch_rows=BATCH_ROWS))
    hashes.save()
    run("read text", texts)
    translate: list[TranslateTask] = []
    pairs = []
    for corpus, text in zip(corpora, texts, strict=True):
        assert corpus.synthetic is not None
        direction, model, _ = corpus.synthetic
        folder = cache / model.key
        key = stage_key([text.result.name, model.key, direction])
        task = PairTask(
            result=work / f"pairs-{key}",
            text=text.result,
            translations=folder,
            direction=direction,
        )
        pairs.append(task)
        if not task.is_done():
            describe_model(folder, model)
            translate += _translate_tasks(text.result, folder, model)
    run("translate", translate)
    run("synthetic pairs", pairs)
    return [task.result for task in pairs]


def _translate_tasks(text: Path, folder: Path, model: TranslationModel) -> Iterator[TranslateTask]:
    """Yield a task for every batch of a corpus; `folder` has the translations of the model."""
    for chunk in chunks_of(text):
        for number, batch in enumerate(table.read_counts(chunk, TextCounts).batches):
            if batch.rows:
                yield TranslateTask(
                    result=translation_file(folder, batch),
                    chunk=chunk,
                    batch=number,
                    rows=batch.rows,
                    model=model,
                )


def translation_file(folder: Path, batch: TextBatch) -> Path:
    """Return the file with the translations of a batch, in the folder of the model."""
    return folder / f"{batch.digest}.arrow"


def text_digest(texts: Sequence[str]) -> str:
    """Hash the lines of a batch; no line contains a newline."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]


def flag_of(translation: Translation) -> str:
    """Return why a translation is degenerate; nothing if it is not, or no longer after a retry."""
    return next((flag for flag in translation.flags if flag in (REPETITION, LENGTH)), "")


def _reason_against(pair: Pair, flag: str) -> str:
    """Return why a synthetic pair is dropped; nothing if it is kept."""
    if flag:
        return f"degenerate translation: {flag}"
    return "" if all(text.strip() for text in pair) else "empty"


def _take_batch(numbers: list[int], texts: list[str]) -> pa.RecordBatch:
    """Make a batch of the lines, and clear the lists."""
    columns = [table.numbers(np.array(numbers, dtype=np.int64)), table.texts(texts)]
    numbers.clear()
    texts.clear()
    return pa.RecordBatch.from_arrays(columns, schema=_TEXT_SCHEMA)


def _write_text(
    folder: Path, chunk: int, batches: list[pa.RecordBatch], counts: ReadCounts | None = None
) -> None:
    described = [
        TextBatch(text_digest(batch["text"].to_pylist()), batch.num_rows) for batch in batches
    ]
    text_counts = TextCounts(batches=described, read=counts)
    table.write_directly(folder / f"chunk-{chunk:05}.arrow", batches, text_counts)


def _read_translations(path: Path) -> pa.Table:
    try:
        return table.read(path)
    except pa.ArrowInvalid:
        raise DataError(_damaged(path)) from None


def _damaged(path: Path) -> str:
    command = "" if locate(path) else f": rm {shlex.quote(str(path))}"
    return (
        f"the cached translations in {path_text(path)} are damaged; remove this file{command}. "
        "Then type the same command again"
    )
