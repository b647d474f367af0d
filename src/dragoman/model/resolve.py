"""Finding the parts that a recipe names, and checking that they fit together.

This happens before any weight exists. `resolve_parts` first imports the parts and checks their
options. If these are correct, it asks the parts for size errors. Each of the two rounds reports all
its mistakes at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from dragoman.errors import Mistake, RecipeError
from dragoman.model.parts import (
    AttentionKind,
    Heads,
    Position,
    PositionPart,
    PositionVectors,
    Similarity,
)
from dragoman.model.position_entry import Added, Concatenated, Projected
from dragoman.recipe.contradictions import contradictions
from dragoman.recipe.fitting import entry_mistakes
from dragoman.recipe.parts import Choice, Chosen, choose
from dragoman.recipe.schema import ModelRecipe

Interface = TypeVar("Interface")


@dataclass(frozen=True, slots=True)
class ResolvedParts:
    """The settings of a model, and the classes that they name."""

    settings: ModelRecipe
    heads: Chosen[Heads]
    similarity: Chosen[Similarity]
    attention_kind: Chosen[AttentionKind]
    position: Chosen[PositionPart]

    @property
    def head_size(self) -> int:
        """The number of features of one head."""
        return self.heads.cls.head_size(self.settings.width, self.settings.heads)

    @property
    def word_features(self) -> int:
        """The number of features of a word embedding: the width, less concatenated positions."""
        is_shared = self._has_vectors and self.settings.position_entry == "concatenated"
        return self.settings.width - (self.settings.position_features if is_shared else 0)

    @property
    def position_size(self) -> int:
        """The number of features of the position part."""
        if not self._has_vectors or self.settings.position_entry == "projected":
            return self.head_size
        if self.settings.position_entry == "concatenated":
            return self.settings.position_features
        return self.settings.width

    def build_heads(self) -> Heads:
        """Build the heads of one attention module."""
        return self.heads(self.settings.width, self.settings.heads)

    def build_position(self, layer: int) -> Position:
        """Build the position part of this layer, counted from 0 at the bottom.

        Vectors enter at the bottom, or in every layer. A part that acts inside attention acts in
        every layer.
        """
        if self._has_vectors and layer > 0 and self.settings.position_depth == "bottom":
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
    def _has_vectors(self) -> bool:
        return issubclass(self.position.cls, PositionVectors)


def resolve_parts(settings: ModelRecipe) -> ResolvedParts:
    """Find the parts and check that they fit, or raise a RecipeError with all mistakes."""
    mistakes: list[Mistake] = []

    def find(setting: str, interface: type[Interface]) -> Chosen[Interface] | None:
        choice: Choice = getattr(settings, setting)
        try:
            return choose(f"model.{setting}", choice, f"model.{setting}", interface)
        except RecipeError as error:
            mistakes.extend(error.mistakes)
            return None

    heads = find("head_kind", Heads)
    similarity = find("similarity", Similarity)
    attention_kind = find("attention_kind", AttentionKind)
    position = find("position", PositionPart)
    if heads is None or similarity is None or attention_kind is None or position is None:
        raise RecipeError(mistakes)
    parts = ResolvedParts(settings, heads, similarity, attention_kind, position)
    mistakes = _size_errors(parts)
    if mistakes:
        raise RecipeError(mistakes)
    return parts


def _size_errors(parts: ResolvedParts) -> list[Mistake]:
    settings = parts.settings
    mistakes = contradictions(settings)
    head_errors = parts.heads.cls.size_errors(settings.width, settings.heads)
    mistakes += [Mistake("model.heads", message) for message in head_errors]
    if not head_errors:  # Otherwise there is no head size to check the other parts with.
        for key, part, size in (
            ("model.similarity", parts.similarity.cls, parts.head_size),
            ("model.position", parts.position.cls, parts.position_size),
        ):
            mistakes += [Mistake(key, message) for message in part.size_errors(size)]
    if not issubclass(parts.position.cls, PositionVectors):
        mistakes += entry_mistakes(settings)
    return mistakes
