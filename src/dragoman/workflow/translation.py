"""How is a file translated that may be larger than memory, by many machines that may be taken away?

A file is cut into shards by bytes, a shard into parts; every cut stands at the end of a line. A
part appears complete or not at all, so whoever runs the same command again does only what is
missing. At the end the parts become one file, with a card beside it that says what it was made of.
The name of the parts' folder is a hash of text, model and settings: others never meet it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from dragoman import __version__
from dragoman.durable import new_file, sha256, write_text
from dragoman.errors import DataError
from dragoman.translator import Translation, Translator

PART = 1 << 18
"""Bytes of a part, about: so much work can be lost."""


class Shard(NamedTuple):
    """The third of 64: number 3, of 64."""

    number: int = 1
    of: int = 1

    @classmethod
    def read(cls, text: str) -> Shard:
        """Read what was typed, as 3/64."""
        number, _, of = text.partition("/")
        if number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of):
            return cls(int(number), int(of))
        raise DataError(f"found shard {text!r}; expected a number and how many, as 3/64")


WHOLE = Shard()


class Progress(NamedTuple):
    """How far it is."""

    done: int
    """Bytes of the source."""
    total: int
    lines: int
    was_done: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """A file to translate, or a shard of it."""

    translator: Translator
    source: Path
    target: Path
    """Of a shard, its number is put behind the name."""
    shard: Shard = WHOLE
    as_json: bool = False
    """One object a line, with all that is known, instead of the text alone."""
    language: str = ""

    @property
    def place(self) -> Path:
        """Where the translation goes; names sort as the shards do."""
        number, of = self.shard
        name = self.target.name
        return self.target.with_name(f"{name}.{number:05}-of-{of:05}" if of > 1 else name)

    @property
    def card(self) -> Path:
        """What the translation was made of, and how it went."""
        return self.place.with_name(f"{self.place.name}.card.json")

    def run(self) -> Iterator[Progress]:
        """Translate what is missing."""
        if self.place.resolve() == self.source.resolve():
            raise DataError(f"{str(self.place)!r} is the source itself; name another file")
        if self.place.exists() and not self.place.is_file():
            raise DataError(f"{str(self.place)!r} is there, and is no file; name another")
        with self.source.open("rb") as file:
            if not file.seekable():
                what = "cannot be read twice; name a file, or use stdin and stdout"
                raise DataError(f"{str(self.source)!r} {what}")
            start, end = _range(file, self.shard)
            key = self._key(file, start, end)
            parts = self.place.with_name(f".{self.place.name}.{key[:16]}.parts")
            if self._is_done(key):
                yield Progress(end - start, end - start, 0, was_done=True)
            else:
                try:
                    yield from self._go_on(file, (start, end), parts, key)
                except FileNotFoundError:
                    # Another may have done the same work, was first, and has swept up.
                    if not self._is_done(key):
                        raise
        shutil.rmtree(parts, ignore_errors=True)

    def _go_on(
        self, file: BinaryIO, span: tuple[int, int], parts: Path, key: str
    ) -> Iterator[Progress]:
        start, end = span
        written = []
        for first, last in _cuts(file, start, end):
            part = parts / f"{first:015}"
            written.append(part)
            lines = 0
            if not part.exists():
                lines = self._translate(file, first, last, part)
            yield Progress(last - start, end - start, lines)
        self._finish(written, key)

    def _translate(self, file: BinaryIO, first: int, last: int, part: Path) -> int:
        """Translate a part, and count what there is to say about it."""
        lines, ends = _read_lines(file, first, last)
        found = self.translator.stream(lines, language=self.language, with_alignment=self.as_json)
        counts: Counter[str] = Counter(lines=len(lines))
        with new_file(part) as temporary:
            with temporary.open("wb") as out:
                for end, each in zip(ends, found, strict=True):
                    counts.update(each.flags)
                    out.write(render(each, self.as_json).encode() + end)
            write_text(_counts(part), json.dumps(counts))  # Where the part is, they are.
        return len(lines)

    def _finish(self, parts: Sequence[Path], key: str) -> None:
        counts: Counter[str] = Counter()
        with new_file(self.place) as temporary:
            with temporary.open("wb") as out:
                for part in parts:
                    counts.update(json.loads(_counts(part).read_text(encoding="utf-8")))
                    with part.open("rb") as file:
                        shutil.copyfileobj(file, out)
            digest = sha256(temporary)
        card = {
            "dragoman": __version__,
            "key": key,
            "sha256": digest,
            "model": self.translator.model_hash,
            "engine": self.translator.engine.name,
            "quantization": self.translator.quantization,
            "decoding": self.translator.settings.model_dump(mode="json"),
            "shard": f"{self.shard.number}/{self.shard.of}",
            "lines": counts.pop("lines", 0),
            "flags": dict(counts),
        }
        write_text(self.card, json.dumps(card, indent=1) + "\n")

    def _key(self, file: BinaryIO, start: int, end: int) -> str:
        """Hash everything that decides what comes out."""
        translator = self.translator
        model = (translator.model_hash, translator.quantization, translator.engine.name)
        facts = (*model, translator.settings.model_dump_json(), self.as_json, self.language)
        digest = hashlib.sha256(repr(facts).encode())
        file.seek(start)
        left = end - start
        while left:
            block = file.read(min(left, PART))
            if not block:
                raise DataError(f"{str(self.source)!r} became shorter while it was read")
            digest.update(block)
            left -= len(block)
        return digest.hexdigest()

    def _is_done(self, key: str) -> bool:
        try:
            card = json.loads(self.card.read_text(encoding="utf-8"))
            return bool(card["key"] == key and card["sha256"] == sha256(self.place))
        except (OSError, ValueError, KeyError, TypeError):
            return False


def render(translation: Translation, as_json: bool) -> str:
    """What is written for a line."""
    return json.dumps(asdict(translation), ensure_ascii=False) if as_json else translation.text


def decode_lines(lines: Iterable[bytes]) -> Iterator[str]:
    """Read lines as UTF-8, without their ends; say which is none."""
    for number, line in enumerate(lines, start=1):
        yield _decode(line.removesuffix(b"\n"), f"line {number}")


def _decode(line: bytes, where: str) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where} is not UTF-8: byte 0x{line[error.start]:02X} at place {error.start + 1}; "
            "convert the file, for example with iconv"
        ) from None


def _counts(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _range(file: BinaryIO, shard: Shard) -> tuple[int, int]:
    """The bytes of a shard: from the first line that begins in it on."""
    size = file.seek(0, 2)
    number, of = shard
    return (
        _line_start(file, size * (number - 1) // of, size),
        _line_start(file, size * number // of, size),
    )


def _line_start(file: BinaryIO, place: int, size: int) -> int:
    """Where the first line begins that does not begin before this place."""
    if place in (0, size):
        return place
    file.seek(place - 1)
    file.readline()
    return file.tell()


def _cuts(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = min(_line_start(file, min(start + PART, end), end), end)
        yield start, stop
        start = stop


def _read_lines(file: BinaryIO, first: int, last: int) -> tuple[list[str], list[bytes]]:
    """Read the lines of a part, and how each of them ends: the last of a file may not."""
    file.seek(first)
    lines = file.read(last - first).split(b"\n")
    ends = [b"\n"] * (len(lines) - 1) + [b""]
    if not lines[-1]:
        lines, ends = lines[:-1], ends[:-1]
    where = f"line {{}} from byte {first} on"
    return [_decode(each, where.format(row)) for row, each in enumerate(lines, start=1)], ends
