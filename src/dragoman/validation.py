"""What is wrong with these values, in a person's words?

pydantic finds every mistake at once; this file says each of them the way we say things:
what was found, what was expected, and which name was probably meant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from dragoman.errors import Mistake, suggest

_EXPECTED = {
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "a text",
    "tuple_type": "a list, as [one, two]",
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
    """Turn what pydantic found into mistakes, each with its dotted path below `prefix`."""
    mistakes = []
    for detail in error.errors(include_url=False):
        steps = [str(step) for step in detail["loc"]]
        path = ".".join([prefix, *steps] if prefix else steps)
        mistakes.append(Mistake(path, _describe(detail, model, steps), where(path)))
    return mistakes


def _describe(detail: Any, model: type[BaseModel], steps: list[str]) -> str:
    kind, found = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return f"unknown setting; {suggest(steps[-1], sorted(_fields_at(model, steps[:-1])))}"
    if kind == "literal_error":
        choices = [str(choice) for choice in get_args(_annotation_at(model, steps))]
        return f"found {str(found)!r}; {suggest(str(found), choices)}"
    if kind == "missing":
        return "missing; expected a value"
    if kind in _EXPECTED:
        expected = _EXPECTED[kind].format(**detail.get("ctx", {}))
        return f"found {_shorten(found)}, expected {expected}"
    return str(detail["msg"])


def _shorten(found: object) -> str:
    text = repr(found) if not isinstance(found, dict) else "a section"
    return text if len(text) <= 60 else text[:57] + "..."


def _annotation_at(model: type[BaseModel], steps: list[str]) -> Any:
    annotation: Any = model
    for step in steps:
        if step.isdigit():  # A place in a list: what stands there is what the list is of.
            annotation = get_args(annotation)[0]
        else:
            annotation = annotation.model_fields[step].annotation
    return annotation


def _fields_at(model: type[BaseModel], steps: list[str]) -> list[str]:
    return list(_annotation_at(model, steps).model_fields)
