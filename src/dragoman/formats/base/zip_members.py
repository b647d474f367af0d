"""Reads and rewrites a zip file that is not trusted, such as a `.docx` or `.odt`.

Refused: too many or too large members, a compression ratio as in a bomb, members that overlap,
names outside of the folder (`../x`, `/x`), names that occur twice, encryption, zip64.

Rewriting replaces the content of some members. Of all others, header, name, date, flags and
compressed bytes are copied as they are, and the order of the members, the bytes between them and
the comment stay. A replaced member keeps its name, date, attributes and compression method.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise

from dragoman.errors import DataError

MAX_MEMBERS = 10_000
MAX_BYTES = 500_000_000
"""Of all members together, uncompressed."""
MAX_RATIO = 200
"""Of a member of more than 1 MB; the XML of a document compresses to 1/10 or 1/30."""

_LOCAL_HEADER = struct.Struct("<IHHHHHIIIHH")
_CENTRAL_HEADER = struct.Struct("<IHHHHHHIIIHHHHHII")
_END_RECORD = struct.Struct("<IHHHHIIH")
_LOCAL_MARK, _CENTRAL_MARK, _END_MARK = 0x04034B50, 0x02014B50, 0x06054B50
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED, _HAS_DESCRIPTOR = 0x1, 0x8


class ZipMembers:
    """The members of a zip file, in the order of the file."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data = data
        self._name = name
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
            raise self._refusal(
                f"is not a valid zip file ({error}), as a document of this kind must be. If it has "
                "a password, save it without"
            ) from None
        self._infos = sorted(self._zip.infolist(), key=lambda info: info.header_offset)
        self._check()

    @property
    def names(self) -> list[str]:
        """The names of the members."""
        return [info.filename for info in self._infos]

    def read(self, member: str) -> bytes:
        """Return the content of a member."""
        info = self._zip.getinfo(member)
        if info.compress_type not in _METHODS:
            raise self._refusal(f"compresses {member!r} with method {info.compress_type}")
        try:
            with self._zip.open(info) as file:
                return file.read(info.file_size + 1)  # Without a limit, all would be unpacked.
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,
            OSError,
            ValueError,
        ) as error:
            raise self._refusal(f"has a damaged member {member!r} ({error})") from None

    def rewritten(self, content: Callable[[str], bytes | None]) -> Iterator[bytes]:
        """Yield the zip file with new contents; `content` is called once per member, in order."""
        offsets: dict[str, int] = {}
        changes: dict[str, tuple[int, int, int]] = {}
        start = self._infos[0].header_offset if self._infos else self._zip.start_dir
        position = start
        yield self._data[:start]
        ends = [*(info.header_offset for info in self._infos[1:]), self._zip.start_dir]
        for info, end in zip(self._infos, ends, strict=True):
            offsets[info.filename] = position
            new = content(info.filename)
            if new is None:
                blocks = [self._data[info.header_offset : end]]
            else:
                stored = _compressed(new, info.compress_type)
                changes[info.filename] = (zlib.crc32(new), len(stored), len(new))
                blocks = [self._local_header(info, changes[info.filename]), stored]
            yield from blocks
            position += sum(map(len, blocks))
        directory = b"".join(self._central_headers(offsets, changes))
        yield directory
        tail = self._data[self._end_position() :]
        mark, *numbers, _, _, comment_size = _END_RECORD.unpack_from(tail)
        end_record = _END_RECORD.pack(mark, *numbers, len(directory), position, comment_size)
        yield end_record + tail[_END_RECORD.size :]

    def _local_header(self, info: zipfile.ZipInfo, change: tuple[int, int, int]) -> bytes:
        fields = list(_LOCAL_HEADER.unpack_from(self._data, info.header_offset))
        name_start = info.header_offset + _LOCAL_HEADER.size
        name = self._data[name_start : name_start + fields[9]]
        fields[1] = 20
        fields[2] &= ~_HAS_DESCRIPTOR
        fields[6:9] = change
        fields[10] = 0
        return _LOCAL_HEADER.pack(*fields) + name

    def _central_headers(
        self, offsets: dict[str, int], changes: dict[str, tuple[int, int, int]]
    ) -> Iterator[bytes]:
        position = self._zip.start_dir
        for info in self._zip.infolist():  # In the order of the directory.
            fields = list(_CENTRAL_HEADER.unpack_from(self._data, position))
            name_start = position + _CENTRAL_HEADER.size
            extra_start = name_start + fields[10]
            comment_start = extra_start + fields[11]
            position = comment_start + fields[12]
            extra = self._data[extra_start:comment_start]
            if info.filename in changes:
                fields[3] &= ~_HAS_DESCRIPTOR
                fields[7:10] = changes[info.filename]
                fields[11], extra = 0, b""
            fields[16] = offsets[info.filename]
            name = self._data[name_start:extra_start]
            yield _CENTRAL_HEADER.pack(*fields) + name + extra + self._data[comment_start:position]

    def _end_position(self) -> int:
        return self._data.rfind(struct.pack("<I", _END_MARK))

    def _check(self) -> None:
        infos = self._infos
        if len(infos) > MAX_MEMBERS:
            raise self._refusal(f"has {len(infos):,} members, expected {MAX_MEMBERS:,} at most")
        size = sum(info.file_size for info in infos)
        if size > MAX_BYTES:
            raise self._refusal(f"unpacks to {size:,} bytes, expected {MAX_BYTES:,} at most")
        names: set[str] = set()
        for info in infos:
            self._check_member(info)
            if info.filename in names:
                raise self._refusal(f"has the member {info.filename!r} twice")
            names.add(info.filename)
        starts = [*(info.header_offset for info in infos), self._zip.start_dir]
        for info, (start, end) in zip(infos, pairwise(starts), strict=True):
            self._check_place(info, start, end)
        if not self._is_plain_end():
            raise self._refusal("is a zip64 file or has data after its end, which is not supported")

    def _check_member(self, info: zipfile.ZipInfo) -> None:
        name = info.filename
        parts = name.replace("\\", "/").split("/")
        if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in name:
            raise self._refusal(f"has a member outside of its folder, {name[:80]!r}")
        if info.orig_filename != name:
            raise self._refusal(f"has a member with an unusual name, {info.orig_filename[:80]!r}")
        if info.flag_bits & _ENCRYPTED:
            raise self._refusal(f"encrypts {name[:80]!r}. Save it without a password")
        is_large = info.file_size > 1_000_000
        if is_large and info.file_size > MAX_RATIO * max(1, info.compress_size):
            raise self._refusal(
                f"compresses {name[:80]!r} more than {MAX_RATIO}-fold, as a zip bomb does"
            )

    def _check_place(self, info: zipfile.ZipInfo, start: int, end: int) -> None:
        """Check that a member is between its header and the next one."""
        header = self._data[start : start + _LOCAL_HEADER.size]
        is_header = len(header) == _LOCAL_HEADER.size
        fields = _LOCAL_HEADER.unpack(header) if is_header else (0,) * 11
        size = _LOCAL_HEADER.size + fields[9] + fields[10] + info.compress_size
        name_start = start + _LOCAL_HEADER.size
        name = self._data[name_start : name_start + fields[9]]
        encoding = "utf-8" if info.flag_bits & 0x800 else "cp437"
        is_same = name == info.filename.encode(encoding, "replace")
        if fields[0] != _LOCAL_MARK or start + size > end or not is_same:
            raise self._refusal(f"has a damaged or overlapping member {info.filename[:80]!r}")

    def _is_plain_end(self) -> bool:
        """Check that the directory is followed by the usual end record and its comment."""
        position = self._end_position()
        if position < self._zip.start_dir or len(self._data) < position + _END_RECORD.size:
            return False
        fields = _END_RECORD.unpack_from(self._data, position)
        start = self._zip.start_dir
        has_comment = len(self._data) == position + _END_RECORD.size + fields[7]
        is_placed = fields[6] == start and fields[6] + fields[5] == position
        return bool(has_comment and is_placed and self._directory_end() == position)

    def _directory_end(self) -> int:
        position = self._zip.start_dir
        for _ in self._infos:
            if position + _CENTRAL_HEADER.size > len(self._data):
                return -1
            fields = _CENTRAL_HEADER.unpack_from(self._data, position)
            position += _CENTRAL_HEADER.size + fields[10] + fields[11] + fields[12]
        return position

    def _refusal(self, what: str) -> DataError:
        return DataError(f"{self._name} {what}")


def _compressed(data: bytes, method: int) -> bytes:
    if method == zipfile.ZIP_STORED:
        return data
    compressor = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()
