"""Which class answers to this name, and with which options?

Everything swappable is a part: one class in one file, in the folder of its kind. The file's
name is its name in a recipe; a dotted name (`lesson.gaussian`) reaches a file outside the
package, through Python's own path. There is no table to keep: the folder is the table.

Arguments of a part before `*` come from the model, arguments after `*` come from the recipe:

    class Gaussian(Similarity):
        def __init__(self, size: int, *, sigma: float = 1.0) -> None: ...

    model: {similarity: {name: gaussian, sigma: 2.0}}
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    ValidationError,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dragoman.errors import Mistake, RecipeError, suggest
from dragoman.validation import mistakes_in

Interface = TypeVar("Interface")

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


class Choice(BaseModel):
    """A part that a recipe names, and its options as they were written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    options: dict[str, str] = {}

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        """Accept `cosine`, and `{name: cosine, scale: 10}`."""
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, Choice):
            return value
        if not isinstance(value, Mapping) or "name" not in value:
            raise PydanticCustomError(
                "part", "expected the name of a part, or a section with its name: and options"
            )
        if set(value) == {"name", "options"} and isinstance(value["options"], Mapping):
            return value
        nested = [key for key in value if isinstance(value[key], Mapping | list | tuple)]
        if nested:
            raise PydanticCustomError("part", f"expected one plain value for: {', '.join(nested)}")
        options = {key: _as_text(value[key]) for key in value if key != "name"}
        return {"name": value["name"], "options": options}

    @model_serializer
    def _write(self) -> str | dict[str, str]:
        return {"name": self.name, **self.options} if self.options else self.name


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class Chosen(Generic[Interface]):
    """The class behind a choice with its options checked: call it to build the part."""

    cls: type[Interface]
    options: Mapping[str, Any]

    def __call__(self, *given: Any) -> Interface:
        """Build the part from what the model gives it."""
        return self.cls(*given, **self.options)


def names(kind: str) -> list[str]:
    """List the parts of one kind (`model.similarity`) by looking into its folder."""
    folder = Path(__file__).parent.joinpath(*kind.split("."))
    return sorted(file.stem for file in folder.glob("*.py") if file.stem != "__init__")


def known(kind: str, *also: str) -> AfterValidator:
    """Make the check that a choice names a part of this kind, or a dotted name of one's own."""

    def check(choice: Choice) -> Choice:
        wrong = _wrong_name(kind, choice.name, also)
        if wrong:
            raise PydanticCustomError("part", wrong)
        return choice

    return AfterValidator(check)


def _wrong_name(kind: str, name: str, also: tuple[str, ...] = ()) -> str:
    """Say why this names no part of the kind; nothing when it may."""
    choices = [*also, *names(kind)]
    if _NAME.fullmatch(name) and ("." in name or name in choices):
        return ""
    return f"no part is called {name!r}; {suggest(name, choices)}"


def choose(kind: str, choice: Choice, path: str, interface: type[Interface]) -> Chosen[Interface]:
    """Import the class that a choice names and check its options, or say all that is wrong."""
    wrong = _wrong_name(kind, choice.name)
    if wrong:
        raise RecipeError([Mistake(path, wrong)])
    cls = _import(kind, choice, path, interface)
    schema = _options_of(cls)
    try:
        options = schema(**choice.options)
    except ValidationError as error:
        mistakes = mistakes_in(error, schema, path)
        if not schema.model_fields:
            mistakes = [Mistake(each.path, f"{choice.name} has no options") for each in mistakes]
        raise RecipeError(mistakes) from None
    return Chosen(cls, {name: getattr(options, name) for name in schema.model_fields})


def _import(kind: str, choice: Choice, path: str, interface: type[Interface]) -> type[Interface]:
    dotted = choice.name if "." in choice.name else f"dragoman.{kind}.{choice.name}"
    try:
        module = importlib.import_module(dotted)
    except ModuleNotFoundError as error:
        if error.name is None or not dotted.startswith(error.name):
            raise  # The file exists; something that it imports does not. That trace is the help.
        advice = "; if the file is in this folder, type: PYTHONPATH=. python -m dragoman ..."
        raise RecipeError(
            [Mistake(path, f"Python finds no module {dotted!r} for this part{advice}")]
        ) from None
    found = [
        member
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, interface)
        and member.__module__ == module.__name__
        and not inspect.isabstract(member)
    ]
    if len(found) != 1:
        what = f"{dotted} holds {len(found)} kinds of {interface.__name__}, expected one"
        raise RecipeError([Mistake(path, what)])
    return found[0]


def _options_of(cls: type) -> type[BaseModel]:
    constructor: Callable[..., None] = cls.__init__  # type: ignore[misc]
    hints = get_type_hints(constructor, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in inspect.signature(constructor).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    settings = ConfigDict(extra="forbid", allow_inf_nan=False)
    return create_model(f"{cls.__name__}Options", __config__=settings, **fields)
