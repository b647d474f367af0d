"""Translate a text file of any size; several jobs can share it, and a job can be resumed.

A file is divided into shards (one per job) of about the same number of bytes, and a shard into
parts. Shards and parts end after a newline. Each part is written atomically, so a second run of the
same command translates only the missing parts. At the end, the parts are joined to one file, and a
card (JSON) beside it records the model and the settings. The name of the folder of the parts
contains a hash of text, model and settings, so different jobs never use the same folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman import __version__
from dragoman.corpus.files import COMPRESSIONS, read_blocks
from dragoman.errors import DataError
from dragoman.formats.base.folder import extensions as document_extensions
from dragoman.inference.translator import Translation, Translator
from dragoman.recipe.schema import DecodingRecipe
from dragoman.storage import mirror
from dragoman.storage.files import atomic_write, remove, sha256, write_text
from dragoman.storage.mirror import fetch, local_path, locate, path_text

PART_BYTES = 1 << 18
"""Approximate size of a part. An interruption loses at most the work on one part."""

_OTHER_DOCUMENTS = {
    ".adoc", ".ass", ".csv", ".doc", ".epub", ".ftl", ".idml", ".ini", ".ipynb", ".jsonl",
    ".mqxliff", ".odp", ".ods", ".pdf", ".rc", ".resx", ".rst", ".rtf", ".sbv", ".sdlxliff",
    ".stringsdict", ".svg", ".tex", ".toml", ".tsv", ".ttml", ".xcstrings", ".yaml", ".yml",
}  # fmt: skip
"""Formats whose lines are not plain text, and that `dragoman.formats` does not read."""


class FileShard(NamedTuple):
    """One of several equal shares of a file: `FileShard(3, 64)` is the third of 64."""

    number: int = 1
    total: int = 1

    @classmethod
    def parse(cls, text: str) -> FileShard:
        """Parse the form of the command line: `3/64`."""
        number, _, total = text.partition("/")
        if number.isdecimal() and total.isdecimal() and 1 <= int(number) <= int(total):
            return cls(int(number), int(total))
        raise DataError(
            f"found --shard {text!r}, expected NUMBER/TOTAL with 1 ≤ NUMBER ≤ TOTAL, "
            "for example 3/64"
        )


WHOLE = FileShard()


class TranslationFacts(BaseModel):
    """What every card of a translation says; cards are JSON and contain no text of the user."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = 1
    dragoman: str = __version__
    key: str
    """Hash of all sources, the model and the settings."""
    model: str
    """SHA-256 of the model's weights."""
    engine: str
    quantization: str
    decoding: DecodingRecipe
    lines: int
    flags: dict[str, int]
    """Number of translations with each flag."""


class TranslationCard(TranslationFacts):
    """How a file was translated; written beside it."""

    sha256: str
    """SHA-256 of the translation."""
    shard: str


@dataclass(frozen=True, slots=True)
class TranslationProgress:
    """How much of the source is translated."""

    done_bytes: int
    total_bytes: int
    new_lines: int
    """Lines translated since the last report; 0 for a part that already existed."""


@dataclass(frozen=True, slots=True)
class TranslationResult:
    """A translated file."""

    path: Path
    card: TranslationCard
    was_complete: bool
    """True if the translation already existed and nothing was done."""


OnProgress = Callable[[TranslationProgress], None]


def translate_file(  # noqa: PLR0913  (the options of a command)
    translator: Translator,
    source: str | Path,
    target: str | Path,
    *,
    shard: FileShard = WHOLE,
    as_json: bool = False,
    language: str = "",
    plain: bool = False,
    on_progress: OnProgress | None = None,
) -> TranslationResult:
    """Translate a text file line by line, or one shard of it; resume an interrupted job.

    Source and target may be URLs. The source may be compressed (gz, bz2, xz, zst). `as_json` writes
    one JSON object per line. Document formats are refused unless `plain` is set.
    """
    job = _Job(translator, local_path(source), local_path(target), shard, as_json, language)
    check_source(job.source, plain=plain)
    return job.run(on_progress or (lambda _: None))


