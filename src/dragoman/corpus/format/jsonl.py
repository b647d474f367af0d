"""One JSON object a line, as `{"en": "A dog.", "de": "Ein Hund."}`.

The fields are called like the languages unless the recipe says otherwise; `translation.en` is
the field `en` in the object `translation`, as Hugging Face writes it. Line n is row n.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from dragoman.corpus.files import LONE_SURROGATE, NUL, check_files, read_lines
from dragoman.corpus.reader import Reader
from dragoman.corpus.row import Reject, Row


class Jsonl(Reader):
    """`source_field` and `target_field` are the language codes unless given."""

    endings: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")

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

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Give a row for every line."""
        check_files(paths, self.files)
        for number, line in read_lines(paths[0]):
            yield line if isinstance(line, Reject) else self._row(number, line)

    def _row(self, number: int, line: str) -> Row | Reject:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return Reject(number, "not JSON")
        if not isinstance(value, dict):
            return Reject(number, "not a JSON object")
        source, target = _find(value, self.source_field), _find(value, self.target_field)
        if source is None or target is None:
            return Reject(number, "no source field" if source is None else "no target field")
        if not isinstance(source, str) or not isinstance(target, str):
            return Reject(number, "field is not text")
        # Escapes can write what a line of UTF-8 cannot hold.
        reason = _reason_against(source + target) if "\\u" in line else None
        return Reject(number, reason) if reason else Row(number, source, target)


def _reason_against(text: str) -> str | None:
    if "\0" in text:
        return NUL
    return "lone surrogate" if LONE_SURROGATE.search(text) else None


def _find(value: dict[str, Any], field: str) -> Any:
    """Look a field up, first as one name, then step by step along its dots."""
    if field in value:
        return value[field]
    found: Any = value
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found
