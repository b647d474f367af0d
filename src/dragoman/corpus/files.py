"""Reads bytes and lines from a corpus file, compressed or not.

The extension names the compression: `.gz`, `.bz2`, `.xz`, `.zst`, otherwise none. Several
compressed streams one after the other are one file. Everything is streamed in blocks, whatever the
size of the file.

A line ends at a line feed and nowhere else. `str.splitlines` would also split at U+2028, U+0085,
the form feed and a lone carriage return, and would shift every line after it. One carriage return
before the line feed is not part of the text, and neither is a byte order mark before the first
line. A line that is not valid text, or is too long, becomes a `Reject`. The lines after it are
read normally.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import re
import shlex
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from dragoman.corpus.row import Reject
from dragoman.errors import DataError, MissingExtraError
from dragoman.storage import mirror
from dragoman.storage.mirror import open_stream, path_text

BLOCK_BYTES = 256 * 1024
"""The number of bytes that are read at once."""
MAX_LINE_BYTES = 1024 * 1024
"""A longer line is rejected."""
TOOLS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
"""The command that reads each compression, for error messages."""
COMPRESSIONS = tuple(TOOLS)
"""Extensions that name the compression of a file and not its format."""

NOT_UTF8 = "not UTF-8"
NUL = "NUL character"
TOO_LONG = "line too long"

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character: Python and JSON can contain it, UTF-8 cannot."""

# UTF-32 first: its little-endian mark begins with the mark of UTF-16.
_BYTE_ORDER_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_UTF8_MARK = b"\xef\xbb\xbf"


class DamagedError(DataError):
    """A file that can be opened, but can be read only up to some position."""


def format_extension(path: Path) -> str:
    """Return the extension that names the format of a file, without that of its compression."""
    name = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return name.suffix.lower()


def check_files(paths: Sequence[Path], count: int) -> None:
    """Raise if these are not `count` files that exist."""
    if len(paths) != count:
        names = ", ".join(map(path_text, paths)) or "none"
        files = "1 file" if count == 1 else f"{count} files"
        raise DataError(f"this format needs {files} for a corpus, found {names}")
    for path in paths:
        check_name(path)
        if mirror.locate(path) is not None:
            if not mirror.exists(path):
                raise DataError(f"there is no file {path_text(path)}")
            continue
        if not path.exists():
            raise DataError(
                f"there is no file {path}.\n"
                f"To list the files of that folder, type: ls {shlex.quote(str(path.parent))}"
            )
        if not path.is_file():
            raise DataError(f"{path} is a folder or a device, expected a file")


def check_name(path: Path) -> None:
    """Raise if the name of a file is not valid Unicode, because no recipe could contain it."""
    if LONE_SURROGATE.search(str(path)):
        raise DataError(
            f"the file name {os.fsencode(path)!r} is not UTF-8, expected a name that a recipe can "
            "contain.\nRename it, with ? for each character that you cannot type: "
            "mv caf?.en cafe.en"
        )


