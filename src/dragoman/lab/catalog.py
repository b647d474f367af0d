"""The list of claims, read from their source files without importing them.

A claim is one file in `claims/`; the folder is the list. Importing a claim loads PyTorch, which
takes seconds. The title, sources and durations are literals in the class body, so `ast` reads
them in milliseconds.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dragoman.errors import DataError, suggest
from dragoman.lab.lectures import lectures_of

_FOLDER = Path(__file__).parent / "claims"
_FIELDS = ("title", "sources", "durations")


@dataclass(frozen=True, slots=True)
class ClaimEntry:
    """One line of the list."""

    number: str
    """As C9."""
    module: str
    title: str
    sources: tuple[tuple[str, str, str], ...]
    """Lecture (a short form, see `lectures.py`), section, and what it says there, in our words."""
    durations: tuple[int, int]
    """Estimated seconds on one core: quick and full."""

    @property
    def lectures(self) -> tuple[str, ...]:
        """The lectures that make the claim."""
        return lectures_of(self.sources)


@cache
def list_claims() -> dict[str, ClaimEntry]:
    """All claims by number, in order."""
    entries = (_read(path) for path in sorted(_FOLDER.glob("c[0-9][0-9]_*.py")))
    return {entry.number: entry for entry in entries}


def find_claim(name: str) -> ClaimEntry:
    """The claim named C9, c9, c09 or 9."""
    number = name.upper().removeprefix("C").lstrip("0")
    entry = list_claims().get(f"C{number}")
    if entry is None:
        names = list(list_claims())
        raise DataError(
            f"there is no claim {name!r}; {suggest(name, names)} (all claims: dragoman lab list)"
        )
    return entry


def file_stem(number: str) -> str:
    """The stem of a claim's result files: C9 gives c09."""
    return f"c{int(number[1:]):02}"


def _read(path: Path) -> ClaimEntry:
    module = ast.parse(path.read_text(encoding="utf-8"))
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            fields = _literals(node)
            if set(fields) == set(_FIELDS):
                return ClaimEntry(
                    number=f"C{int(path.stem[1:3])}",
                    module=f"dragoman.lab.claims.{path.stem}",
                    **fields,
                )
    raise AssertionError(f"{path.name} has no class with the literals {', '.join(_FIELDS)}")


def _literals(node: ast.ClassDef) -> dict[str, Any]:
    fields = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if name in _FIELDS:
                fields[name] = ast.literal_eval(statement.value)
    return fields