def check_source(path: Path, *, plain: bool = False) -> None:
    """Refuse a missing file, and documents: translating their lines would damage them."""
    path = local_path(path)
    if not mirror.exists(path):
        raise DataError(f"there is no file {path_text(path)!r}; expected a text file")
    extension = _format_extension(path)
    is_supported = extension in document_extensions() - {".txt"}
    if plain or not (is_supported or extension in _OTHER_DOCUMENTS):
        return
    advice = "Dragoman does not read this format yet"
    if is_supported:
        name = _unpacked_name(path)
        unpack = "unpack it and " if name != path else ""
        command = f"dragoman translate RUN {shlex.quote(path_text(name))} -o FOLDER"
        advice = f"To translate it in its own format, {unpack}type: {command}"
    raise DataError(
        f"{path_text(path)!r} is a document ({extension}); translating it line by line would "
        f"damage it. {advice}\nTo translate every line anyway, add --plain"
    )


def render(translation: Translation, as_json: bool) -> str:
    """Return the output line of a translation: its text, or a JSON object."""
    return json.dumps(asdict(translation), ensure_ascii=False) if as_json else translation.text


def decode_lines(lines: Iterable[bytes]) -> Iterator[str]:
    """Decode lines as UTF-8, without their newlines."""
    for number, line in enumerate(lines, start=1):
        yield _decode(line.removesuffix(b"\n"), f"line {number}")


@dataclass(frozen=True, slots=True)
class _Job:
    """A file to translate, or a shard of it."""

    translator: Translator
    source: Path
    target: Path
    shard: FileShard
    as_json: bool
    language: str

    @property
    def output(self) -> Path:
        """The file to write. The name of a shard ends with its number, in five digits."""
        number, total = self.shard
        name = self.target.name
        return self.target.with_name(f"{name}.{number:05}-of-{total:05}" if total > 1 else name)

    @property
    def card_path(self) -> Path:
        return self.output.with_name(f"{self.output.name}.card.json")

    def run(self, on_progress: OnProgress) -> TranslationResult:
        """Translate the missing parts, and join all parts."""
        self._check_paths()
        with _open_source(self.source) as file:
            start, end = _shard_range(file, self.shard)
            key = self._key(file, start, end)
            parts = self.output.with_name(f".{self.output.name}.{key[:16]}.parts")
            card = self._finished_card(key)
            was_complete = card is not None
            if card is None:
                try:
                    card = self._translate_parts(file, (start, end), parts, key, on_progress)
                except FileNotFoundError:
                    # Another process may have finished the same job and removed the parts.
                    card = self._finished_card(key)
                    if card is None:
                        raise
            on_progress(TranslationProgress(end - start, end - start, 0))
        remove(parts)
        return TranslationResult(self.output, card, was_complete)

    def _check_paths(self) -> None:
        if self.output.resolve() == self.source.resolve():
            raise DataError(
                f"{path_text(self.output)!r} is the source file itself; choose another output"
            )
        url = locate(self.target)
        if url is not None and not url.key:
            raise DataError(f"found -o {url.bucket}, expected a file: {url.bucket}/NAME")
        if locate(self.output) is None and self.output.exists() and not self.output.is_file():
            raise DataError(f"{str(self.output)!r} exists and is not a file; choose another output")
        if self.target.suffix.lower() in COMPRESSIONS:
            name = shlex.quote(path_text(self.target.with_suffix("")))
            raise DataError(
                f"the output is not compressed, but its name ends in {self.target.suffix}; "
                f"use: -o {name}"
            )

    def _translate_parts(
        self,
        file: BinaryIO,
        span: tuple[int, int],
        parts: Path,
        key: str,
        on_progress: OnProgress,
    ) -> TranslationCard:
        start, end = span
        written = []
        on_progress(TranslationProgress(0, end - start, 0))
        for first, last in part_ranges(file, start, end, PART_BYTES):
            part = parts / f"{first:015}"
            written.append(part)
            new_lines = 0 if mirror.exists(part) else self._translate_part(file, first, last, part)
            on_progress(TranslationProgress(last - start, end - start, new_lines))
        return self._join_parts(written, key)

    def _translate_part(self, file: BinaryIO, first: int, last: int, part: Path) -> int:
        """Translate a part, count its lines and flags, and return the number of lines."""
        lines, newlines = read_part(file, first, last)
        translations = self.translator.stream(
            lines, language=self.language, with_alignment=self.as_json
        )
        counts: Counter[str] = Counter(lines=len(lines))
        with atomic_write(part) as temporary:
            with temporary.open("wb") as output:
                for newline, translation in zip(newlines, translations, strict=True):
                    counts.update(translation.flags)
                    output.write(render(translation, self.as_json).encode() + newline)
            # The counts are written before the part itself, so that every existing part has them.
            write_text(_counts_path(part), json.dumps(counts))
        return len(lines)

    def _join_parts(self, parts: Sequence[Path], key: str) -> TranslationCard:
        counts: Counter[str] = Counter()
        with atomic_write(self.output) as temporary:
            with temporary.open("wb") as output:
                for part in parts:
                    counts.update(json.loads(mirror.read_text(_counts_path(part))))
                    with mirror.open_stream(part) as file:
                        shutil.copyfileobj(file, output)
            digest = sha256(temporary)
        card = TranslationCard(
            key=key,
            sha256=digest,
            model=self.translator.model_hash,
            engine=self.translator.engine.name,
            quantization=self.translator.quantization,
            decoding=self.translator.settings,
            shard=f"{self.shard.number}/{self.shard.total}",
            lines=counts.pop("lines", 0),
            flags=dict(counts),
        )
        write_text(self.card_path, card.model_dump_json(indent=1) + "\n")
        return card

    def _key(self, file: BinaryIO, start: int, end: int) -> str:
        """Hash everything that determines the output."""
        translator = self.translator
        model = (translator.model_hash, translator.quantization, translator.engine.name)
        inputs = (*model, translator.settings.model_dump_json(), self.as_json, self.language)
        digest = hashlib.sha256(repr(inputs).encode())
        file.seek(start)
        remaining = end - start
        while remaining:
            block = file.read(min(remaining, PART_BYTES))
            if not block:
                raise DataError(
                    f"{path_text(self.source)!r} became shorter while it was read; run the command "
                    "again"
                )
            digest.update(block)
            remaining -= len(block)
        return digest.hexdigest()

    def _finished_card(self, key: str) -> TranslationCard | None:
        """Read the card if this job is finished and its output is not damaged."""
        try:
            card = TranslationCard.model_validate_json(mirror.read_text(self.card_path))
            is_finished = card.key == key and card.sha256 == sha256(self.output)
        except (OSError, ValidationError):
            return None
        return card if is_finished else None


