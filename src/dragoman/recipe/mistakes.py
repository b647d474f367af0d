"""Describe the validation errors of pydantic in plain words.

pydantic finds every mistake at once. This file says for each one what was found, what was
expected, and which name was probably meant.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from dragoman.errors import Mistake, suggest

_EXPECTED = {
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list, for example [one, two]",
    "model_type": "a section with its settings below it",
    "model_attributes_type": "a section with its settings below it",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than": "less than {lt:g}",
    "less_than_equal": "{le:g} or less",
}


def mistakes_in(
    error: ValidationError,
    model: type[BaseModel],
    prefix: str = "",
    where: Callable[[str], str] = lambda path: "",
) -> list[Mistake]:
    """Turn the errors of pydantic into mistakes, each with its dotted path below `prefix`."""
    # A union reports one error for each of its types: they are one mistake.
    details: dict[tuple[str, ...], list[Any]] = {}
    for detail in error.errors(include_url=False):
        details.setdefault(_path_of(model, detail), []).append(detail)
    mistakes = []
    for steps, alternatives in details.items():
        path = ".".join([prefix, *steps] if prefix else steps)
        mistakes.append(Mistake(path, _describe(alternatives, model, steps), where(path)))
    return mistakes


def _path_of(model: type[BaseModel], detail: Any) -> tuple[str, ...]:
    """Give the path of an error, without the names of types that pydantic adds for a union."""
    steps: list[str] = []
    for step in detail["loc"]:
        if _is_union(_annotation_at(model, steps)):
            break
        steps.append(str(step))
    return tuple(steps)


def _describe(alternatives: list[Any], model: type[BaseModel], steps: Sequence[str]) -> str:
    detail = alternatives[0]
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        elsewhere = [repr(path) for path in _paths(model) if path.split(".")[-1] == steps[-1]]
        if elsewhere:
            return f"unknown setting; did you mean {' or '.join(elsewhere)}?"
        section = _annotation_at(model, steps[:-1])
        return (
            f"unknown setting; {suggest(steps[-1], sorted(getattr(section, 'model_fields', ())))}"
        )
    if kind == "missing":
        return "missing; expected a value"
    annotation = _annotation_at(model, steps)
    if kind == "literal_error" and len(alternatives) == 1:
        return f"found {str(value)!r}; {suggest(str(value), _choices(annotation))}"
    expected = [
        text for alternative in alternatives if (text := _expected(alternative, annotation))
    ]
    if expected:
        return f"found {_shorten(value)}, expected {', or '.join(expected)}"
    return str(detail["msg"])


def _expected(detail: Any, annotation: Any) -> str:
    if detail["type"] == "literal_error":
        return ", ".join(_choices(annotation))
    return _EXPECTED.get(detail["type"], "").format(**detail.get("ctx", {}))


def _shorten(value: object) -> str:
    text = repr(value) if not isinstance(value, dict) else "a section"
    return text if len(text) <= 60 else text[:57] + "..."


def _annotation_at(model: type[BaseModel], steps: Sequence[str]) -> Any:
    """Give the type of the setting at this path, or `Any` where no setting is known."""
    annotation: Any = model
    for step in steps:
        fields = getattr(annotation, "model_fields", {})
        if step in fields:
            annotation = fields[step].annotation
        elif step.isdigit() and get_args(annotation):  # An index of a list.
            annotation = get_args(annotation)[0]
        else:
            return Any
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
    return annotation


def _paths(section: type[BaseModel], above: str = "") -> Iterator[str]:
    """List the dotted paths of all settings and sections below a section."""
    for name, setting in section.model_fields.items():
        yield above + name
        annotation = setting.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _paths(annotation, f"{above}{name}.")


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _choices(annotation: Any) -> list[str]:
    """List the values of a Literal, also of one inside a union."""
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    return [choice for member in get_args(annotation) for choice in _choices(member)]
