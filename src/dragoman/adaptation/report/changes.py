"""Find what has changed: sentences that improved or got worse, and terms.

Sentences are compared by their chrF, terms by the number of test sentences in which a translation
contains what the reference contains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.chrf import CHRF

from dragoman.adaptation.gate import TestOutputs
from dragoman.adaptation.history import TestSet
from dragoman.adaptation.report.model import ExampleChange, TermChange
from dragoman.adaptation.terms import count_glossary_terms, count_words
from dragoman.text.glossary import Glossary

EXAMPLES, WORDS = 8, 15
"""The most sentences and words of each list."""
_MIN_NET = 2
"""A word counts as learned or lost if the sentences that gain and lose it differ by this many."""


def example_changes(test_sets: Mapping[TestSet, TestOutputs]) -> list[ExampleChange]:
    """Return all sentences whose score has changed, the largest gain first."""
    chrf = CHRF()
    changes = []
    for name, outputs in test_sets.items():
        rows = zip(
            outputs.sources, outputs.references, outputs.parent, outputs.candidate, strict=True
        )
        for line, (source, reference, before, after) in enumerate(rows, start=1):
            if before == after:
                continue
            scores = [chrf.sentence_score(text, [reference]).score for text in (before, after)]
            change = round(scores[1] - scores[0], 2)
            if change:
                changes.append(
                    ExampleChange(
                        test_set=name,
                        line=line,
                        source=source,
                        reference=reference,
                        before=before,
                        after=after,
                        change=change,
                    )
                )
    return sorted(changes, key=lambda change: (-change.change, change.test_set, change.line))


def improved(changes: Sequence[ExampleChange]) -> tuple[ExampleChange, ...]:
    """Return the sentences with the largest gains."""
    return tuple(change for change in changes[:EXAMPLES] if change.change > 0)


def worse(changes: Sequence[ExampleChange]) -> tuple[ExampleChange, ...]:
    """Return the sentences with the largest losses."""
    return tuple(change for change in changes[::-1][:EXAMPLES] if change.change < 0)


def glossary_terms(glossary: Glossary, outputs: TestOutputs) -> tuple[TermChange, ...]:
    """Count for each term of the sources how often its translation was used."""
    counts = count_glossary_terms(glossary, outputs.sources, outputs.parent, outputs.candidate)
    return tuple(
        TermChange(
            term=term,
            translation=translation,
            expected=count.sentences,
            before=count.parent,
            after=count.candidate,
        )
        for (term, translation), count in sorted(
            counts.items(), key=lambda item: (item[1].parent - item[1].candidate, item[0])
        )
    )


@dataclass(frozen=True, slots=True)
class WordChanges:
    """Words that a model has learned or lost."""

    learned: tuple[TermChange, ...]
    lost: tuple[TermChange, ...]


def word_changes(outputs: TestOutputs) -> WordChanges:
    """Count in how many sentences each word of the references is also in the translations."""
    counts = count_words(outputs.references, outputs.parent, outputs.candidate)
    changes = [
        TermChange(term=word, expected=count.sentences, before=count.parent, after=count.candidate)
        for word, count in counts.items()
        if abs(count.candidate - count.parent) >= _MIN_NET
    ]
    return WordChanges(
        tuple(_first(changes, sign=1)),
        tuple(_first(changes, sign=-1)),
    )


def _first(changes: Iterable[TermChange], sign: int) -> Iterator[TermChange]:
    """Yield the largest changes with this sign."""
    fitting = [change for change in changes if sign * (change.after - change.before) > 0]
    fitting.sort(key=lambda change: (-abs(change.after - change.before), change.term))
    yield from fitting[:WORDS]