@contextlib.contextmanager
def _open_source(path: Path) -> Iterator[BinaryIO]:
    """Open a text file for reading at any position; decompress it first if necessary."""
    if path.suffix.lower() in COMPRESSIONS:
        with tempfile.TemporaryFile(prefix="dragoman-") as unpacked:
            for block in read_blocks(path):
                unpacked.write(block)
            yield unpacked
        return
    # A remote file is read several times, so it is fetched.
    with fetch(path).open("rb") as file:
        if not file.seekable():
            raise DataError(
                f"{str(path)!r} is a stream, which cannot be read twice; expected a file. To "
                "translate a stream, use stdin and stdout (without a file name and -o)"
            )
        yield file


def _format_extension(path: Path) -> str:
    """Return the file extension of the format: `.txt` for `text.txt.gz`."""
    return _unpacked_name(path).suffix.lower()


def _unpacked_name(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path


def _decode(line: bytes, where: str) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where} is not UTF-8: byte 0x{line[error.start]:02X} at position {error.start + 1}; "
            "convert the file, for example with iconv"
        ) from None


def _counts_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _shard_range(file: BinaryIO, shard: FileShard) -> tuple[int, int]:
    """Return the first byte of a shard and the byte after its last: a shard has whole lines."""
    size = file.seek(0, 2)
    number, total = shard
    return (
        _line_start(file, size * (number - 1) // total, size),
        _line_start(file, size * number // total, size),
    )


def _line_start(file: BinaryIO, position: int, size: int) -> int:
    """Return the start of the first line that starts at this position or after it."""
    if position in (0, size):
        return position
    file.seek(position - 1)
    file.readline()
    return file.tell()


def part_ranges(file: BinaryIO, start: int, end: int, part_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield the first byte of each part, and the byte after its last; a part has whole lines."""
    while start < end:
        stop = min(_line_start(file, min(start + part_bytes, end), end), end)
        yield start, stop
        start = stop


def read_part(file: BinaryIO, first: int, last: int) -> tuple[list[str], list[bytes]]:
    """Read the lines of a part and their newlines; the last line of a file may have no newline."""
    file.seek(first)
    lines = file.read(last - first).split(b"\n")
    newlines = [b"\n"] * (len(lines) - 1) + [b""]
    if not lines[-1]:
        lines, newlines = lines[:-1], newlines[:-1]
    where = f"line {{}} after byte {first}"
    decoded = [_decode(line, where.format(row)) for row, line in enumerate(lines, start=1)]
    return decoded, newlines
