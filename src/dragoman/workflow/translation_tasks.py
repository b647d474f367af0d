"""The tasks that translate text files with several processes, on one machine or on a cluster.

    file → text and index → one translation per part → output file and card

A file is decompressed once, and an index divides its text into parts of whole lines, exactly as
`translation.py` does, so the translation is the same. A part is the unit of work and of resuming:
a lost machine loses the parts that it was translating. The name of a result contains a hash of what
it depends on. All results of a file are in one folder beside its output, until the output exists.
"""

from __future__ import annotations

import hashlib
import socket
import time
from collections import Counter
from pathlib import Path
from typing import BinaryIO, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict

from dragoman.corpus.files import open_compressed, read_blocks
from dragoman.corpus.synthetic import TranslationModel, load_translator
from dragoman.corpus.task import PreparationTask
from dragoman.errors import DataError
from dragoman.recipe.schema import DecodingRecipe
from dragoman.storage import mirror
from dragoman.storage.files import atomic_folder, atomic_write, write_text
from dragoman.storage.mirror import StoredPath, path_text
from dragoman.workflow.translation import TranslationFacts, part_ranges, read_part, render

_TEXT, _INDEX = "text", "index.json"


class TextPart(NamedTuple):
    """Some lines of a file."""

    start: int
    """The first byte."""
    stop: int
    """The byte after the last one."""
    lines: int
    digest: str
    """Hash of the text."""


class TextIndex(BaseModel):
    """The parts of a file, in order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parts: tuple[TextPart, ...]
    cpu_seconds: float


class PartCounts(BaseModel):
    """What the translation of a part took; the first line of its file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lines: int
    sentences: int
    flags: dict[str, int]
    cpu_seconds: float
    host: str


class TextFileCard(TranslationFacts):
    """How one of several files was translated; written beside the output."""

    sha256: str
    """SHA-256 of the translation, before it is compressed."""
    sentences: int
    """Lines that contain more than space."""
    cpu_seconds: float
    """CPU time of all tasks, with the loading of the model; without tasks that were lost."""
    hosts: dict[str, int]
    """Number of lines that each machine translated."""


class ReadTextTask(PreparationTask):
    """Decompresses a file, checks that it is UTF-8, and divides it into parts."""

    source: StoredPath
    fingerprint: tuple[int, int | str]
    """Size, and modification time or tag, of the source when the command began."""
    part_bytes: int

    def run(self) -> None:
        """Read the file."""
        begin = time.process_time()
        with atomic_folder(self.result) as folder:
            with (folder / _TEXT).open("wb") as output:
                for block in read_blocks(self.source):
                    output.write(block)
            if mirror.fingerprint(self.source) != self.fingerprint:
                raise DataError(
                    f"{path_text(self.source)} was changed while it was read; type the same "
                    "command again"
                )
            with (folder / _TEXT).open("rb") as file:
                parts = self._parts(file)
            index = TextIndex(parts=parts, cpu_seconds=time.process_time() - begin)
            (folder / _INDEX).write_text(index.model_dump_json(), encoding="utf-8")

    def _parts(self, file: BinaryIO) -> tuple[TextPart, ...]:
        parts: list[TextPart] = []
        first_line = 1
        size = file.seek(0, 2)
        for start, stop in part_ranges(file, 0, size, self.part_bytes):
            file.seek(start)
            text = file.read(stop - start)
            self._check(text, first_line)
            lines = text.count(b"\n") + (not text.endswith(b"\n"))
            parts.append(TextPart(start, stop, lines, hashlib.sha256(text).hexdigest()[:16]))
            first_line += lines
        return tuple(parts)

    def _check(self, text: bytes, first_line: int) -> None:
        try:
            text.decode()
        except UnicodeDecodeError as error:
            line = first_line + text.count(b"\n", 0, error.start)
            raise DataError(
                f"{path_text(self.source)}: line {line} is not UTF-8: byte "
                f"0x{text[error.start]:02X}; convert the file, for example with iconv"
            ) from None


