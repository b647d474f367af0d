"""Reads a multipart form piece by piece: fields to memory, files to temporary files."""

from __future__ import annotations

import logging
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NoReturn

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from dragoman.serving.interface import Limits, ServiceError

NAME_LENGTH = 200
"""Of a file, in characters."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a multipart request."""

    name: str
    """The client's name of the file, without folders."""
    path: Path
    """A temporary file that only this user can read. The receiver deletes it."""
    size: int


class MultipartForm:
    """Receives the parts of a multipart body; files go to temporary files, fields to memory."""

    def __init__(self, boundary: bytes, limits: Limits, uploads: Path | None) -> None:
        self.fields: dict[str, list[str]] = {}
        self.files: dict[str, Upload] = {}
        self._limits = limits
        self._uploads = uploads
        self._num_parts = 0
        self._field_bytes = 0
        self._has_data = False
        self._is_finished = False
        self._header = (bytearray(), bytearray())
        self._headers: dict[bytes, bytes] = {}
        self._name = ""
        self._data = bytearray()
        self._file: BinaryIO | None = None
        self._file_name = ""
        self._paths: list[Path] = []
        self._parser: MultipartParser | None = None
        if boundary:
            with suppress(FormParserError):
                self._parser = MultipartParser(
                    boundary,
                    {
                        "on_part_begin": self._begin_part,
                        "on_part_data": self._add_data,
                        "on_part_end": self._end_part,
                        "on_header_field": lambda data, i, j: self._header[0].extend(data[i:j]),
                        "on_header_value": lambda data, i, j: self._header[1].extend(data[i:j]),
                        "on_header_end": self._end_header,
                        "on_headers_finished": self._end_headers,
                        "on_end": self._finish,
                    },
                )
                # Its messages would repeat characters of the body.
                self._parser.logger = logging.Logger("multipart", logging.CRITICAL + 1)

    def write(self, chunk: bytes) -> None:
        """Parse a piece of the body."""
        if not chunk:
            return
        self._has_data = True
        if self._parser is None:
            raise ServiceError(
                "bad_request", "The multipart body needs a boundary of 1 to 256 bytes"
            )
        try:
            self._parser.write(chunk)
        except FormParserError:
            _not_multipart()

    def close(self) -> None:
        """Check that the body was complete; an empty body has no fields."""
        if self._has_data and not self._is_finished:
            _not_multipart()

    def discard(self) -> None:
        """Delete what was written."""
        if self._file is not None:
            self._file.close()
        for path in self._paths:
            path.unlink(missing_ok=True)

    def _begin_part(self) -> None:
        self._num_parts += 1
        if self._num_parts > self._limits.form_fields:
            too_many(self._limits)
        self._headers = {}
        self._data = bytearray()

    def _end_header(self) -> None:
        name, value = self._header
        self._headers[bytes(name).lower()] = bytes(value)
        self._header = (bytearray(), bytearray())

    def _end_headers(self) -> None:
        disposition = self._headers.get(b"content-disposition", b"")
        _, options = parse_options_header(disposition)
        if b"name" not in options:
            raise ServiceError("bad_request", "A part of the multipart body has no name")
        self._name = _decode(options[b"name"])
        if b"filename" not in options:
            return
        self._file_name = _safe_name(options[b"filename"])
        if self._uploads is None:
            raise ServiceError("bad_request", "This address does not accept files")
        handle, path = tempfile.mkstemp(prefix="upload-", dir=self._uploads)
        self._paths.append(Path(path))
        self._file = os.fdopen(handle, "wb")

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.write(data[start:end])
            return
        self._field_bytes += end - start
        if self._field_bytes > self._limits.body_bytes:
            too_large(self._limits.body_bytes)
        self._data += data[start:end]

    def _end_part(self) -> None:
        if self._file is None:
            self.fields.setdefault(self._name, []).append(_decode(bytes(self._data)))
            return
        size = self._file.tell()
        self._file.close()
        self._file = None
        path = self._paths[-1]
        if size > self._limits.upload_bytes:
            too_large(self._limits.upload_bytes)
        # A form with an empty file input sends a part without a file name.
        if not self._file_name or self._name in self.files:
            path.unlink()
            return
        self.files[self._name] = Upload(self._file_name, path, size)

    def _finish(self) -> None:
        self._is_finished = True


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ServiceError("bad_request", "The parameters are not valid UTF-8") from None


def _safe_name(data: bytes) -> str:
    name = PurePosixPath(data.decode(errors="replace").replace("\\", "/")).name
    return "".join(character for character in name if character.isprintable())[-NAME_LENGTH:]


def too_large(limit: int) -> NoReturn:
    """Refuse a body or a file that has too many bytes."""
    raise ServiceError("too_long", f"The request exceeds text limit ({limit} bytes)")


def too_many(limits: Limits) -> NoReturn:
    """Refuse a form that has too many fields."""
    raise ServiceError("too_long", f"The request has more than {limits.form_fields} fields")


def _not_multipart() -> NoReturn:
    raise ServiceError("bad_request", "The body is not a complete multipart form")
