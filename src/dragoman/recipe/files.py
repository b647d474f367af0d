"""Read recipes from YAML and write them.

Every scalar is read as text and converted to the type of its setting. The language code `no` is
therefore not read as a Boolean, and `1e-3` is a number. The settings of a file override those of
its preset, and `key=value` from the command line overrides both. A part with a `name` replaces the
part and its options. Options without a `name` change the options of the part.

`dump_recipe` writes every setting and no preset. The file has the same meaning in later versions.
"""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from dragoman.errors import Mistake, RecipeError, suggest
from dragoman.recipe.effects import settings_without_effect
from dragoman.recipe.mistakes import mistakes_in
from dragoman.recipe.parts import PartOf
from dragoman.recipe.schema import Recipe, Section
from dragoman.storage.files import write_text
from dragoman.storage.mirror import fetch, local_path

SCHEMA_FILE = "recipe.schema.json"
"""The name of the JSON Schema file beside a recipe."""

_PRESETS = Path(__file__).parent / "presets"
_COMMENT_COLUMN, _LINE_WIDTH = 36, 80


@dataclass(slots=True)
class _ParsedSettings:
    """Settings before validation: nested text, the location of each, and syntax mistakes."""

    settings: dict[str, Any] = field(default_factory=dict)
    locations: dict[str, str] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)


def preset_names() -> list[str]:
    """List the presets: recipes that are part of the package."""
    return sorted(file.stem for file in _PRESETS.glob("*.yaml"))


def load_recipe(source: str | Path | Recipe, overrides: Sequence[str] = ()) -> Recipe:
    """Load a file, a preset or a `Recipe`, and apply `key=value` overrides."""
    if isinstance(source, Recipe):
        parsed = _ParsedSettings(settings=source.model_dump(mode="json"))
    else:
        parsed = _read(source)
    changed = []
    for override in overrides:
        changed.append(override.partition("=")[0])
        change = _read_override(override)
        parsed.settings = _merge(parsed.settings, change.settings)
        parsed.locations |= change.locations
        parsed.mistakes += change.mistakes
    preset = parsed.settings.pop("preset", None)
    if isinstance(preset, str) and preset in preset_names():
        parsed.settings = _merge(_read(preset).settings, parsed.settings)
    elif preset is not None:
        advice = suggest(str(preset), preset_names())
        what = f"no preset is called {str(preset)!r}; {advice}"
        parsed.mistakes.append(Mistake("preset", what, parsed.locations["preset"]))
    recipe = _validate(parsed)
    unused = list(settings_without_effect(recipe, changed))
    if unused:
        raise RecipeError(unused)
    return recipe


def dump_recipe(recipe: Recipe) -> str:
    """Return all settings of a recipe as YAML, with a comment on each."""
    return "\n".join(_lines(recipe, recipe.model_dump(mode="json"), "")) + "\n"


