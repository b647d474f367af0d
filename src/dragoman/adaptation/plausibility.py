"""Checks the new data before it is used: damaged data is stopped, with its reason.

The filters of preparation look at one pair at a time. These checks look at the whole set:

    enough pairs    at least MIN_PAIRS different ones are left
    dropped pairs   at most `adaptation.max_dropped` of them were dropped by the filters: if most
                    pairs are in a wrong language, nobody should trust the others
    glossary        no term has another translation in nearly all pairs that contain it

Repeated pairs and pairs of the test sets are not damaged, and do not count as dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from dragoman.adaptation.terms import terms_of
from dragoman.corpus.filter import Pair
from dragoman.corpus.leakage import IN_A_TEST_SET
from dragoman.corpus.report.model import DUPLICATES, CorpusReport
from dragoman.errors import DataError
from dragoman.text.glossary import Glossary, has_term

MIN_PAIRS = 20
"""With fewer pairs, a model learns these sentences and not a domain."""
MIN_TERM_USES = 5
"""A term is checked if so many pairs contain it."""
MIN_TERM_SHARE = 0.2
"""In this share of its pairs, a term must have its translation. Verbs and compounds have forms that
are not recognized, so the share is low."""
_UNDAMAGED = frozenset({*DUPLICATES, IN_A_TEST_SET})


def check_pairs(corpora: Sequence[CorpusReport], max_dropped: float, report: Path) -> None:
    """Raise if too few pairs are left, or too many are damaged.

    `corpora` says what happened to the new pairs; `report` is the page that shows them.
    """
    kept = sum(corpus.kept for corpus in corpora)
    reasons: Counter[str] = Counter()
    for corpus in corpora:
        reasons.update(corpus.dropped)
    damaged = sum(count for reason, count in reasons.items() if reason not in _UNDAMAGED)
    why = ", ".join(f"{reason}: {count:,}" for reason, count in reasons.most_common(4))
    if damaged > max_dropped * (kept + damaged):
        raise DataError(
            f"the filters dropped {damaged:,} of {kept + damaged:,} different pairs of --data "
            f"({why}), expected at most {max_dropped:.0%}. Look at examples in {str(report)!r}, "
            "and correct the data; if the other pairs are good, type adaptation.max_dropped=1"
        )
    if kept < MIN_PAIRS:
        raise DataError(
            f"--data gives {kept:,} different pairs to learn from ({why or 'none dropped'}), "
            f"expected at least {MIN_PAIRS}. Collect more; single terms belong in a glossary"
        )


def check_glossary(pairs: Iterable[Pair], glossary: Glossary) -> None:
    """Raise if the pairs contradict the glossary."""
    uses: Counter[tuple[str, str]] = Counter()
    right: Counter[tuple[str, str]] = Counter()
    for pair in pairs:
        for term in terms_of(glossary, pair.source):
            uses[term] += 1
            right[term] += has_term(pair.target, term[1])
    wrong = [
        f"{source!r} is {target!r} in {right[source, target]:,} of {count:,} pairs"
        for (source, target), count in uses.most_common()
        if count >= MIN_TERM_USES and right[source, target] < MIN_TERM_SHARE * count
    ]
    if wrong:
        raise DataError(
            f"--data contradicts the glossary: {'; '.join(wrong[:5])}. Correct the data or the "
            "glossary, or remove the term from the glossary"
        )
