"""Apache Parquet: a table in columns, as data engines and Hugging Face keep it.

The columns are called like the languages unless the recipe says otherwise; `translation.en` is
the field `en` of the column `translation`. Only these columns are decoded, and only if the file
says that they hold text. Row n of the table is row n. Parquet packs itself: no `.gz` around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from dragoman.corpus.files import NOT_UTF8, NUL, check_files
from dragoman.corpus.reader import Reader
from dragoman.corpus.row import Reject, Row
from dragoman.errors import DataError, suggest

_BATCH = 1024


class Parquet(Reader):
    """`source_column` and `target_column` are the language codes unless given."""

    endings: ClassVar[tuple[str, ...]] = (".parquet",)

    def __init__(
        self,
        source: str,
        target: str,
        *,
        source_column: str | None = None,
        target_column: str | None = None,
    ) -> None:
        super().__init__(source, target)
        self.source_column = source_column or source
        self.target_column = target_column or target

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Give a row for every row of the table."""
        check_files(paths, self.files)
        path = paths[0]
        number = 0
        try:
            with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as table:
                source = _find(table.schema_arrow, self.source_column, path)
                target = _find(table.schema_arrow, self.target_column, path)
                names = [".".join(source), ".".join(target)]
                for batch in table.iter_batches(_BATCH, columns=names, use_threads=False):
                    pairs = zip(_texts(batch, source), _texts(batch, target), strict=True)
                    for pair in pairs:
                        number += 1
                        yield _row(number, *pair)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            # Arrow's messages go on over many lines; the first one says it.
            what = (str(error).strip() or type(error).__name__).split("\n")[0]
            raise DataError(
                f"{path} is no Parquet file, or is damaged after row {number:,}: {what}\n"
                f"Write or fetch it again"
            ) from error


def _find(schema: pyarrow.Schema, column: str, path: Path) -> list[str]:
    """Give the steps to a column of text, or say what there is instead."""
    steps = [column] if column in schema.names else column.split(".")
    found: Any = schema
    for step in steps:
        fields = {field.name: field for field in found} if _has_fields(found) else {}
        if step not in fields:
            names = list(schema.names)
            raise DataError(
                f"{path} has no column {column!r}; {suggest(column, names)}.\n"
                f"Name it in the recipe: source_column, target_column"
            )
        if sum(field.name == step for field in found) > 1:
            raise DataError(f"{path} has several columns called {step!r}, expected one")
        found = fields[step].type
    if not _is_text(found):
        listed = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise DataError(
            f"the column {column!r} of {path} holds {found}, expected text.\nIt has: {listed}"
        )
    return steps


def _has_fields(kind: Any) -> bool:
    return isinstance(kind, pyarrow.Schema | pyarrow.StructType)


def _is_text(kind: Any) -> bool:
    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    return kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.string_view())


def _texts(batch: pyarrow.RecordBatch, steps: list[str]) -> list[str | bytes | None]:
    """Give the cells of a column; those that are not UTF-8 as bytes."""
    column: Any = batch.column(steps[0])
    for step in steps[1:]:
        column = pyarrow.compute.struct_field(column, step)
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        texts: list[str | bytes | None] = column.to_pylist()
    except UnicodeDecodeError:  # Arrow believes the file; Python looks.
        texts = [_text(cell) for cell in column.cast(pyarrow.large_binary()).to_pylist()]
    return texts


def _text(cell: bytes | None) -> str | bytes | None:
    try:
        return cell.decode() if cell is not None else None
    except UnicodeDecodeError:
        return cell


def _row(number: int, source: str | bytes | None, target: str | bytes | None) -> Row | Reject:
    if isinstance(source, str) and isinstance(target, str):
        return (
            Reject(number, NUL) if "\0" in source or "\0" in target else Row(number, source, target)
        )
    is_missing = source is None or target is None
    return Reject(number, "no text in the cell" if is_missing else NOT_UTF8)
