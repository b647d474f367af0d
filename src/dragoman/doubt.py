"""Does a translation look wrong, and how is it tried again?

repetition    the same few tokens, again and again, at least twice as often as the source has it
length        cut by the limit, or much longer or shorter than its source
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence

from dragoman.decoding.engine import Hypothesis
from dragoman.recipe import DecodingRecipe

REPETITION, LENGTH = "repetition", "length"

_ROUNDS = 4
"""So often in a row is a circle."""
_CIRCLE = 8
"""Tokens of the longest circle that is looked for."""
_LONGER, _SHORTER = 3, 4
"""So many times longer, or shorter, is implausible."""
_SHORT = 12
"""Tokens: shorter sources may have any translation."""

_NO_REPEAT, _REPETITION_PENALTY = 3, 1.1
"""What keeps a second search from circles."""


def doubts(source: Sequence[int], found: Hypothesis) -> list[str]:
    """Say what looks wrong, if anything."""
    told = []
    # Who says few tokens twice, or none often, does not run in circles, which is soon seen.
    is_often = len(found.tokens) - len(set(found.tokens)) >= _ROUNDS - 1
    if is_often and max(Counter(found.tokens).values()) >= _ROUNDS:
        turns = _turns(found.tokens, _CIRCLE)
        # The source may need more tokens to say the same.
        if turns >= max(_ROUNDS, 2 * _turns(source, _LONGER * _CIRCLE)):
            told.append(REPETITION)
    length = len(found.tokens)
    is_long = length > _LONGER * max(len(source), _SHORT)
    is_short = len(source) > _SHORT and length * _SHORTER < len(source)
    if not found.is_ended or is_long or is_short:
        told.append(LENGTH)
    return told


def guarded(settings: DecodingRecipe) -> DecodingRecipe:
    """The same settings under guard; what is stricter already stays."""
    no_repeat = min(settings.no_repeat or _NO_REPEAT, _NO_REPEAT)
    penalty = max(settings.repetition_penalty, _REPETITION_PENALTY)
    return settings.model_copy(update={"no_repeat": no_repeat, "repetition_penalty": penalty})


def _turns(tokens: Sequence[int], circle: int) -> int:
    """How often in a row the same few tokens are said, at most."""
    most = 1
    for size in range(1, min(circle, len(tokens) // 2) + 1):
        is_again = bytes(map(operator.eq, tokens[size:], tokens))
        longest = max(map(len, is_again.split(b"\0")))
        most = max(most, longest // size + 1)
    return most
