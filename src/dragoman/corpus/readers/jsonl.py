"""JSON Lines: one JSON object per line, such as `{"en": "A dog.", "de": "Ein Hund."}`.

The fields have the names of the languages unless the recipe names others. `translation.en` is the
field `en` of the object `translation`, as Hugging Face writes it. Line n is row n.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from dragoman.corpus.files import LONE_SURROGATE, NUL, check_files, read_lines
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.row import Reject, Row


class Jsonl(CorpusReader):
    """`source_field` and `target_field`; default: the language codes."""

    extensions: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")

    def __init__(
        self,
        source: str,
        target: str,
        *,
        source_field: str | None = None,
        target_field: str | None = None,
    ) -> None:
        super().__init__(source, target)
        self.source_field = source_field or source
        self.target_field = target_field or target

    @classmethod
    def columns_in(cls, paths: Sequence[Path], delimiter: str = "") -> tuple[str, ...]:
        """Return the fields of the first object that are text, nested ones with a dot."""
        check_files(paths, cls.file_count)
        _, line = next(read_lines(paths[0]), (0, ""))
        try:
            value = json.loads(line) if isinstance(line, str) else None
        except (ValueError, RecursionError):
            return ()
        return tuple(_text_fields(value)) if isinstance(value, dict) else ()

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Yield a row for every line."""
        check_files(paths, self.file_count)
        for number, line in read_lines(paths[0]):
            yield line if isinstance(line, Reject) else self._row(number, line)

    def _row(self, number: int, line: str) -> Row | Reject:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return Reject(number, "invalid JSON")
        if not isinstance(record, dict):
            return Reject(number, "not a JSON object")
        source, target = _field(record, self.source_field), _field(record, self.target_field)
        if source is None or target is None:
            return Reject(number, "no source field" if source is None else "no target field")
        if not isinstance(source, str) or not isinstance(target, str):
            return Reject(number, "field is not a string")
        # Escapes can encode characters that a line of valid UTF-8 cannot contain.
        reason = _reason_against(source + target) if "\\u" in line else None
        return Reject(number, reason) if reason else Row(number, source, target)


def _text_fields(value: dict[str, Any]) -> Iterator[str]:
    for name, content in value.items():
        if isinstance(content, str):
            yield name
        elif isinstance(content, dict):
            yield from (f"{name}.{key}" for key, text in content.items() if isinstance(text, str))


def _reason_against(text: str) -> str | None:
    if "\0" in text:
        return NUL
    return "lone surrogate" if LONE_SURROGATE.search(text) else None


def _field(record: dict[str, Any], name: str) -> Any:
    """Return a field: first by its whole name, then by the parts of the name between dots."""
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
