"""The interface of engines: they translate token ids.

PyTorch supports every variant of a model; CTranslate2 is fast. Code that translates text uses this
interface and does not need to know the engine. This file imports neither of the two libraries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman.errors import LengthError
from dragoman.recipe.schema import DecodingRecipe

_LIMIT_STEP = 64
"""Limits are multiples of this, so that sentences of similar length can share a batch."""

Answers = list[list["Hypothesis"]]
"""For each sentence its translations, the best one first."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A translation in tokens."""

    tokens: tuple[int, ...]
    """Without `begin` and `end`."""
    score: float
    """The length-normalized sum of the log-probabilities of the tokens and of the end token, plus
    the coverage penalty (`coverage.py`)."""
    is_finished: bool
    """False if the length limit cut the translation off."""
    alignment: tuple[int, ...] = ()
    """For each token the source position that it attends to most, if alignment was requested."""


def length_limit(source_length: int, settings: DecodingRecipe) -> int:
    """Return the maximum number of tokens of a translation.

    It depends on the sentence only, never on other sentences of the batch.
    """
    steps = -(-max(source_length, 1) // _LIMIT_STEP)
    return steps * _LIMIT_STEP + settings.max_extra_tokens


def clamp_lengths(settings: DecodingRecipe, max_positions: int | None) -> DecodingRecipe:
    """Reduce the length limits so that sources and translations fit the model's positions."""
    if max_positions is None:
        return settings
    minimum = length_limit(1, settings.model_copy(update={"max_extra_tokens": 0}))
    if max_positions < minimum:
        raise LengthError(
            f"the model has {max_positions} positions, which is too few to translate; expected at "
            f"least {minimum}: train it with a larger model.position.maximum"
        )
    extra = min(settings.max_extra_tokens, max_positions - minimum)
    settings = settings.model_copy(update={"max_extra_tokens": extra})
    # The source needs one more position, for its end token.
    lengths = range(1, min(settings.max_source_tokens, max_positions - 1) + 1)
    longest = max(length for length in lengths if length_limit(length, settings) <= max_positions)
    return settings.model_copy(update={"max_source_tokens": longest})


class Engine(ABC):
    """Translates sentences of token ids, which have neither `begin` nor `end`."""

    name: str

    @abstractmethod
    def begin(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingRecipe,
        prefixes: Sequence[Sequence[int]] | None = None,
        *,
        with_alignment: bool = False,
    ) -> Callable[[], Answers]:
        """Start to translate; the returned function waits for the answers, in input order.

        If prefixes are given, each translation starts with the prefix of its sentence.
        """

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingRecipe,
        prefixes: Sequence[Sequence[int]] | None = None,
        *,
        with_alignment: bool = False,
    ) -> Answers:
        """Translate, and wait for the answers."""
        return self.begin(sources, settings, prefixes, with_alignment=with_alignment)()

    def close(self) -> None:  # noqa: B027  (an engine may have nothing to free)
        """Free the model's memory; the engine cannot be used afterwards."""
