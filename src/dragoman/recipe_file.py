"""How is a recipe read from YAML, and written?

Every scalar is read as text and converted by the type of its setting, so `no` stays Norwegian
and `1e-3` is a number. A preset is the ground, the file is laid over it, and `key=value` from
the command line over both. Naming a part replaces it with its options; options alone adjust it.

A written recipe is complete and names no preset, so it means the same for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from dragoman.errors import Mistake, RecipeError, suggest
from dragoman.recipe import Recipe
from dragoman.validation import mistakes_in

_PRESETS = Path(__file__).parent / "presets"


@dataclass(slots=True)
class _Written:
    """What somebody wrote: nested settings, where each was said, and what could not be read."""

    settings: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)


def preset_names() -> list[str]:
    """List the recipes that ship with the package."""
    return sorted(file.stem for file in _PRESETS.glob("*.yaml"))


def load_recipe(source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe from a file or a preset's name, with `key=value` laid over it."""
    written = _read(source)
    for override in overrides:
        over = _read_override(override)
        written.settings = _lay(written.settings, over.settings)
        written.places |= over.places
        written.mistakes += over.mistakes
    preset = written.settings.pop("preset", None)
    if isinstance(preset, str) and preset in preset_names():
        written.settings = _lay(_read(preset).settings, written.settings)
    elif preset is not None:
        advice = suggest(str(preset), preset_names())
        what = f"no preset is called {str(preset)!r}; {advice}"
        written.mistakes.append(Mistake("preset", what, written.places["preset"]))
    return _validate(written)


def dump_recipe(recipe: Recipe) -> str:
    """Write a recipe as YAML, complete, each setting with what it means."""
    return "\n".join(_lines(recipe, recipe.model_dump(mode="json"), "")) + "\n"


def _validate(written: _Written) -> Recipe:
    mistakes = list(written.mistakes)
    try:
        recipe = Recipe.model_validate(written.settings)
    except ValidationError as error:
        mistakes += mistakes_in(error, Recipe, where=lambda path: written.places.get(path, ""))
    except RecipeError as error:
        mistakes += [
            Mistake(each.path, each.what, written.places.get(each.path, ""))
            for each in error.mistakes
        ]
    else:
        if not mistakes:
            return recipe
    raise RecipeError(mistakes)


def _read(source: str | Path) -> _Written:
    is_preset = isinstance(source, str) and source in preset_names()
    path = _PRESETS / f"{source}.yaml" if is_preset else Path(source)
    try:
        return _read_text(path.read_text(encoding="utf-8-sig"), path.name)
    except FileNotFoundError:
        what = f"no file is called {str(source)!r}; `dragoman init` writes a recipe for your text"
        if isinstance(source, str):
            advice = suggest(source, preset_names())
            what = f"no file and no preset is called {source!r}; among the presets, {advice}"
    except IsADirectoryError:
        what = f"{str(source)!r} is a folder, expected a YAML file"
    except UnicodeDecodeError as error:
        what = f"{path.name} is not UTF-8 text (byte {error.start}); save it as UTF-8"
    except OSError as error:
        what = f"{str(source)!r} cannot be read: {error.strerror}"
    raise RecipeError([Mistake("", what)]) from None


def _read_override(text: str) -> _Written:
    path, equals, value = text.partition("=")
    steps = path.split(".")
    if not equals or not all(steps):
        what = f"found {text!r}, expected key=value, as in model.width=256"
        return _Written(mistakes=[Mistake("", what, "command line")])
    written = _read_text(value, "command line", path)
    for count in range(len(steps), 0, -1):
        written.settings = {steps[count - 1]: written.settings}
        written.places[".".join(steps[:count])] = "command line"
    return written


def _read_text(text: str, name: str, below: str = "") -> _Written:
    """Read YAML into nested settings; `below` is the path under which they stand."""
    written = _Written()
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except RecursionError:
        written.mistakes.append(Mistake(below, "nested too deeply to be a recipe", name))
        return written
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{name}, line {mark.line + 1}" if mark and not below else name
        reason = getattr(error, "problem", None) or "it holds a character that YAML forbids"
        written.mistakes.append(Mistake(below, f"this is not YAML: {reason}", place))
        return written
    if node is None:
        node = yaml.ScalarNode("", "") if below else yaml.MappingNode("", [])
    value = _Reader(written, name, is_line_known=not below).read(node, below)
    if isinstance(value, dict) or below:
        written.settings = value
    else:
        what = "expected settings, as in `seed: 1`; found one value or a list"
        written.mistakes.append(Mistake("", what, name))
    return written


@dataclass(slots=True)
class _Reader:
    """Turns YAML nodes into nested settings, and notes where each stands."""

    written: _Written
    name: str
    is_line_known: bool
    seen: set[int] = field(default_factory=set)

    def read(self, node: yaml.Node, path: str) -> Any:
        place = f"{self.name}, line {node.start_mark.line + 1}" if self._marks(node) else self.name
        self.written.places[path] = place
        if id(node) in self.seen:
            # An alias repeats a node; repeated often enough, a small file fills the memory.
            self._complain(path, "YAML aliases (`*name`) are not read; write the value out")
            return ""
        self.seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return dict(self._pairs(node, path))
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, f"{path}.{index}") for index, item in enumerate(node.value)]
        return node.value

    def _pairs(self, node: yaml.MappingNode, path: str) -> Iterator[tuple[str, Any]]:
        keys: set[str] = set()
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._complain(path, "a setting's name must be a plain word")
                continue
            key = str(key_node.value)
            below = f"{path}.{key}" if path else key
            if key in keys:
                self.written.places[below] = f"{self.name}, line {key_node.start_mark.line + 1}"
                self._complain(below, "said twice; keep one of them")
                continue
            keys.add(key)
            yield key, self.read(value_node, below)

    def _marks(self, node: yaml.Node) -> bool:
        return self.is_line_known and node.start_mark is not None

    def _complain(self, path: str, what: str) -> None:
        self.written.mistakes.append(Mistake(path, what, self.written.places.get(path, self.name)))


def _lay(ground: Any, over: Any) -> Any:
    """Lay one tree over another; a mapping that names a part replaces what was there."""
    if not isinstance(over, dict) or "name" in over:
        return over
    if isinstance(ground, str):
        ground = {"name": ground}
    if not isinstance(ground, dict):
        return over
    return ground | {key: _lay(ground.get(key), value) for key, value in over.items()}


def _lines(section: BaseModel, values: dict[str, Any], indent: str) -> Iterator[str]:
    for name, setting in type(section).model_fields.items():
        value = getattr(section, name)
        comment = f" # {setting.description}" if setting.description else ""
        if isinstance(value, BaseModel) and isinstance(values[name], dict) and not indent:
            yield f"{indent}{name}:"
            yield from _lines(value, values[name], indent + "  ")
        elif isinstance(value, tuple) and value:
            yield f"{indent + name + ':':<39}{comment}"
            yield from (f"{indent}  - {_scalar(item)}" for item in values[name])
        else:
            yield f"{indent + name + ': ' + _scalar(values[name]):<39}{comment}".rstrip()


def _scalar(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")