class TranslatePartTask(PreparationTask):
    """Translates one part of a file."""

    # The model is loaded in a worker process, and its memory is free again after this stage.
    needs_process: ClassVar[bool] = True
    unit: ClassVar[str] = "lines"

    text: StoredPath
    """The result of a `ReadTextTask`."""
    part: TextPart
    model: TranslationModel
    as_json: bool

    @property
    def amount(self) -> int:
        """The number of lines."""
        return self.part.lines

    def run(self) -> None:
        """Translate the part."""
        begin = time.process_time()
        with mirror.open_input(self.text / _TEXT) as file:
            lines, newlines = read_part(file, self.part.start, self.part.stop)
        translator = load_translator(self.model)
        translations = translator.stream(
            lines, language=self.model.language, with_alignment=self.as_json
        )
        flags: Counter[str] = Counter()
        texts = []
        for newline, translated in zip(newlines, translations, strict=True):
            flags.update(translated.flags)
            texts.append(render(translated, self.as_json).encode() + newline)
        counts = PartCounts(
            lines=len(lines),
            sentences=sum(bool(line.strip()) for line in lines),
            flags=dict(flags),
            cpu_seconds=time.process_time() - begin,
            host=socket.gethostname(),
        )
        with atomic_write(self.result) as temporary:
            temporary.write_bytes(counts.model_dump_json().encode() + b"\n" + b"".join(texts))


class WriteTextTask(PreparationTask):
    """Joins the parts of a file in their order, and writes the card; the card is the result."""

    text: StoredPath
    """The result of a `ReadTextTask`."""
    parts: StoredPath
    """The folder of the translated parts."""
    output: StoredPath
    model: TranslationModel
    decoding: DecodingRecipe
    key: str

    def run(self) -> None:
        """Write the output and its card."""
        begin = time.process_time()
        index = read_index(self.text)
        flags: Counter[str] = Counter()
        hosts: Counter[str] = Counter()
        lines, sentences, cpu_seconds = 0, 0, index.cpu_seconds
        digest = hashlib.sha256()
        with (
            atomic_write(self.output) as temporary,
            open_compressed(temporary, self.output.suffix.lower()) as output,
        ):
            for number, part in enumerate(index.parts):
                path = part_path(self.parts, number, part)
                with mirror.open_stream(path) as file:
                    counts = PartCounts.model_validate_json(file.readline())
                    text = file.read()
                # The last line of a file may have no newline; its translation may be empty.
                is_last = number == len(index.parts) - 1
                if text.count(b"\n") not in (part.lines, part.lines - is_last):
                    raise DataError(
                        f"{path_text(path)} is damaged: found another number of lines than "
                        f"{part.lines}; delete it, and type the same command again"
                    )
                digest.update(text)
                output.write(text)
                flags.update(counts.flags)
                hosts[counts.host] += counts.lines
                lines += counts.lines
                sentences += counts.sentences
                cpu_seconds += counts.cpu_seconds
        card = TextFileCard(
            key=self.key,
            sha256=digest.hexdigest(),
            model=self.model.model_hash,
            engine=self.model.engine,
            quantization=self.model.quantization,
            decoding=self.decoding,
            lines=lines,
            sentences=sentences,
            flags=dict(flags),
            cpu_seconds=round(cpu_seconds + time.process_time() - begin, 3),
            hosts=dict(sorted(hosts.items())),
        )
        write_text(self.result, card.model_dump_json(indent=1) + "\n")


def read_index(text: Path) -> TextIndex:
    """Read the index that a `ReadTextTask` has written."""
    return TextIndex.model_validate_json(mirror.read_text(text / _INDEX))


def part_path(folder: Path, number: int, part: TextPart) -> Path:
    """Return the path of the translation of a part."""
    return folder / f"{number:07}-{part.digest}"
