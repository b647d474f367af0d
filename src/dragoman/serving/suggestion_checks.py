"""Finds suggestions that a person should look at before a model learns from them.

A problem is a few fixed words, so that problems can be counted. Checked are:

    filters of the corpus              wrong language or script, length, ratio, copies, repetition,
                                       placeholders and URLs, numbers
    swapped sides                      the source is in the target language, or is a known target
    no change                          the suggestion is what the model wrote
    duplicate                          an earlier suggestion has the same texts
    contradiction                      the same text has another suggestion, which is not rejected
    same suggestion for many texts     letters and words that more than `MAX_TEXTS` texts share
    too many from one key              more than `MAX_PER_DAY` on a day, and `MAX_SHARE` of all

On a server without keys the owner of a suggestion is not known. There, only `same suggestion for
many texts` finds somebody who floods the server, and not somebody who varies the text. Nothing here
knows whether a translation is right.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from dragoman.corpus.filter import Filter, Pair
from dragoman.corpus.filters.copies import Copies
from dragoman.corpus.filters.language import Language
from dragoman.corpus.filters.length import Length
from dragoman.corpus.filters.numbers import Numbers
from dragoman.corpus.filters.placeholders import Placeholders
from dragoman.corpus.filters.ratio import Ratio
from dragoman.corpus.filters.repetition import Repetition
from dragoman.corpus.filters.script import Script
from dragoman.corpus.filters.unicode import Unicode
from dragoman.serving.stores.suggestions import Suggestion

MAX_PER_DAY = 200
"""Suggestions of one key on one day (UTC). More are a problem if they are a large share, too."""
MAX_SHARE = 0.5
"""Of all suggestions, from one key."""
MAX_TEXTS = 10
"""Different texts that may have the same suggestion."""
IMPORTED = "user "
"""The beginning of the owner of suggestions that the operator imported."""

SWAPPED = "swapped sides"
NO_CHANGE = "no change"
DUPLICATE = "duplicate"
CONTRADICTION = "contradiction"
SAME_SUGGESTION = "same suggestion for many texts"
FLOOD = "too many from one key"

_FILTERS: tuple[type[Filter], ...] = (
    Length,
    Ratio,
    Copies,
    Script,
    Placeholders,
    Numbers,
    Repetition,
)
_NOT_A_LETTER = re.compile(r"[\W\d_]+")


@dataclass(frozen=True, slots=True)
class CheckedSuggestion:
    """A suggestion with its problems; none if no check has found one."""

    suggestion: Suggestion
    problems: tuple[str, ...]


def check_suggestions(suggestions: Iterable[Suggestion]) -> list[CheckedSuggestion]:
    """Check all suggestions of a state, which are ordered by their numbers."""
    everything = list(suggestions)
    checks = _Checks(everything)
    return [CheckedSuggestion(one, tuple(checks.problems(one))) for one in everything]


class _Checks:
    """What is known about all suggestions together."""

    def __init__(self, suggestions: Sequence[Suggestion]) -> None:
        self._first: dict[tuple[str, ...], int] = {}
        self._open_targets: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
        self._sources: set[tuple[str, ...]] = set()
        self._targets: set[tuple[str, ...]] = set()
        texts: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
        for one in suggestions:
            pair = (one.source, one.target)
            source, target = _plain(one.source_text), _plain(one.suggestion)
            self._first.setdefault((*pair, source, target), one.id)
            self._sources.add((*pair, source))
            self._targets |= {(*pair, target), (*pair, _plain(one.machine_text))}
            texts[*pair, _letters(target)].add(_letters(source))
            if one.status != "rejected":
                self._open_targets[*pair, source].add(target)
        self._repeated = {
            key for key, sources in texts.items() if key[-1] and len(sources) > MAX_TEXTS
        }
        self._floods = set(_floods(suggestions))

    def problems(self, suggestion: Suggestion) -> Iterator[str]:
        pair = (suggestion.source, suggestion.target)
        source, target = _plain(suggestion.source_text), _plain(suggestion.suggestion)
        normalized = Unicode(*pair).apply(Pair(suggestion.source_text, suggestion.suggestion))
        if isinstance(normalized, str):
            yield normalized
            return
        is_known_swapped = (*pair, source) in self._targets and (*pair, target) in self._sources
        yield from _filter_problems(pair, normalized, source != target and is_known_swapped)
        if target == _plain(suggestion.machine_text):
            yield NO_CHANGE
        if self._first[*pair, source, target] != suggestion.id:
            yield DUPLICATE
        others = self._open_targets[*pair, source] - {target}
        if others and suggestion.status != "rejected":
            yield CONTRADICTION
        if (*pair, _letters(target)) in self._repeated:
            yield SAME_SUGGESTION
        if (suggestion.owner, _day(suggestion)) in self._floods:
            yield FLOOD


def _filter_problems(
    languages: tuple[str, str], pair: Pair, is_known_swapped: bool
) -> Iterator[str]:
    language, reversed_language, *others = _filters(*languages)
    verdict, reversed_verdict = language.apply(pair), reversed_language.apply(pair)
    # Both sides are read: a source in a third language is not a swapped one.
    is_swapped = verdict == "wrong source language" and reversed_verdict == pair
    # Somebody may send a right suggestion again with its sides swapped.
    is_right = verdict == pair and reversed_verdict != pair
    if is_swapped or (is_known_swapped and not is_right):
        yield SWAPPED
    elif isinstance(verdict, str):
        yield verdict
    for filter_ in others:
        verdict = filter_.apply(pair)
        if isinstance(verdict, str):
            yield verdict


@cache
def _filters(source: str, target: str) -> tuple[Filter, ...]:
    """Return the filter of languages, the same for swapped sides, and all others."""
    others = (kind(source, target) for kind in _FILTERS)
    return Language(source, target), Language(target, source), *others


def _floods(suggestions: Sequence[Suggestion]) -> Iterator[tuple[str, str]]:
    """Yield the keys, and the days, with too many suggestions."""
    with_key = [one for one in suggestions if one.owner and not one.owner.startswith(IMPORTED)]
    totals = Counter(one.owner for one in with_key)
    days = Counter((one.owner, _day(one)) for one in with_key)
    for (owner, day), count in days.items():
        if count > MAX_PER_DAY and totals[owner] > MAX_SHARE * len(suggestions):
            yield owner, day


def _day(suggestion: Suggestion) -> str:
    return suggestion.created.strftime("%Y-%m-%d")


def _plain(text: str) -> str:
    return " ".join(text.split())


def _letters(text: str) -> str:
    return _NOT_A_LETTER.sub("", text).casefold()
