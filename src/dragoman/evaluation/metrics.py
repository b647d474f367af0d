"""BLEU, chrF and TER with signatures and 95 % confidence intervals.

All scores come from sacreBLEU and are computed on detokenized text. Each score has the signature
that others need to reproduce it. The numbers are those of `sacrebleu --confidence`.

Some papers score text that was lower-cased and tokenized before. Such a BLEU is higher and must
only be compared with BLEU of the same kind. It is computed on request, under its own name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from dragoman.errors import DataError

TOKENIZED_BLEU = "BLEU of tokenized text (tok:none)"
LOWER_IS_BETTER = ("TER",)
RESAMPLES = 1000
"""The default of sacreBLEU's command."""
WORST_SENTENCES = 5
"""How many of the worst translations an evaluation shows."""

_DECIMALS = 12
"""Enough for every comparison, few enough to hide rounding errors."""
_ROUNDING = 1e-6
"""Tolerance for a score at the end of its interval: float sums differ in the last digits."""


@dataclass(frozen=True, slots=True)
class Score:
    """One corpus-level score on a scale of 100."""

    name: str
    value: float
    signature: str
    mean: float | None = None
    """Mean over the resamples; close to the value, but not equal to it."""
    margin: float | None = None
    """Half the width of the 95 % interval around the mean."""
    interval: tuple[float, float] | None = field(init=False, default=None)
    """The 95 % interval. None without resamples, or if mean ± margin does not contain the value.

    The second case occurs with few sentences: most resamples agree, so the margin is about 0, but
    some differ much and move the mean away from the value.
    """

    def __post_init__(self) -> None:
        if self.mean is None or self.margin is None:
            return
        low, high = self.mean - self.margin, self.mean + self.margin
        if low - _ROUNDING <= self.value <= high + _ROUNDING:
            object.__setattr__(self, "interval", (low, high))


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """One sentence with its translation and its sentence-level chrF."""

    line: int
    """Line number in the source file, from 1."""
    source: str
    references: tuple[str, ...]
    output: str
    chrf: float


def measure(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenized: bool = False,
    resamples: int = RESAMPLES,
) -> list[Score]:
    """Score a translation against one reference text or several.

    `resamples` is the number of bootstrap resamples (0 = no intervals).
    """
    check_lengths({"the translation": hypotheses}, references)
    return [
        _score(name, metric, hypotheses, references, resamples)
        for name, metric in metrics(tokenized=tokenized).items()
    ]


def worst_sentences(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    count: int = WORST_SENTENCES,
) -> list[SentenceScore]:
    """Find the translations with the lowest chrF, worst first; exact matches are left out."""
    metric = _Chrf()
    rows = zip(sources, hypotheses, zip(*references, strict=True), strict=True)
    scored = [
        SentenceScore(
            line,
            source,
            sentence_references,
            hypothesis,
            float(metric.sentence_score(hypothesis, list(sentence_references)).score),
        )
        for line, (source, hypothesis, sentence_references) in enumerate(rows, start=1)
        if hypothesis not in sentence_references
    ]
    return sorted(scored, key=lambda sentence: sentence.chrf)[:count]


class _Chrf(CHRF):
    """SacreBLEU's chrF, which also works if nothing matches in some resamples.

    SacreBLEU 2.6.0 returns a Python zero for these resamples and NumPy numbers for the others, and
    then fails to compute their mean.
    """

    def _compute_f_score(self, statistics: Any) -> Any:
        score = super()._compute_f_score(statistics)
        return np.float32(score) if isinstance(statistics, np.ndarray) else score


def metrics(*, tokenized: bool = False) -> dict[str, Metric]:
    """SacreBLEU's metrics by name, with the settings of its command."""
    # `force` switches off the warning about tokenized text for users who expect such text.
    named: dict[str, Metric] = {"BLEU": BLEU(force=tokenized), "chrF2": _Chrf(), "TER": TER()}
    return named | ({TOKENIZED_BLEU: BLEU(tokenize="none", force=True)} if tokenized else {})


def check_lengths(
    translations: dict[str, Sequence[str]], references: Sequence[Sequence[str]]
) -> None:
    """Refuse texts with different numbers of lines: sacreBLEU would silently cut the longer one."""
    if not references:
        raise DataError("there is no reference to compare with; add one with --reference FILE")
    named = {f"reference {number}": text for number, text in enumerate(references, 1)}
    for name, text in (translations | named).items():
        if not text:
            raise DataError(f"{name} is empty: there is nothing to score")
    for name, translation in translations.items():
        for reference_name, reference in named.items():
            if len(translation) != len(reference):
                raise DataError(
                    f"{name} and {reference_name} have {len(translation):,} and "
                    f"{len(reference):,} lines, expected the same number: line n of one text is "
                    "compared with line n of the other"
                )


def _score(
    name: str,
    metric: Metric,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    resamples: int,
) -> Score:
    score = metric.corpus_score(hypotheses, references, n_bootstrap=resamples)
    signature = str(metric.get_signature())
    # The printed JSON is the only public access to the interval.
    printed = json.loads(score.format(_DECIMALS, signature=signature, is_json=True))
    if resamples < 2:
        return Score(name, float(score.score), signature)
    # SacreBLEU does not print a mean of 0. Then every resample has the score 0.
    mean, margin = (printed.get(f"confidence_{part}", 0.0) for part in ("mean", "var"))
    return Score(name, float(score.score), signature, mean, margin)
