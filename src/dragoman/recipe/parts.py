"""Find the class that a recipe names, and check its options.

Everything that can be swapped is a part: one class in one file, in the folder of its kind. The
name of the file is the name in a recipe. A dotted name (`my_parts.gaussian`) is a module outside
the package, on Python's own path. There is no registry: the folder is the list.

Arguments of a part before `*` come from the model, arguments after `*` come from the recipe:

    class Gaussian(Similarity):
        def __init__(self, size: int, *, sigma: float = 1.0) -> None: ...

    model: {similarity: {name: my_parts.gaussian, sigma: 2.0}}
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from dragoman.errors import Mistake, RecipeError, suggest
from dragoman.recipe.mistakes import mistakes_in

Interface = TypeVar("Interface")

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


class Choice(BaseModel):
    """A part that a recipe names, and its options as text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    options: dict[str, str] = {}

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        """Accept `cosine` and `{name: cosine, scale: 10}`."""
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
    def _write(self) -> str | dict[str, str | int | float | bool]:
        if not self.options:
            return self.name
        return {"name": self.name} | {key: _as_value(text) for key, text in self.options.items()}


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_value(text: str) -> str | int | float | bool:
    """Give numbers and booleans their type, if they are read back as exactly this text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        # YAML writes 1e-05 as 1.0e-05, and inf as .inf.
        if str(value) == text and text.lstrip("-").replace(".", "").isdigit():
            return value
    return text


@dataclass(frozen=True, slots=True)
class Chosen(Generic[Interface]):
    """The class behind a choice, with checked options. Call it to build the part."""

    cls: type[Interface]
    options: Mapping[str, Any]

    def __call__(self, *given: Any) -> Interface:
        """Build the part from the arguments that the model gives it."""
        return self.cls(*given, **self.options)


def names(kind: str) -> list[str]:
    """List the parts of one kind (`model.similarity`): the files of its folder."""
    folder = Path(__file__).parents[1].joinpath(*kind.split("."))
    return sorted(file.stem for file in folder.glob("*.py") if file.stem != "__init__")


@dataclass(frozen=True, slots=True)
class PartOf:
    """Annotation of a `Choice`: it must name a part of this kind, or have a dotted name."""

    kind: str
    also: tuple[str, ...] = ()
    """Names that are accepted besides the files of the folder."""

    @property
    def names(self) -> list[str]:
        """All names except dotted ones."""
        return [*self.also, *names(self.kind)]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        name = {"anyOf": [{"enum": self.names}, {"type": "string", "pattern": r"\."}]}
        section = {
            "type": "object",
            "properties": {"name": name},
            "required": ["name"],
            "additionalProperties": {"type": ["string", "number", "boolean"]},
        }
        return {"anyOf": [*name["anyOf"], section]}

    def _check(self, choice: Choice) -> Choice:
        problem = _name_problem(self.names, choice.name)
        if problem:
            raise PydanticCustomError("part", "{problem}", {"problem": problem})
        return choice


def known(kind: str, *also: str) -> PartOf:
    """Annotate a setting: it names a part of this kind, or a dotted module."""
    return PartOf(kind, also)


def _name_problem(choices: list[str], name: str) -> str:
    """Explain why this is not the name of a part; empty if it can be one."""
    if _NAME.fullmatch(name) and ("." in name or name in choices):
        return ""
    return f"no part is called {name!r}; {suggest(name, choices)}"


def choose(kind: str, choice: Choice, path: str, interface: type[Interface]) -> Chosen[Interface]:
    """Import the class that a choice names and check its options; report all mistakes."""
    problem = _name_problem(names(kind), choice.name)
    if problem:
        raise RecipeError([Mistake(path, problem)])
    cls = _import(kind, choice, path, interface)
    schema = _options_of(cls)
    try:
        options = schema(**choice.options)
    except ValidationError as error:
        mistakes = mistakes_in(error, schema, path)
        if not schema.model_fields:
            what = f"{choice.name} has no options"
            mistakes = [Mistake(mistake.path, what) for mistake in mistakes]
        raise RecipeError(mistakes) from None
    return Chosen(cls, {name: getattr(options, name) for name in schema.model_fields})


def missing_modules(section: BaseModel, path: str = "") -> list[Mistake]:
    """Report the dotted parts of a recipe whose module Python does not find.

    This imports the parent packages of the module, but not the module: `show` needs no torch.
    """
    mistakes = []
    for name in type(section).model_fields:
        value = getattr(section, name)
        here = f"{path}.{name}" if path else name
        items = value if isinstance(value, tuple) else (value,)
        for index, item in enumerate(items):
            item_path = f"{here}.{index}" if isinstance(value, tuple) else here
            if isinstance(item, Choice):
                if "." in item.name and not _is_found(item.name):
                    mistakes.append(_not_found(item.name, item_path))
            elif isinstance(item, BaseModel):
                mistakes += missing_modules(item, item_path)
    return mistakes


def _is_found(dotted: str) -> bool:
    try:
        return importlib.util.find_spec(dotted) is not None
    except ModuleNotFoundError as error:
        if not _is_itself_missing(dotted, error):
            raise
        return False


def _is_itself_missing(dotted: str, error: ModuleNotFoundError) -> bool:
    """Whether the module or a parent package is missing, and not a module that it imports."""
    return error.name is not None and f"{dotted}.".startswith(f"{error.name}.")


def _not_found(dotted: str, path: str) -> Mistake:
    file = dotted.replace(".", "/") + ".py"
    advice = (
        f"expected the file {file}. If it is below the current folder, type: python -m dragoman"
    )
    return Mistake(path, f"there is no module {dotted!r}; {advice} ...")


def _import(kind: str, choice: Choice, path: str, interface: type[Interface]) -> type[Interface]:
    dotted = choice.name if "." in choice.name else f"dragoman.{kind}.{choice.name}"
    try:
        module = importlib.import_module(dotted)
    except ModuleNotFoundError as error:
        if not _is_itself_missing(dotted, error):
            raise  # The file exists, but a module that it imports does not: show that traceback.
        raise RecipeError([_not_found(dotted, path)]) from None
    classes = [
        member
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, interface)
        and member.__module__ == module.__name__
        and not inspect.isabstract(member)
    ]
    if len(classes) != 1:
        what = f"{dotted} has {len(classes)} subclasses of {interface.__name__}, expected one"
        raise RecipeError([Mistake(path, what)])
    return classes[0]


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
