"""How good is a translation, and how sure is that?

BLEU, chrF and TER are sacreBLEU's own, on text as people read it. Each score comes with its
signature, by which others can repeat it, and with the 95 % interval of sacreBLEU's bootstrap. They
are the numbers that its command prints with `--confidence`.

Papers often scored text that was lower-cased and tokenised before. Such a BLEU is higher, and
nothing but such a BLEU may be compared with it; it is computed when asked, under its own name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from dragoman.errors import DataError

PAPERS = "BLEU of tokenised text (tok:none)"
LOWER_IS_BETTER = ("TER",)
RESAMPLES = 1000
"""As many as sacreBLEU's command takes."""

_PLACES = 12
"""After the point: more than anybody compares, less than what rounding spoils."""


@dataclass(frozen=True, slots=True)
class Score:
    """One number about a translation, on a scale of 100."""

    name: str
    value: float
    signature: str
    mean: float | None = None
    """Of the resamples; near the value, not equal to it."""
    margin: float | None = None
    """Half the width of the 95 % interval round the mean."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its lower and upper end."""
        if self.mean is None or self.margin is None:
            return None
        return self.mean - self.margin, self.mean + self.margin


def measure(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    papers: bool = False,
    resamples: int = RESAMPLES,
) -> list[Score]:
    """Score a translation against one reference or several, each a whole text; 0: no intervals."""
    check_lengths({"the translation": hypotheses}, references)
    return [
        _score(name, metric, hypotheses, references, resamples)
        for name, metric in metrics(papers=papers).items()
    ]


class _Chrf(CHRF):
    """SacreBLEU's, which cannot take the mean of its resamples if nothing matches in some of them.

    Their zero is Python's, the others are NumPy's. Seen in sacreBLEU 2.6.0.
    """

    def _compute_f_score(self, statistics: Any) -> Any:
        score = super()._compute_f_score(statistics)
        return np.float32(score) if isinstance(statistics, np.ndarray) else score


def metrics(*, papers: bool = False) -> dict[str, Metric]:
    """SacreBLEU's metrics by their names, as its command has them."""
    # Who says that the text is tokenised need not be warned that it is.
    found: dict[str, Metric] = {"BLEU": BLEU(force=papers), "chrF2": _Chrf(), "TER": TER()}
    return found | ({PAPERS: BLEU(tokenize="none", force=True)} if papers else {})


def check_lengths(
    translations: dict[str, Sequence[str]], references: Sequence[Sequence[str]]
) -> None:
    """Refuse texts that cannot be laid side by side, for sacreBLEU would cut the longer one."""
    if not references:
        raise DataError("there is no reference to compare with; name one with --reference")
    named = {f"reference {number}": text for number, text in enumerate(references, 1)}
    for name, text in (translations | named).items():
        if not text:
            raise DataError(f"{name} is empty: there is nothing to score")
    for name, translation in translations.items():
        for other, reference in named.items():
            if len(translation) != len(reference):
                raise DataError(
                    f"{name} has {len(translation):,} lines and {other} has {len(reference):,}, "
                    "expected as many in both: line n of the one must be compared with line n of "
                    "the other"
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
    # What the command prints is the only public way to the interval.
    printed = json.loads(score.format(_PLACES, signature=signature, is_json=True))
    if resamples < 2:
        return Score(name, float(score.score), signature)
    # A mean of 0 is not printed, and then every resample was 0.
    mean, margin = (printed.get(f"confidence_{part}", 0.0) for part in ("mean", "var"))
    return Score(name, float(score.score), signature, mean, margin)
