"""Which parts does a recipe name, and do they fit together?

The blueprint is drawn before any weight exists. It imports the parts and checks their options; when
these are right, it asks them for objections. Each round reports everything that it finds at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from dragoman.errors import Mistake, RecipeError
from dragoman.model.parts import Heads, Position, PositionPart, PositionVectors, Reach, Similarity
from dragoman.model.position_entry import Added, Concatenated, Projected
from dragoman.part import Choice, Chosen, choose
from dragoman.recipe import ModelRecipe, contradictions

Interface = TypeVar("Interface")


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The settings of a model, and the classes they name."""

    settings: ModelRecipe
    heads: Chosen[Heads]
    similarity: Chosen[Similarity]
    reach: Chosen[Reach]
    position: Chosen[PositionPart]

    @property
    def head_size(self) -> int:
        """How many features one head has."""
        return self.heads.cls.head_size(self.settings.width, self.settings.head_count)

    @property
    def word_features(self) -> int:
        """How many features of the width belong to the word."""
        is_shared = self._has_vectors and self.settings.position_entry == "concatenated"
        return self.settings.width - (self.settings.position_features if is_shared else 0)

    def build_heads(self) -> Heads:
        """Build the heads of one attention."""
        return self.heads(self.settings.width, self.settings.head_count)

    def build_position(self, height: int) -> Position:
        """Build what tells the places to the layer at this height, counted from the bottom.

        Vectors enter at the bottom, or at every layer; what acts inside attention does so in
        every layer.
        """
        if self._has_vectors and height > 0 and self.settings.position_depth == "bottom":
            return Position(self.position_size)
        part = self.position(self.position_size)
        if isinstance(part, Position):
            return part
        assert isinstance(part, PositionVectors)
        match self.settings.position_entry:
            case "added":
                return Added(part)
            case "concatenated":
                return Concatenated(part, self.word_features)
            case "projected":
                return Projected(part)

    @property
    def position_size(self) -> int:
        """How many features a position has."""
        if not self._has_vectors or self.settings.position_entry == "projected":
            return self.head_size
        if self.settings.position_entry == "concatenated":
            return self.settings.position_features
        return self.settings.width

    @property
    def _has_vectors(self) -> bool:
        return issubclass(self.position.cls, PositionVectors)


def draw_blueprint(settings: ModelRecipe) -> Blueprint:
    """Find the parts and check that they fit, or say all that stands against it."""
    mistakes: list[Mistake] = []

    def find(setting: str, interface: type[Interface]) -> Chosen[Interface] | None:
        choice: Choice = getattr(settings, setting)
        try:
            return choose(f"model.{setting}", choice, f"model.{setting}", interface)
        except RecipeError as error:
            mistakes.extend(error.mistakes)
            return None

    heads = find("heads", Heads)
    similarity = find("similarity", Similarity)
    reach = find("reach", Reach)
    position = find("position", PositionPart)
    if heads is None or similarity is None or reach is None or position is None:
        raise RecipeError(mistakes)
    blueprint = Blueprint(settings, heads, similarity, reach, position)
    mistakes = _objections(blueprint)
    if mistakes:
        raise RecipeError(mistakes)
    return blueprint


def _objections(blueprint: Blueprint) -> list[Mistake]:
    settings = blueprint.settings
    found = contradictions(settings)
    against_heads = blueprint.heads.cls.objections(settings.width, settings.head_count)
    found += [Mistake("model.head_count", each) for each in against_heads]
    if not against_heads:  # Else there is no head size to ask the others about.
        for path, part, size in (
            ("model.similarity", blueprint.similarity.cls, blueprint.head_size),
            ("model.position", blueprint.position.cls, blueprint.position_size),
        ):
            found += [Mistake(path, each) for each in part.objections(size)]
    if not issubclass(blueprint.position.cls, PositionVectors):
        name = settings.position.name
        for setting, usual in (("position_entry", "added"), ("position_depth", "bottom")):
            if getattr(settings, setting) != usual:
                what = f"{name} has no vectors that could enter; leave this at {usual}"
                found.append(Mistake(f"model.{setting}", what))
    return found
