"""Finds words and terms that a candidate has lost: its parent translated them, and it does not.

A set with one wrong term can improve all other words, so the score of the whole test set rises. The
term itself shows it. Counted are the test sentences in which only the parent has the word (lost) or
only the candidate (gained), among those whose reference contains it. If nothing has changed, both
are equally likely, and the one-sided sign test (McNemar, 1947) says how likely so many losses are.
Many words are tested at once, so each p-value is multiplied by their number (Bonferroni).

Terms of a glossary are tested in the same way. They are few, so fewer sentences suffice.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dragoman.text.glossary import Glossary, has_term

MIN_USES = 5
"""A word is tested if the parent has it in so many sentences; fewer losses are not significant."""
_WORD = re.compile(r"[^\W\d_]{4,}")


@dataclass(slots=True)
class TermCounts:
    """In how many sentences a word or a term is right."""

    sentences: int = 0
    parent: int = 0
    candidate: int = 0
    lost: int = 0
    """Right only in the translation of the parent."""
    gained: int = 0
    """Right only in the translation of the candidate."""

    def add(self, *, parent: bool, candidate: bool) -> None:
        """Count one sentence."""
        self.sentences += 1
        self.parent += parent
        self.candidate += candidate
        self.lost += parent and not candidate
        self.gained += candidate and not parent

    @property
    def p_value(self) -> float:
        """How likely chance alone gives so many losses among the changes."""
        return sign_test(self.lost, self.gained)


@dataclass(frozen=True, slots=True)
class LostTerm:
    """A word that the candidate translates significantly less often than its parent."""

    term: str
    counts: TermCounts
    p_value: float
    """Multiplied by the number of words that were tested."""


@dataclass(frozen=True, slots=True)
class TermTest:
    """The result of the tests of all words."""

    tested: int
    lost: tuple[LostTerm, ...] = field(default=())


def sign_test(lost: int, gained: int) -> float:
    """Return how likely so many losses are if losses and gains are equally likely."""
    changes = lost + gained
    at_least = sum(math.comb(changes, count) for count in range(lost, changes + 1))
    return float(at_least / 2**changes)


def words_of(text: str) -> set[str]:
    """Return the words of a text that are long enough to be terms, in lower case."""
    return {word.casefold() for word in _WORD.findall(text)}


def count_words(
    references: Sequence[str], parent: Sequence[str], candidate: Sequence[str]
) -> dict[str, TermCounts]:
    """Count for each word of the references in how many sentences the models use it too."""
    counts: defaultdict[str, TermCounts] = defaultdict(TermCounts)
    for reference, before, after in zip(references, parent, candidate, strict=True):
        words_before, words_after = words_of(before), words_of(after)
        for word in words_of(reference):
            counts[word].add(parent=word in words_before, candidate=word in words_after)
    return dict(counts)


def count_glossary_terms(
    glossary: Glossary, sources: Sequence[str], parent: Sequence[str], candidate: Sequence[str]
) -> dict[tuple[str, str], TermCounts]:
    """Count for each term of the sources and its translation how often the models use it."""
    counts: defaultdict[tuple[str, str], TermCounts] = defaultdict(TermCounts)
    for source, before, after in zip(sources, parent, candidate, strict=True):
        for term, target in terms_of(glossary, source):
            counts[term, target].add(
                parent=has_term(before, target), candidate=has_term(after, target)
            )
    return dict(counts)


def terms_of(glossary: Glossary, source: str) -> list[tuple[str, str]]:
    """Return the terms of a source in lower case, each once, with their translations."""
    uses = glossary.find(source)
    terms = ((source[use.start : use.end].casefold(), use.target) for use in uses)
    return list(dict.fromkeys(terms))


def find_lost_terms(
    counts: Mapping[str, TermCounts], limit: float, max_loss: float = 0.0
) -> TermTest:
    """Find the words that were lost, the largest loss first.

    A word is lost if the candidate uses it less often, by more than `max_loss` of the parent's
    uses, and the p-value is below the limit.
    """
    tested = {term: count for term, count in counts.items() if count.parent >= MIN_USES}
    return TermTest(len(tested), tuple(_lost(tested, limit, max_loss)))


def _lost(tested: Mapping[str, TermCounts], limit: float, max_loss: float) -> Iterator[LostTerm]:
    order = sorted(tested.items(), key=lambda item: (item[1].gained - item[1].lost, item[0]))
    for term, count in order:
        p_value = min(1.0, len(tested) * count.p_value)
        if p_value < limit and count.parent - count.candidate > max_loss * count.parent:
            yield LostTerm(term, count, p_value)
