"""Reads the parameters of a request: JSON, form, multipart and query string, with limits.

Clients send the same names in four encodings, and bodies with GET and DELETE. All values come out
of `read_parameters` in one form. Any body that is not valid ends in a `ServiceError`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TypeAlias
from urllib.parse import parse_qsl

from python_multipart.multipart import parse_options_header
from starlette.requests import Request

from dragoman.serving.interface import Limits, ServiceError
from dragoman.serving.multipart import MultipartForm, Upload, too_large, too_many

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
LARGEST_NUMBER = 10**9
LENGTH_DIGITS = 18
"""Of the header Content-Length."""
INDEXED_NAME = re.compile(r"(?P<list>[^\[\].]+)\[(?P<index>\d{1,4})\]\.(?P<name>[^\[\].]+)")
"""How a form writes a list of objects: `dictionaries[0].entries`."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The values of one request. A value of the body hides one of the query string."""

    json: Mapping[str, Json] = field(default_factory=dict)
    form: Mapping[str, list[str]] = field(default_factory=dict)
    """Fields of a form and of the query string; a field may be repeated."""
    files: Mapping[str, Upload] = field(default_factory=dict)
    is_json: bool = False

    def has(self, name: str) -> bool:
        """Whether the client sent a value; null is no value."""
        return self._value(name) is not None

    def is_list(self, name: str) -> bool:
        """Whether the client sent a JSON list or a repeated field."""
        return isinstance(self._value(name), list)

    def text(self, name: str, default: str = "") -> str:
        """Return a text; the first one of a repeated field."""
        value = self._value(name)
        if value is None:
            return default
        if isinstance(value, list) and name not in self.json:
            value = value[0]
        return value if isinstance(value, str) else _wrong(name, "a string")

    def texts(self, name: str) -> tuple[str, ...]:
        """Return one text or a list of texts; empty if the client sent none."""
        value = self._value(name)
        if value is None:
            return ()
        values = value if isinstance(value, list) else [value]
        texts = tuple(value for value in values if isinstance(value, str))
        return texts if len(texts) == len(values) else _wrong(name, "a string or a list of strings")

    def names(self, name: str) -> tuple[str, ...]:
        """Return a list of short names: a list, a repeated field or a comma-joined string."""
        parts = (part.strip() for text in self.texts(name) for part in text.split(","))
        return tuple(part for part in parts if part)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a truth value: true, false, 1, 0, also as strings."""
        value = self._scalar(name)
        if value is None or value == "":
            return default
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        return FLAGS[word] if word in FLAGS else _wrong(name, "true or false")

    def integer(self, name: str, default: int) -> int:
        """Return a whole number of at most nine digits."""
        value = self._scalar(name)
        if value is None or value == "":
            return default
        if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,9}\s*", value):
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value if abs(value) <= LARGEST_NUMBER else _wrong(name, "a smaller number")
        return _wrong(name, "a whole number")

    def number(self, name: str, default: float) -> float:
        """Return a number."""
        value = self._scalar(name)
        if value is None or value == "":
            return default
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,9})?", value):
            return float(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            # The comparison refuses infinity too.
            return float(value) if abs(value) <= LARGEST_NUMBER else _wrong(name, "smaller")
        return _wrong(name, "a number")

    def objects(self, name: str) -> tuple[Parameters, ...]:
        """Return a list of objects; a form writes them as `name[0].key`."""
        value = self.json.get(name)
        if isinstance(value, dict):
            value = [value]
        if isinstance(value, list):
            objects = [item for item in value if isinstance(item, dict)]
            if len(objects) != len(value):
                _wrong(name, "a list of objects")
            return tuple(Parameters(json=item, is_json=True) for item in objects)
        if value is not None:
            _wrong(name, "a list of objects")
        forms: dict[int, dict[str, list[str]]] = {}
        for key, values in self.form.items():
            match = INDEXED_NAME.fullmatch(key)
            if match and match["list"] == name:
                forms.setdefault(int(match["index"]), {})[match["name"]] = values
        return tuple(Parameters(form=forms[index]) for index in sorted(forms))

    def file(self, name: str) -> Upload | None:
        """Return an uploaded file."""
        return self.files.get(name)

    def remove_files(self) -> None:
        """Delete all uploaded files that still exist."""
        for upload in self.files.values():
            upload.path.unlink(missing_ok=True)

    def _value(self, name: str) -> Json:
        if name in self.json:
            return self.json[name]
        values = self.form.get(name)
        if values is None:
            return None
        return values[0] if len(values) == 1 else list(values)

    def _scalar(self, name: str) -> Json:
        value = self._value(name)
        return value[0] if isinstance(value, list) and name not in self.json else value


async def read_parameters(
    request: Request, limits: Limits, uploads: Path | None = None
) -> Parameters:
    """Read the query string and the body.

    `uploads` is the folder for files; without it, a request with a file is refused.
    """
    query = _parse_form(request.scope["query_string"], limits)
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    content_type = kind.decode("latin-1").strip()
    if content_type == "multipart/form-data":
        form = MultipartForm(options.get(b"boundary", b""), limits, uploads)
        await _read_multipart(request, form, limits, accepts_files=uploads is not None)
        return Parameters(form=query | form.fields, files=form.files)
    body = await read_body(request, limits)
    if not body.strip():
        return Parameters(form=query)
    is_json = content_type == "application/json" or content_type.endswith("+json")
    # Some clients send JSON as plain text or without a type.
    if not is_json and content_type in ("", "text/plain"):
        is_json = body.lstrip().startswith((b"{", b"\xef\xbb\xbf{"))
    if is_json:
        values = parse_json(_repair(body) if content_type == "text/plain" else body, limits)
        if not isinstance(values, dict):
            raise ServiceError("bad_request", "The body must be a JSON object")
        return Parameters(json=values, form=query, is_json=True)
    if content_type not in ("", "text/plain", "application/x-www-form-urlencoded"):
        raise ServiceError("bad_request", "The body must be JSON or a form; check Content-Type")
    return Parameters(form=query | _parse_form(body, limits))


async def read_body(request: Request, limits: Limits) -> bytes:
    """Read the whole body, up to `limits.body_bytes`, within `limits.body_seconds`."""
    try:
        async with (
            asyncio.timeout(limits.body_seconds),
            aclosing(_chunks(request, limits.body_bytes)) as chunks,
        ):
            return b"".join([chunk async for chunk in chunks])
    except TimeoutError:
        _too_slow(limits)


def _repair(body: bytes) -> bytes:
    """Remove what Subtitle Edit writes after the JSON object in its requests for DeepLX: `]}`."""
    end = body.rstrip().removesuffix(b"]}").rstrip()
    if end == body.rstrip() or not end.endswith(b"}"):
        return body
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return end
    return body


async def _read_multipart(
    request: Request, form: MultipartForm, limits: Limits, accepts_files: bool
) -> None:
    limit = limits.body_bytes + (limits.upload_bytes if accepts_files else 0)
    try:
        async with (
            asyncio.timeout(limits.body_seconds),
            aclosing(_chunks(request, limit)) as chunks,
        ):
            async for chunk in chunks:
                form.write(chunk)
        form.close()
    except TimeoutError:
        form.discard()
        _too_slow(limits)
    except BaseException:
        form.discard()
        raise


def parse_json(body: bytes, limits: Limits) -> Json:
    """Parse JSON strictly: UTF-8, no duplicate keys, no NaN, no lone surrogates, bounded depth."""
    try:
        value: Json = json.loads(
            body.decode("utf-8-sig"),
            object_pairs_hook=_unique_keys,
            parse_constant=_no_constant,
        )
    except RecursionError:
        _too_deep(limits)
    except ValueError:
        raise ServiceError("bad_request", "The body is not valid JSON in UTF-8") from None
    # Most requests need no second look. Only an escape can make a lone surrogate: a surrogate
    # itself is not valid UTF-8.
    if body.count(b"[") + body.count(b"{") > limits.nesting or b"\\ud" in body.lower():
        _check_values(value, limits)
    return value


def _unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ServiceError("bad_request", "A key occurs twice in a JSON object")
    return values


def _no_constant(constant: str) -> NoReturn:
    raise ServiceError("bad_request", f"{constant} is not a value of JSON")


def _check_values(value: Json, limits: Limits) -> None:
    level = [value]
    depth = 0
    while level:
        below: list[Json] = []
        for item in level:
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, dict):
                below.extend(item.values())
                for key in item:
                    _check_text(key)
        depth += any(isinstance(item, list | dict) for item in level)
        if depth > limits.nesting:
            _too_deep(limits)
        level = below


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ServiceError(
            "bad_request", "A string has half of a surrogate pair; send valid Unicode"
        ) from None


def _parse_form(encoded: bytes, limits: Limits) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(
            encoded.decode(),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=limits.form_fields,
        )
    except UnicodeDecodeError:
        raise ServiceError("bad_request", "The parameters are not valid UTF-8") from None
    except ValueError:
        too_many(limits)
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return fields


async def _chunks(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise ServiceError("bad_request", "The body is compressed; send it without compression")
    length = request.headers.get("content-length", "")
    if (
        length.isascii()
        and length.isdigit()
        and (len(length) > LENGTH_DIGITS or int(length) > limit)
    ):
        too_large(limit)
    received = 0
    async with aclosing(request.stream()) as stream:
        async for chunk in stream:
            received += len(chunk)
            if received > limit:
                too_large(limit)
            yield chunk


def _wrong(name: str, expected: str) -> NoReturn:
    raise ServiceError("bad_request", f"Invalid request: {name} must be {expected}")


def _too_deep(limits: Limits) -> NoReturn:
    raise ServiceError("bad_request", f"The JSON is nested more than {limits.nesting} levels deep")


def _too_slow(limits: Limits) -> NoReturn:
    raise ServiceError(
        "bad_request", f"The body did not arrive within {limits.body_seconds:g} seconds"
    )
