"""How are bytes read from a file, compressed or not, and cut into lines?

The ending says how a file is packed: `.gz`, `.bz2`, `.xz`, `.zst`, else not at all; several packed
streams one after the other are one file. Everything streams in blocks, whatever the file holds.

A line ends at a line feed and nowhere else, for `str.splitlines` would also cut at U+2028, U+0085,
the form feed and a lone return, and shift every line after it. One return before the line feed is
not part of the text, nor is a byte order mark before the first line. A line that is no text, or
is too long to be one, is a `Reject`; the lines after it are read as if nothing had been.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from dragoman.corpus.row import Reject
from dragoman.errors import DataError, MissingExtraError

BLOCK = 256 * 1024
"""Bytes that are read at once."""
LONGEST = 1024 * 1024
"""Bytes of the longest line that is taken for text."""
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
"""Endings that say how a file is packed and nothing about its format."""

NOT_UTF8 = "not UTF-8"
NUL = "NUL character"
TOO_LONG = "line too long"

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character: no UTF-8 can hold it, though Python and JSON can."""

_TOOLS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_UTF8_MARK = b"\xef\xbb\xbf"


class DamagedError(DataError):
    """A file that could be opened, and read only up to some point."""


def check_files(paths: Sequence[Path], count: int) -> None:
    """Raise if these are not `count` files that exist."""
    if len(paths) != count:
        names = ", ".join(map(str, paths)) or "none"
        raise DataError(f"this format needs {count} file(s) for a corpus, found {names}")
    for path in paths:
        check_name(path)
        if not path.exists():
            raise DataError(
                f"no file {path}.\nTo see what is there, type: ls {path.parent}\n"
                f"Paths in a recipe start from the folder of the recipe"
            )
        if not path.is_file():
            raise DataError(f"{path} is a folder or a device, expected a file")


def check_name(path: Path) -> None:
    """Raise if the name of a file is no text, for it could not be written down."""
    if LONE_SURROGATE.search(str(path)):
        raise DataError(
            f"the name {os.fsencode(path)!r} is not UTF-8, as a name in a recipe must be; "
            "rename it, with ? for what cannot be typed, as: mv caf?.en cafe.en"
        )


def read_blocks(path: Path) -> Iterator[bytes]:
    """Give the unpacked bytes of a file, `BLOCK` at a time; all but the last are full."""
    check_files([path], 1)
    try:
        with _open(path) as stream:
            while block := stream.read(BLOCK):
                yield block
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DamagedError(_damage(path, error)) from error


def read_lines(
    path: Path, longest: int = LONGEST, *, escape: bool = False
) -> Iterator[tuple[int, str | Reject]]:
    """Give every line with its number, counted from 1, or the reject that stands for it.

    `escape` is for formats whose rows span lines, and who must see a bad line to know where a row
    ends: bytes that are not UTF-8 come as lone surrogates (`surrogateescape`), NUL as it is.
    """
    number = 1
    try:
        for piece in _whole_lines(path, longest):
            if piece is None:
                yield number, Reject(number, TOO_LONG)
                number += 1
                continue
            lines = _decode(piece, number, longest, escape=escape)
            yield from enumerate(lines, number)
            number += len(lines)
    except DamagedError as error:
        last = f"the last line that could be read is {number - 1:,}" if number > 1 else "no line"
        raise DamagedError(f"{error}\nRead so far: {last}.") from error


def _open(path: Path) -> BinaryIO:
    ending = path.suffix.lower()
    if ending == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if ending == ".bz2":
        return cast(BinaryIO, bz2.open(path, "rb"))
    if ending == ".xz":
        return cast(BinaryIO, lzma.open(path, "rb"))
    if ending == ".zst":
        return _open_zstandard(path)
    return path.open("rb")


def _open_zstandard(path: Path) -> BinaryIO:
    # Arrow, and not the package zstandard: that one ends a file which was cut off without a word.
    try:
        import pyarrow  # noqa: PLC0415  (plain text must be readable without it)
    except ImportError:
        raise MissingExtraError("reading .zst files", "pyarrow", "prepare") from None
    return cast(BinaryIO, pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd"))


def _damage(path: Path, error: BaseException) -> str:
    tool = _TOOLS.get(path.suffix.lower())
    if tool is None or isinstance(error, PermissionError):
        return f"{path} cannot be read: {error}"
    return (
        f"{path} is damaged, or is not what its ending says: {error}.\n"
        f"Fetch or pack it again; to check it, type: {tool} -t {path}"
    )


def _whole_lines(path: Path, longest: int) -> Iterator[bytes | None]:
    """Give pieces of whole lines without their last line feed, and None for a line too long."""
    rest = b""
    is_skipping = False  # Inside a line too long: what was read of it is forgotten already.
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
        if len(rest) > longest:
            rest, is_skipping = b"", True
    if is_skipping:
        yield None
    elif rest:
        yield rest


def _without_mark(path: Path) -> Iterator[bytes]:
    blocks = read_blocks(path)
    first = next(blocks, b"")
    for mark, encoding in _MARKS.items():
        if first.startswith(mark):
            tool = _TOOLS.get(path.suffix.lower())
            unpack = f"{tool} -dc {path} | " if tool else ""
            raise DataError(
                f"{path} is written in {encoding}, expected UTF-8.\n"
                f"Type: {unpack}iconv -f {encoding} -t UTF-8{'' if tool else f' {path}'} > new-file"
            )
    yield first.removeprefix(_UTF8_MARK)
    yield from blocks


def _decode(piece: bytes, first: int, longest: int, *, escape: bool) -> Sequence[str | Reject]:
    """Decode lines all at once, and one by one where something is wrong with one of them."""
    if len(piece) <= longest or max(map(len, piece.split(b"\n"))) <= longest:
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
        _decode_line(line, number, longest, escape=escape)
        for number, line in enumerate(piece.split(b"\n"), first)
    ]


def _decode_line(line: bytes, number: int, longest: int, *, escape: bool) -> str | Reject:
    if len(line) > longest:
        return Reject(number, TOO_LONG)
    try:
        text = line.decode("utf-8", "surrogateescape" if escape else "strict")
    except UnicodeDecodeError:
        return Reject(number, NOT_UTF8)
    if "\0" in text and not escape:
        return Reject(number, NUL)
    return text.removesuffix("\r")
