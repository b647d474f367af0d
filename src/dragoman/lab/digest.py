"""A digest of the code that measures a claim: it shows when a stored finding is outdated.

The digest covers each definition that `measure` reaches by name, in the file of the claim and in
the other files of the lab: their syntax trees, without docstrings and comments. So a new text, a
new figure or a new criterion does not change it; another constant, task or training loop does.
Code outside the lab is not covered: its tests say what must stay the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

_PACKAGE = "dragoman.lab"
_NOT_MEASURED = f"{_PACKAGE}.style"
_ENTRY = "measure"
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class MeasurementCode:
    """The code that measures a claim."""

    digest: str
    settings: dict[str, str]
    """The constants of the claim's file that the measurement uses, as they are written."""


@dataclass(slots=True)
class _Module:
    """The definitions of a file by name."""

    name: str
    definitions: dict[str, ast.AST] = field(default_factory=dict)
    """Functions, classes and the values of constants. The members of the class that has `measure`
    begin with `self.`; only those that are used count, not the texts of the claim."""
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Names from other files of the lab: the module, and the name there."""


@cache
def measurement_code(module: str) -> MeasurementCode:
    """Return the digest and the settings of the claim in a module."""
    reached: dict[tuple[str, str], str] = {}
    settings: dict[str, str] = {}
    waiting = [(module, f"self.{_ENTRY}")]
    while waiting:
        here, name = waiting.pop()
        if (here, name) in reached:
            continue
        file = _read(here)
        if name in file.imports:
            waiting.append(file.imports[name])
        node = file.definitions.get(name)
        if node is None:  # An import, a local name, or a built-in.
            continue
        reached[here, name] = ast.unparse(node)
        if here == module and isinstance(node, ast.expr):
            settings[name] = reached[here, name]
        waiting += [(here, used) for used in _names(node)]
    text = "\n".join(f"{where} {code}" for where, code in sorted(reached.items()))
    return MeasurementCode(
        sha256(text.encode()).hexdigest()[:_DIGITS], dict(sorted(settings.items()))
    )


@cache
def _read(name: str) -> _Module:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    module = _Module(name)
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        _remove_docstrings(node)
        if isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if source.startswith(f"{_PACKAGE}.") and source != _NOT_MEASURED:
                for alias in node.names:
                    module.imports[alias.asname or alias.name] = (source, alias.name)
        members = dict(_definitions(node.body)) if isinstance(node, ast.ClassDef) else {}
        if _ENTRY in members:
            module.definitions |= {f"self.{name}": member for name, member in members.items()}
        else:
            module.definitions |= dict(_definitions([node]))
    return module


def _definitions(statements: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """Yield what the statements define: functions, classes, and the values of constants."""
    for statement in statements:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, statement
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                values = value.elts if isinstance(value, ast.Tuple) else [value] * len(targets)
                for target, one in zip(targets, values, strict=True):
                    assert isinstance(target, ast.Name)
                    yield target.id, one


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a definition uses; members of its own object begin with `self.`."""
    for leaf in ast.walk(node):
        match leaf:
            case ast.Name(id=name):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                yield f"self.{name}"


def _remove_docstrings(node: ast.AST) -> None:
    """Remove the docstrings of a definition and of all inside it."""
    for inner in ast.walk(node):
        if isinstance(inner, (ast.FunctionDef, ast.ClassDef)):
            kept = [statement for statement in inner.body if not _is_text(statement)]
            inner.body = kept or [ast.Pass()]


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
