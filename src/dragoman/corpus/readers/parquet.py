"""Apache Parquet: a table stored in columns, as data engines and Hugging Face write it.

The columns have the names of the languages unless the recipe names others. `translation.en` is the
field `en` of the column `translation`. Only these columns are decoded, and only if the schema says
that they contain strings. Row n of the table is row n. Parquet is compressed inside: a `.gz`
around it is not supported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from dragoman.corpus.files import NOT_UTF8, NUL, check_files
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.row import Reject, Row
from dragoman.errors import DataError, suggest
from dragoman.storage.mirror import open_input, path_text

_BATCH_ROWS = 1024


class Parquet(CorpusReader):
    """`source_column` and `target_column`; default: the language codes."""

    extensions: ClassVar[tuple[str, ...]] = (".parquet",)

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

    @classmethod
    def columns_in(cls, paths: Sequence[Path], delimiter: str = "") -> tuple[str, ...]:
        """Return the columns that are text; fields of a struct column have a dot."""
        check_files(paths, cls.file_count)
        try:
            with open_input(paths[0]) as file:
                schema = pyarrow.parquet.read_schema(file)
        except (pyarrow.ArrowException, OSError, ValueError):
            return ()  # Reading the rows raises the error.
        columns = [
            (f"{field.name}.{child.name}", child.type)
            for field in schema
            if isinstance(field.type, pyarrow.StructType)
            for child in field.type
        ]
        columns += [(field.name, field.type) for field in schema]
        return tuple(name for name, type_ in columns if _is_text(type_))

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Yield a row for every row of the table."""
        check_files(paths, self.file_count)
        path = paths[0]
        number = 0
        try:
            with (
                open_input(path) as file,
                pyarrow.parquet.ParquetFile(file, page_checksum_verification=True) as table,
            ):
                source = _column_path(table.schema_arrow, self.source_column, path)
                target = _column_path(table.schema_arrow, self.target_column, path)
                columns = [".".join(source), ".".join(target)]
                for batch in table.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
                    pairs = zip(_texts(batch, source), _texts(batch, target), strict=True)
                    for pair in pairs:
                        number += 1
                        yield _row(number, *pair)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            # Arrow's messages have many lines; the first one is enough.
            message = (str(error).strip() or type(error).__name__).split("\n")[0]
            raise DataError(
                f"{path_text(path)} is not a Parquet file, or is damaged after row {number:,}: "
                f"{message}\nWrite it or download it again"
            ) from error


def _column_path(schema: pyarrow.Schema, column: str, path: Path) -> list[str]:
    """Return the field names that lead to a column of strings; raise if it does not exist."""
    names = [column] if column in schema.names else column.split(".")
    kind: Any = schema
    for name in names:
        fields = {field.name: field for field in kind} if _has_fields(kind) else {}
        if name not in fields:
            raise DataError(
                f"{path_text(path)} has no column {column!r}; "
                f"{suggest(column, list(schema.names))}.\n"
                f"Name the columns: set source_column and target_column for this corpus in the "
                f"recipe"
            )
        if sum(field.name == name for field in kind) > 1:
            raise DataError(
                f"{path_text(path)} has several columns with the name {name!r}, expected one.\n"
                f"Rename the columns, and write the file again"
            )
        kind = fields[name].type
    if not _is_text(kind):
        listed = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise DataError(
            f"the column {column!r} of {path_text(path)} contains {kind}, expected strings.\n"
            f"The columns are: {listed}"
        )
    return names


def _has_fields(kind: Any) -> bool:
    return isinstance(kind, pyarrow.Schema | pyarrow.StructType)


def _is_text(kind: Any) -> bool:
    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    return kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.string_view())


def _texts(batch: pyarrow.RecordBatch, names: list[str]) -> list[str | bytes | None]:
    """Return the cells of a column; a cell that is not UTF-8 stays bytes."""
    column: Any = batch.column(names[0])
    for name in names[1:]:
        column = pyarrow.compute.struct_field(column, name)
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        texts: list[str | bytes | None] = column.to_pylist()
    except UnicodeDecodeError:  # Arrow does not check the encoding; Python does.
        texts = [_decode(cell) for cell in column.cast(pyarrow.large_binary()).to_pylist()]
    return texts


def _decode(cell: bytes | None) -> str | bytes | None:
    try:
        return cell.decode() if cell is not None else None
    except UnicodeDecodeError:
        return cell


def _row(number: int, source: str | bytes | None, target: str | bytes | None) -> Row | Reject:
    if source is None or target is None:
        return Reject(number, "null cell")
    if isinstance(source, bytes) or isinstance(target, bytes):
        return Reject(number, NOT_UTF8)
    if "\0" in source or "\0" in target:
        return Reject(number, NUL)
    return Row(number, source, target)