def read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, `BLOCK_BYTES` at a time; only the last is shorter."""
    check_files([path], 1)
    try:
        with open_stream(path) as file, _decompress(file, path.suffix.lower()) as stream:
            while block := stream.read(BLOCK_BYTES):
                yield block
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DamagedError(_damage(path, error)) from error


def read_lines(
    path: Path, max_bytes: int = MAX_LINE_BYTES, *, escape: bool = False
) -> Iterator[tuple[int, str | Reject]]:
    """Yield every line with its number, counted from 1, or the reject that replaces it.

    `escape` is for formats whose rows span lines: they need a bad line to find the end of its row.
    Bytes that are not UTF-8 become lone surrogates (`surrogateescape`), and NUL is kept.
    """
    number = 1
    try:
        for piece in _whole_lines(path, max_bytes):
            if piece is None:
                yield number, Reject(number, TOO_LONG)
                number += 1
                continue
            lines = _decode(piece, number, max_bytes, escape=escape)
            yield from enumerate(lines, number)
            number += len(lines)
    except DamagedError as error:
        last = (
            f"the last line that was read is {number - 1:,}" if number > 1 else "no line was read"
        )
        raise DamagedError(f"{error}\nUp to the damage, {last}.") from error


def _decompress(file: BinaryIO, extension: str) -> BinaryIO:
    if extension == ".gz":
        return cast(BinaryIO, gzip.open(file, "rb"))
    if extension == ".bz2":
        return cast(BinaryIO, bz2.open(file, "rb"))
    if extension == ".xz":
        return cast(BinaryIO, lzma.open(file, "rb"))
    if extension == ".zst":
        return _decompress_zstandard(file)
    return file


@contextlib.contextmanager
def open_compressed(path: Path, extension: str) -> Iterator[BinaryIO]:
    """Open a new file that is compressed as the extension says; equal input gives equal bytes."""
    if extension == ".zst":
        import pyarrow  # noqa: PLC0415  (see `_decompress_zstandard`)

        with pyarrow.CompressedOutputStream(str(path), "zstd") as packed:
            yield cast(BinaryIO, packed)
        return
    with path.open("wb") as file:
        if extension == ".gz":
            # Without the name and the time, which gzip writes by default.
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                yield cast(BinaryIO, packed)
        elif extension == ".bz2":
            with bz2.open(file, "wb") as packed:
                yield cast(BinaryIO, packed)
        elif extension == ".xz":
            with lzma.open(file, "wb") as packed:
                yield cast(BinaryIO, packed)
        else:
            yield file


def _decompress_zstandard(file: BinaryIO) -> BinaryIO:
    # Arrow and not the package zstandard, which reads a truncated file without an error.
    try:
        import pyarrow  # noqa: PLC0415  (plain text must be readable without it)
    except ImportError:
        raise MissingExtraError("reading .zst files", "pyarrow", "prepare") from None
    return cast(BinaryIO, pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), "zstd"))


def _damage(path: Path, error: BaseException) -> str:
    tool, name = TOOLS.get(path.suffix.lower()), path_text(path)
    if tool is None or isinstance(error, PermissionError):
        return f"{name} cannot be read: {error}"
    return (
        f"{name} is damaged, or its extension does not match its content: {error}.\n"
        f"Download or compress it again; to check it, type: {tool} -t {shlex.quote(name)}"
    )


def _whole_lines(path: Path, max_bytes: int) -> Iterator[bytes | None]:
    """Yield pieces of whole lines without their last line feed, and None for a line too long."""
    rest = b""
    is_skipping = False  # Inside a line that is too long; its beginning was discarded.
    for block in _without_mark(path):
        begin = 0
        if is_skipping:
            begin = block.find(b"\n") + 1
            if begin == 0:
                continue
            is_skipping = False
            yield None
        end = block.rfind(b"\n", begin)
        if end >= 0:
            yield rest + block[begin:end]
            rest, begin = b"", end + 1
        rest += block[begin:]
        if len(rest) > max_bytes:
            rest, is_skipping = b"", True
    if is_skipping:
        yield None
    elif rest:
        yield rest


def _without_mark(path: Path) -> Iterator[bytes]:
    """Yield the blocks of a file without a UTF-8 byte order mark; raise at any other mark."""
    blocks = read_blocks(path)
    first = next(blocks, b"")
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if first.startswith(mark):
            tool = TOOLS.get(path.suffix.lower())
            name = path_text(path)
            quoted, convert = shlex.quote(name), f"iconv -f {encoding} -t UTF-8"
            command = f"{tool} -dc {quoted} | {convert}" if tool else f"{convert} {quoted}"
            raise DataError(
                f"{name} is encoded in {encoding}, expected UTF-8.\nType: {command} > new-file"
            )
    yield first.removeprefix(_UTF8_MARK)
    yield from blocks


def _decode(
    piece: bytes, first_line: int, max_bytes: int, *, escape: bool
) -> Sequence[str | Reject]:
    """Decode many lines at once, or one by one if one of them is not valid."""
    if len(piece) <= max_bytes or max(map(len, piece.split(b"\n"))) <= max_bytes:
        try:
            text = piece.decode("utf-8", "surrogateescape" if escape else "strict")
        except UnicodeDecodeError:
            pass
        else:
            if escape or "\0" not in text:
                if "\r" in text:
                    text = text.replace("\r\n", "\n").removesuffix("\r")
                return text.split("\n")
    return [
        _decode_line(line, number, max_bytes, escape=escape)
        for number, line in enumerate(piece.split(b"\n"), first_line)
    ]


def _decode_line(line: bytes, number: int, max_bytes: int, *, escape: bool) -> str | Reject:
    if len(line) > max_bytes:
        return Reject(number, TOO_LONG)
    try:
        text = line.decode("utf-8", "surrogateescape" if escape else "strict")
    except UnicodeDecodeError:
        return Reject(number, NOT_UTF8)
    if "\0" in text and not escape:
        return Reject(number, NUL)
    return text.removesuffix("\r")
