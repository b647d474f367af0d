"""Find settings from the command line that have no effect with the rest of the recipe.

A recipe file states every setting, so settings without effect are normal there. On the command
line, somebody asks for a change: if nothing would change, Dragoman says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dragoman.errors import Mistake

if TYPE_CHECKING:
    from dragoman.recipe.schema import Recipe


@dataclass(frozen=True, slots=True)
class _Condition:
    """A setting that has an effect only if another setting has a certain value."""

    path: str
    """The setting, or a section."""
    needs: str
    value: str
    neutral: Any = None
    """The value of the setting that means "off", and is therefore never reported."""


_CONDITIONS = (
    _Condition("decoding.beam_size", "decoding.search", "beam", neutral=1),
    _Condition("decoding.patience", "decoding.search", "beam", neutral=1.0),
    _Condition("decoding.coverage_penalty", "decoding.search", "beam", neutral=0.0),
    _Condition("decoding.temperature", "decoding.search", "sample", neutral=1.0),
    _Condition("decoding.top_k", "decoding.search", "sample", neutral=0),
    _Condition("decoding.top_p", "decoding.search", "sample", neutral=1.0),
    _Condition("adaptation.rank", "adaptation.method", "adapters"),
    _Condition("model.recurrent", "model.architecture", "recurrent"),
    _Condition("model.convolutional", "model.architecture", "convolutional"),
    _Condition("model.position_features", "model.position_entry", "concatenated"),
)


def settings_without_effect(recipe: Recipe, paths: Iterable[str]) -> Iterator[Mistake]:
    """Report the given settings that have no effect in this recipe."""
    for path in paths:
        for condition in _CONDITIONS:
            if path != condition.path and not path.startswith(condition.path + "."):
                continue
            value, actual = _value(recipe, path), _value(recipe, condition.needs)
            if actual != condition.value and value != condition.neutral:
                yield Mistake(
                    path,
                    f"has no effect with {condition.needs}: {actual}; "
                    f"also set {condition.needs}={condition.value}, or remove {path}",
                    "command line",
                )


def _value(recipe: Recipe, path: str) -> Any:
    value: Any = recipe
    for name in path.split("."):
        value = getattr(value, name)
    return value
