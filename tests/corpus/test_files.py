"""Lines begin and end at the right byte, with every compression."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tempfile
from functools import cache
from pathlib import Path
from unittest import mock

import pyarrow
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.corpus import files
from dragoman.corpus.files import read_lines
from dragoman.corpus.row import Reject
from dragoman.errors import DataError

COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pyarrow.compress(data, codec="zstd", asbytes=True),
}
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"), max_size=12)
AWKWARD = st.sampled_from(
    ["", "a\u2028b", "a\x85b", "\v", "a\fb", "a\rb", "\ufeff", '"', "\x1c\x1d\x1e", "\u2029"]
)


def lines_in(data: bytes, extension: str = "", **options: object) -> list[tuple[int, str | Reject]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"text.txt{extension}")
        path.write_bytes(COMPRESS[extension](data))
        return list(read_lines(path, **options))


@settings(max_examples=150)
@given(
    texts=st.lists(TEXT | AWKWARD),
    newline=st.sampled_from(["\n", "\r\n"]),
    has_mark=st.booleans(),
    ends_with_newline=st.booleans(),
    extension=st.sampled_from(list(COMPRESS)),
    block=st.sampled_from([4, 5, 16, files.BLOCK_BYTES]),
)
def test_lines_survive_a_round_trip(texts, newline, has_mark, ends_with_newline, extension, block):
    if newline == "\n":
        texts = [text.rstrip("\r") for text in texts]
    if not has_mark and texts:
        texts[0] = texts[0].removeprefix("\ufeff")
        has_mark = texts[0].startswith("\ufeff")
    written = ("\ufeff" if has_mark else "") + "".join(text + newline for text in texts)
    if not ends_with_newline and texts and texts[-1].rstrip("\r"):
        written = written.removesuffix(newline)
        texts[-1] = texts[-1].removesuffix("\r")
    with mock.patch.object(files, "BLOCK_BYTES", block):
        assert lines_in(written.encode(), extension) == list(enumerate(texts, 1))


@cache
def compressed_lines(extension: str) -> bytes:
    return COMPRESS[extension](
        b"".join(b"line %d of the text\n" % number for number in range(30_000))
    )


def read_until_error(path: Path) -> tuple[list[tuple[int, str | Reject]], str]:
    lines = []
    try:
        for line in read_lines(path):
            lines.append(line)
    except DataError as error:
        return lines, str(error)
    pytest.fail("no error")


def expected_of(data: bytes, max_bytes: int) -> list[tuple[int, str | Reject]]:
    """Apply the rules a second time, in the slowest and simplest way."""
    pieces = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if pieces[-1] == b"":
        pieces.pop()
    expected: list[tuple[int, str | Reject]] = []
    for number, piece in enumerate(pieces, 1):
        try:
            text: str | Reject = piece.decode()
        except UnicodeDecodeError:
            text = Reject(number, "not UTF-8")
        if isinstance(text, str) and "\0" in text:
            text = Reject(number, "NUL character")
        if len(piece) > max_bytes:
            text = Reject(number, "line too long")
        expected.append((number, text.removesuffix("\r") if isinstance(text, str) else text))
    return expected


@settings(max_examples=300)
@given(
    pieces=st.lists(
        st.binary(max_size=3)
        | st.sampled_from(
            [b"\n", b"\r\n", b"\r", b"\0", b"\xff", b"x" * 9, b"x" * 30, "é😀".encode()]
        )
    ),
    max_bytes=st.sampled_from([8, 20, 1000]),
    block=st.sampled_from([4, 7, 32, files.BLOCK_BYTES]),
)
@example(pieces=[b"x" * 30, b"\n", b"y"], max_bytes=8, block=4)
@example(pieces=[b"x" * 30], max_bytes=8, block=4)
def test_any_bytes_give_lines_and_rejects(pieces, max_bytes, block):
    data = b"".join(pieces)
    if data.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        data = b" " + data
    with mock.patch.object(files, "BLOCK_BYTES", block):
        assert lines_in(data, max_bytes=max_bytes) == expected_of(data, max_bytes)


@pytest.mark.slow
def test_every_code_point_stays_in_its_line():
    texts = [
        f"a{chr(point)}b"
        for point in range(1, 0x110000)
        if chr(point) != "\n" and not 0xD800 <= point < 0xE000
    ]
    lines = lines_in("\n".join(texts).encode())
    assert len(lines) == len(texts)
    assert all(text == expected for (_, text), expected in zip(lines, texts, strict=True))


def test_a_bad_line_does_not_affect_other_lines():
    lines = lines_in(b"one\n\xc3\x28\nthree\nfo\0ur\n" + b"x" * 101 + b"\nsix\n", max_bytes=100)
    assert lines == [
        (1, "one"),
        (2, Reject(2, "not UTF-8")),
        (3, "three"),
        (4, Reject(4, "NUL character")),
        (5, Reject(5, "line too long")),
        (6, "six"),
    ]


def test_escape_keeps_invalid_bytes():
    lines = lines_in(b"a\xff\r\nb\0\n", escape=True)
    assert lines == [(1, "a\udcff"), (2, "b\0")]


def test_a_lone_surrogate_is_not_utf8():
    assert lines_in("\ud800".encode("utf-8", "surrogatepass")) == [(1, Reject(1, "not UTF-8"))]


@pytest.mark.parametrize("extension", list(COMPRESS))
def test_an_empty_file_has_no_lines(extension):
    assert lines_in(b"", extension) == []


@pytest.mark.parametrize("extension", list(COMPRESS)[1:])
def test_concatenated_streams_are_one_file(tmp_path, extension):
    path = tmp_path / f"text{extension}"
    path.write_bytes(
        b"".join(COMPRESS[extension](part) for part in (b"on", b"e\ntw", b"o\n", b"three"))
    )
    assert list(read_lines(path)) == [(1, "one"), (2, "two"), (3, "three")]


@pytest.mark.parametrize("extension", list(COMPRESS)[1:])
@pytest.mark.parametrize("damage", ["cut off", "cut off in the second stream", "changed", "other"])
def test_a_damaged_file_error_names_the_last_line_that_was_read(tmp_path, extension, damage):
    content = whole = compressed_lines(extension)
    if damage == "cut off":
        content = content[:-20]
    elif damage == "cut off in the second stream":
        content += whole[:-20]
    elif damage == "changed":
        middle = len(content) // 2
        content = content[:middle] + bytes(64) + content[middle + 64 :]
    else:
        content = b"this was never compressed\n" * 1000
    path = tmp_path / f"text.txt{extension}"
    path.write_bytes(content)
    lines, message = read_until_error(path)
    assert str(path) in message
    assert (f"line that was read is {len(lines):,}" if lines else "no line") in message
    if damage != "changed" or extension != ".gz":  # gzip checks its checksum only at the end.
        expected = [f"line {number % 30_000} of the text" for number in range(len(lines))]
        assert lines == list(enumerate(expected, 1))


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-16-BE", "UTF-32", "UTF-32-BE"])
@pytest.mark.parametrize("extension", ["", ".gz"])
def test_another_encoding_is_named_with_the_command_that_converts_it(tmp_path, encoding, extension):
    path = tmp_path / f"text.txt{extension}"
    mark = "\ufeff" if encoding.endswith("BE") else ""
    path.write_bytes(COMPRESS[extension]((mark + "Ein Hund.\n").encode(encoding)))
    with pytest.raises(DataError, match=f"{encoding[:6]}.*\n.*iconv -f {encoding[:6]} -t UTF-8"):
        list(read_lines(path))


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"no file .*nothing\.txt"):
        list(read_lines(tmp_path / "nothing.txt"))
    with pytest.raises(DataError, match="is a folder"):
        list(read_lines(tmp_path))
