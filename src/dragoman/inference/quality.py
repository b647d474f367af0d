"""Detect degenerate translations, and give the settings for a second attempt.

repetition    the same few tokens repeat in a row, at least twice as often as in the source
length        cut off by the length limit, or much longer or shorter than the source
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence

from dragoman.decoding.engine import Hypothesis
from dragoman.recipe.schema import DecodingRecipe

REPETITION, LENGTH = "repetition", "length"

_MIN_REPEATS = 4
"""Repeats in a row that count as degenerate."""
_MAX_PERIOD = 8
"""Tokens of the longest repeated sequence that is looked for."""
_TOO_LONG, _TOO_SHORT = 3, 4
"""A translation this many times longer, or shorter, than its source is implausible."""
_SHORT_SOURCE = 12
"""Tokens; the length of translations of shorter sources is not checked."""

_NO_REPEAT_NGRAM_SIZE, _REPETITION_PENALTY = 3, 1.1
"""Repetition limits of the second attempt."""


def detect_degeneration(source: Sequence[int], hypothesis: Hypothesis) -> list[str]:
    """List what looks wrong with a translation; empty if nothing does."""
    flags = []
    tokens = hypothesis.tokens
    # A cheap test first: most translations have no token that is frequent enough.
    has_duplicates = len(tokens) - len(set(tokens)) >= _MIN_REPEATS - 1
    if has_duplicates and max(Counter(tokens).values()) >= _MIN_REPEATS:
        repeats = _max_repeats(tokens, _MAX_PERIOD)
        # The same text may take more tokens in the source.
        source_repeats = _max_repeats(source, _TOO_LONG * _MAX_PERIOD)
        if repeats >= max(_MIN_REPEATS, 2 * source_repeats):
            flags.append(REPETITION)
    length = len(tokens)
    is_long = length > _TOO_LONG * max(len(source), _SHORT_SOURCE)
    is_short = len(source) > _SHORT_SOURCE and length * _TOO_SHORT < len(source)
    if not hypothesis.is_finished or is_long or is_short:
        flags.append(LENGTH)
    return flags


def with_repetition_limits(settings: DecodingRecipe) -> DecodingRecipe:
    """Add repetition limits to the settings; stricter limits stay."""
    ngram_size = min(settings.no_repeat_ngram_size or _NO_REPEAT_NGRAM_SIZE, _NO_REPEAT_NGRAM_SIZE)
    penalty = max(settings.repetition_penalty, _REPETITION_PENALTY)
    return settings.model_copy(
        update={"no_repeat_ngram_size": ngram_size, "repetition_penalty": penalty}
    )


def _max_repeats(tokens: Sequence[int], max_period: int) -> int:
    """Count how often in a row a sequence of up to `max_period` tokens is repeated, at most."""
    repeats = 1
    for period in range(1, min(max_period, len(tokens) // 2) + 1):
        is_repeated = bytes(map(operator.eq, tokens[period:], tokens))
        longest = max(map(len, is_repeated.split(b"\0")))
        repeats = max(repeats, longest // period + 1)
    return repeats
