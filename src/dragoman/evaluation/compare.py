"""Paired significance tests: is the difference between two systems larger than chance explains?

Both tests use the same sentences for all systems. They are sacreBLEU's own and give the numbers
that its command prints:

    bootstrap        resample the sentences many times and count how often the difference is as
                     large by chance                 (Koehn, 2004; `sacrebleu --paired-bs`)
    randomization    swap sentences of the two systems at random and count how often the difference
                     is as large                     (Riezler and Maxwell, 2005; `--paired-ar`)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sacrebleu.significance import PairedTest, Result

from dragoman.errors import DataError
from dragoman.evaluation.metrics import Score, check_lengths, metrics

SignificanceTest = Literal["bootstrap", "randomization"]

_TEST_TYPES = {"bootstrap": "bs", "randomization": "ar"}
"""The names of the tests in sacreBLEU."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One score of one system, compared with the first system."""

    system: str
    score: Score
    p_value: float | None
    """How likely chance alone gives such a difference; None for the first system (baseline)."""


def compare(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    test: SignificanceTest = "bootstrap",
    trials: int = 0,
    tokenized: bool = False,
    only: str = "",
) -> list[Comparison]:
    """Compare systems with the first of them.

    `trials` is the number of resamples (0 = the default of sacreBLEU's command). `only` is the name
    of one metric; the default is all.
    """
    if len(systems) < 2:
        raise DataError(f"found {len(systems)} system(s), expected two or more to compare")
    check_lengths(dict(systems), references)
    comparisons = []
    # One metric at a time: sacreBLEU gives both variants of BLEU the same name.
    for name, metric in metrics(tokenized=tokenized).items():
        if only not in ("", name):
            continue
        paired = PairedTest(
            list(systems.items()),
            {name: metric},
            references,
            test_type=_TEST_TYPES[test],
            n_samples=trials,
        )
        signatures, columns = paired()
        (signature,) = map(str, signatures.values())
        _, results = columns.values()
        for system, result in zip(systems, results, strict=True):
            assert isinstance(result, Result)
            # NumPy numbers become Python numbers, because JSON does not accept all NumPy types.
            mean, margin = (
                None if number is None else float(number) for number in (result.mean, result.ci)
            )
            score = Score(name, result.score, signature, mean, margin)
            comparisons.append(Comparison(system, score, result.p_value))
    return comparisons
