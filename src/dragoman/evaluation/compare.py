"""Is one system better than another, or was it luck?

Two tests on the same sentences, both sacreBLEU's own, with the numbers of its command:

    bootstrap        draw sentences again and again; how often is the difference as large by
                     chance?   (Koehn, 2004; `--paired-bs`)
    randomisation    swap the two systems' sentences at random; how often is the difference as
                     large then?   (Riezler and Maxwell, 2005; `--paired-ar`)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sacrebleu.significance import PairedTest, Result

from dragoman.errors import DataError
from dragoman.evaluation.metrics import Score, check_lengths, metrics

Test = Literal["bootstrap", "randomisation"]

_TESTS = {"bootstrap": "bs", "randomisation": "ar"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One score of one system, and how likely so large a difference from the first is luck."""

    system: str
    score: Score
    p_value: float | None
    """None for the first, with which the others are compared."""


def compare(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    test: Test = "bootstrap",
    trials: int = 0,
    papers: bool = False,
) -> list[Comparison]:
    """Compare systems with the first of them; 0: as many trials as sacreBLEU's command makes."""
    if len(systems) < 2:
        raise DataError(f"found {len(systems)} system(s), expected two or more to compare")
    check_lengths(dict(systems), references)
    found = []
    # One by one: sacreBLEU calls both kinds of BLEU the same.
    for name, metric in metrics(papers=papers).items():
        paired = PairedTest(
            list(systems.items()),
            {name: metric},
            references,
            test_type=_TESTS[test],
            n_samples=trials,
        )
        signatures, columns = paired()
        (signature,) = map(str, signatures.values())
        _, results = columns.values()
        for system, result in zip(systems, results, strict=True):
            assert isinstance(result, Result)
            # NumPy's numbers, some of which JSON does not know.
            mean, margin = (
                None if each is None else float(each) for each in (result.mean, result.ci)
            )
            score = Score(name, result.score, signature, mean, margin)
            found.append(Comparison(system, score, result.p_value))
    return found