def recipe_schema() -> dict[str, Any]:
    """Return the JSON Schema of recipe files, which editors use to complete and check settings."""
    schema = Recipe.model_json_schema()
    preset = {"enum": preset_names(), "description": "Preset that this recipe is based on"}
    schema["properties"] = {"preset": preset} | schema["properties"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def write_schema(folder: Path) -> Path:
    """Write the JSON Schema into the folder of a recipe; `schema_line` refers to it."""
    path = folder / SCHEMA_FILE
    write_text(path, json.dumps(recipe_schema(), indent=1, ensure_ascii=False) + "\n")
    return path


def schema_line(schema_file: str | Path = SCHEMA_FILE) -> str:
    """Return the first line of a recipe file: a comment that tells editors where the schema is.

    The path is relative to the folder of the recipe.
    """
    return f"# yaml-language-server: $schema={schema_file}"


def _validate(parsed: _ParsedSettings) -> Recipe:
    mistakes = list(parsed.mistakes)
    try:
        recipe = Recipe.model_validate(parsed.settings)
    except ValidationError as error:
        mistakes += mistakes_in(error, Recipe, where=lambda path: parsed.locations.get(path, ""))
    except RecipeError as error:
        mistakes += [
            Mistake(mistake.path, mistake.what, parsed.locations.get(mistake.path, ""))
            for mistake in error.mistakes
        ]
    else:
        if not mistakes:
            return recipe
    raise RecipeError(mistakes)


def _read(source: str | Path) -> _ParsedSettings:
    is_preset = isinstance(source, str) and source in preset_names()
    path = _PRESETS / f"{source}.yaml" if is_preset else fetch(local_path(source))
    try:
        return _read_text(path.read_text(encoding="utf-8-sig"), path.name)
    except FileNotFoundError:
        what = _missing(str(source), is_preset_possible=isinstance(source, str))
    except IsADirectoryError:
        what = f"{str(source)!r} is a folder, expected a recipe file (YAML)"
        if (path / "recipe.yaml").is_file():
            what += f"; did you mean {shlex.quote(str(path / 'recipe.yaml'))}?"
    except UnicodeDecodeError as error:
        what = f"{path.name} is not UTF-8 text (byte {error.start}); save it as UTF-8"
    except (OSError, ValueError) as error:  # ValueError: a null character in the name.
        what = f"{str(source)!r} cannot be read: {getattr(error, 'strerror', None) or error}"
    raise RecipeError([Mistake("", what)]) from None


def _missing(source: str, is_preset_possible: bool) -> str:
    init = "To write a recipe for your own text, type: dragoman init FOLDER --source FILE"
    if is_preset_possible:
        advice = suggest(source, preset_names())
        return f"there is no recipe file and no preset {source!r}; {advice}\n{init}"
    if source in preset_names():
        return (
            f"there is no recipe file {source!r}; {source!r} is a preset, and a recipe file can "
            f"be based on it with the line `preset: {source}`\n{init}"
        )
    return f"there is no recipe file {source!r}\n{init}"


def _read_override(text: str) -> _ParsedSettings:
    path, equals, value = text.partition("=")
    keys = path.split(".")
    if not equals or not all(keys):
        what = f"found {text!r}, expected key=value, for example model.width=256"
        return _ParsedSettings(mistakes=[Mistake("", what, "command line")])
    parsed = _read_text(value, "command line", path)
    for count in range(len(keys), 0, -1):
        parsed.settings = {keys[count - 1]: parsed.settings}
        parsed.locations[".".join(keys[:count])] = "command line"
    return parsed


def _read_text(text: str, name: str, below: str = "") -> _ParsedSettings:
    """Parse YAML into nested settings; `below` is the path of their parent setting."""
    parsed = _ParsedSettings()
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except RecursionError:
        parsed.mistakes.append(Mistake(below, "nested too deeply for a recipe", name))
        return parsed
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        location = f"{name}, line {mark.line + 1}" if mark and not below else name
        reason = getattr(error, "problem", None) or "it contains a character that YAML forbids"
        parsed.mistakes.append(Mistake(below, f"this is not YAML: {reason}", location))
        return parsed
    if node is None:
        node = yaml.ScalarNode("", "") if below else yaml.MappingNode("", [])
    value = _YamlReader(parsed, name, is_line_known=not below).read(node, below)
    if isinstance(value, dict) or below:
        parsed.settings = value
    else:
        what = "expected settings, for example `seed: 1`; found one value or a list"
        parsed.mistakes.append(Mistake("", what, name))
    return parsed


@dataclass(slots=True)
class _YamlReader:
    """Turns YAML nodes into nested settings and records the location of each."""

    parsed: _ParsedSettings
    name: str
    is_line_known: bool
    visited: set[int] = field(default_factory=set)

    def read(self, node: yaml.Node, path: str) -> Any:
        self.parsed.locations[path] = self._location(node)
        if id(node) in self.visited:
            # An alias repeats a node. A small file with nested aliases can use all memory.
            self._report(path, "YAML aliases (`*name`) are not supported; repeat the value")
            return ""
        self.visited.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return dict(self._pairs(node, path))
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, f"{path}.{index}") for index, item in enumerate(node.value)]
        return node.value

    def _pairs(self, node: yaml.MappingNode, path: str) -> Iterator[tuple[str, Any]]:
        keys: set[str] = set()
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._report(path, "the name of a setting must be a single word")
                continue
            key = str(key_node.value)
            below = f"{path}.{key}" if path else key
            if key in keys:
                self.parsed.locations[below] = self._location(key_node)
                self._report(below, "written twice; keep one of them")
                continue
            keys.add(key)
            yield key, self.read(value_node, below)

    def _location(self, node: yaml.Node) -> str:
        has_line = self.is_line_known and node.start_mark is not None
        return f"{self.name}, line {node.start_mark.line + 1}" if has_line else self.name

    def _report(self, path: str, what: str) -> None:
        location = self.parsed.locations.get(path, self.name)
        self.parsed.mistakes.append(Mistake(path, what, location))


def _merge(base: Any, change: Any) -> Any:
    """Merge a change into nested settings; a mapping with a `name` (a part) replaces the base."""
    if not isinstance(change, dict) or "name" in change:
        return change
    if isinstance(base, str):
        base = {"name": base}
    if not isinstance(base, dict):
        return change
    return base | {key: _merge(base.get(key), value) for key, value in change.items()}


def _lines(section: BaseModel, values: dict[str, Any], indent: str) -> Iterator[str]:
    for name, setting in type(section).model_fields.items():
        value = getattr(section, name)
        comment = describe_setting(setting)
        if isinstance(value, Section):
            yield from _commented(f"{indent}{name}:", comment)
            yield from _lines(value, values[name], indent + "  ")
        elif isinstance(value, tuple) and value:
            yield from _commented(f"{indent}{name}:", comment)
            yield from (f"{indent}  - {inline_yaml(item)}" for item in values[name])
        else:
            yield from _commented(f"{indent}{name}: {inline_yaml(values[name])}", comment)


def describe_setting(setting: FieldInfo) -> str:
    """Return the description of a setting and, if it is a choice, the possible values."""
    description, values = setting.description or "", _possible_values(setting)
    words = description.replace("(", " ").replace(")", " ").replace(",", " ").split()
    if not values or set(values) <= set(words):
        return description
    return f"{description}: {', '.join(values)}"


def _possible_values(setting: FieldInfo) -> list[str]:
    annotation = setting.annotation
    metadata = list(setting.metadata)
    if get_origin(annotation) is tuple:
        metadata += getattr(get_args(annotation)[0], "__metadata__", ())
    for item in metadata:
        if isinstance(item, PartOf):
            return item.names
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return []


def _commented(line: str, comment: str) -> Iterator[str]:
    """Add a comment at the right of a line, wrapped to 80 columns."""
    start = max(_COMMENT_COLUMN, len(line) + 1)
    width = max(_LINE_WIDTH - start - 2, 20)
    # No-break spaces prevent a line break inside `0 = off`.
    joined = comment.replace(" = ", "\xa0=\xa0")
    wrapped = textwrap.wrap(joined, width, break_on_hyphens=False) or [""]
    first, *others = (part.replace("\xa0", " ") for part in wrapped)
    yield f"{line:<{start}}# {first}" if first else line
    yield from (f"{'':<{start}}# {other}" for other in others)


def inline_yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")
