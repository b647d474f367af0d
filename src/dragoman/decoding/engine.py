"""What translates token ids, and what comes out?

An engine is the door between text and a model. Behind it stand PyTorch, which knows every variant,
and CTranslate2, which is fast; whoever is in front need not know which. This file imports neither.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman.errors import LengthError
from dragoman.recipe import DecodingRecipe

_STEP = 64
"""Limits grow in steps, so that sentences of like length can be translated together."""

Answers = list[list["Hypothesis"]]
"""For each sentence its translations, best first."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A translation in tokens."""

    tokens: tuple[int, ...]
    """Without `begin` and `end`."""
    score: float
    """The sum of the log-probabilities of its tokens, the end included, made up for its length."""
    is_ended: bool
    """False when the length limit cut it."""
    alignment: tuple[int, ...] = ()
    """For each token the place in the source it looked at most, where this was asked for."""


def length_limit(source_length: int, settings: DecodingRecipe) -> int:
    """How many tokens a translation may have.

    It depends on the sentence alone, never on its neighbours.
    """
    steps = -(-max(source_length, 1) // _STEP)
    return steps * _STEP + settings.extra_length


def within(settings: DecodingRecipe, places: int | None) -> DecodingRecipe:
    """Cut sources so short that each of their tokens, and of their translations', has a place."""
    if places is None:
        return settings
    least = length_limit(1, settings.model_copy(update={"extra_length": 0}))
    if places < least:
        raise LengthError(
            f"the model has {places} places for tokens, too few to translate; expected {least} at "
            "least: train it with a larger model.position.maximum"
        )
    # A translation cannot be longer than the places, whatever was asked for.
    extra = min(settings.extra_length, places - least)
    settings = settings.model_copy(update={"extra_length": extra})
    # A source needs one more, for its end.
    lengths = range(1, min(settings.longest, places - 1) + 1)
    longest = max(each for each in lengths if length_limit(each, settings) <= places)
    return settings.model_copy(update={"longest": longest})


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
        """Begin to translate; what is returned waits for the answers, in the order asked.

        A translation begins with the prefix of its sentence, where one is given.
        """

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingRecipe,
        prefixes: Sequence[Sequence[int]] | None = None,
        *,
        with_alignment: bool = False,
    ) -> Answers:
        """Translate, and wait."""
        return self.begin(sources, settings, prefixes, with_alignment=with_alignment)()
