"""Language: drops pairs with a side in another language.

Crawled corpora, and even official ones, contain lines in other languages and lines that were never
translated. A detector reads the beginning of each side. If it is confident that the text is in
another language than the expected one, the pair is dropped (`text/identification.py`).

The detector makes errors on a few words, on names and on code, so a side with few letters is not
checked. A language that the detector does not know is not checked either. The detector cannot
separate closely related languages, so a related language is accepted.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt

from dragoman.corpus.filter import Filter, Pair
from dragoman.text.identification import (
    MIN_LETTERS,
    MIN_PROBABILITY,
    accepted_codes,
    count_letters,
    most_probable,
)


class Language(Filter):
    """Drops pairs with a side in another language, with a probability of `min_probability`.

    A side with fewer than `min_letters` letters at its beginning is not checked.
    """

    def __init__(
        self,
        source: str,
        target: str,
        *,
        min_probability: Annotated[float, Field(gt=0, le=1)] = MIN_PROBABILITY,
        min_letters: NonNegativeInt = MIN_LETTERS,
    ) -> None:
        super().__init__(source, target)
        self.min_probability = min_probability
        self.min_letters = min_letters
        self.accepted = tuple(map(accepted_codes, (source, target)))

    def apply(self, pair: Pair) -> Pair | str:
        """Drop a pair for its `wrong source language` or `wrong target language`."""
        for text, accepted, reason in zip(
            pair, self.accepted, ("wrong source language", "wrong target language"), strict=True
        ):
            if accepted and self._is_foreign(text, accepted):
                return reason
        return pair

    def _is_foreign(self, text: str, accepted: frozenset[str]) -> bool:
        if len(text) < self.min_letters:
            return False
        language, probability = most_probable(text)
        # Letters are counted last, because nearly every text is in the expected language.
        return (
            probability >= self.min_probability
            and language not in accepted
            and count_letters(text) >= self.min_letters
        )
