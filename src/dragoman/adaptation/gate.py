"""The gate: does an adapted model replace its parent?

Both models have translated the same test sets. The gate compares the translations and applies the
rules below. It is a pure function: the same inputs give the same verdict, on every machine.

    in-domain BLEU     higher, and the paired bootstrap test gives p < p_value    (Koehn, 2004)
    in-domain chrF     not lower
    general BLEU       not lower by more than max_general_loss, unless the difference is not
                       significant; not tested without a general test set
    terms              no word of the in-domain references is used less often by more than
                       max_word_loss, and no term of the glossary at all less often, by the sign
                       test of `terms.py`
    protected spans    placeholders, tags and code that the reference keeps are kept as often; fewer
                       by more than max_span_loss fail if the sign test over sentences says that
                       it is not chance
    size               the weights have as many bytes
    speed              a sentence of 25 tokens costs as many FLOPs

Wall time is not a rule, because it depends on what else the machine does. The gate knows only what
its test sets contain: a wrong term that occurs in no test sentence passes. `plausibility.py` checks
the data itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from dragoman.adaptation.size import ModelSize
from dragoman.adaptation.terms import (
    MIN_USES,
    LostTerm,
    count_glossary_terms,
    count_words,
    find_lost_terms,
    sign_test,
)
from dragoman.errors import DataError
from dragoman.evaluation.compare import compare
from dragoman.recipe.schema import AdaptationRecipe
from dragoman.text.glossary import Glossary
from dragoman.text.spans import find_spans

RuleName = Literal[
    "in_domain_bleu",
    "in_domain_chrf",
    "general_bleu",
    "terms",
    "protected_spans",
    "size",
    "speed",
]
Verdict = Literal["passed", "failed", "not tested"]
_MAX_LOST = 5
"""The most lost words that are named."""


@dataclass(frozen=True, slots=True)
class TestOutputs:
    """A test set and the translations of both models, line by line."""

    __test__ = False  # Not a test of pytest.

    sources: Sequence[str]
    references: Sequence[str]
    parent: Sequence[str]
    candidate: Sequence[str]

    def __post_init__(self) -> None:
        lengths = {len(side) for side in (self.sources, self.references)}
        lengths |= {len(side) for side in (self.parent, self.candidate)}
        if lengths == {0}:
            raise DataError("the test set is empty; expected at least one pair")
        if len(lengths) > 1:
            raise DataError(
                f"the sides of a test set have {', '.join(map(str, sorted(lengths)))} lines, "
                "expected the same number"
            )


class RuleResult(BaseModel):
    """One rule with its figures."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: RuleName
    verdict: Verdict
    before: float | None = None
    after: float | None = None
    p_value: float | None = None
    """Of the paired bootstrap test or the sign test; None for rules without a test."""
    explanation: str
    """The figures and the limit in one sentence."""


class GateResult(BaseModel):
    """The verdict of every rule; the candidate is accepted if none has failed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rules: tuple[RuleResult, ...]

    @property
    def is_accepted(self) -> bool:
        """Whether the candidate replaces its parent."""
        return not self.failed

    @property
    def failed(self) -> tuple[RuleResult, ...]:
        """The rules that the candidate breaks."""
        return tuple(rule for rule in self.rules if rule.verdict == "failed")

    def rule(self, name: RuleName) -> RuleResult:
        """Return the result of one rule."""
        return next(rule for rule in self.rules if rule.name == name)


def judge(
    in_domain: TestOutputs,
    general: TestOutputs | None,
    parent_size: ModelSize,
    candidate_size: ModelSize,
    settings: AdaptationRecipe,
    glossary: Glossary | None = None,
) -> GateResult:
    """Apply all rules. Without a general test set, its rule is not tested."""
    return GateResult(
        rules=(
            *_in_domain(in_domain, settings.p_value),
            _general(general, settings),
            _terms(in_domain, glossary, settings),
            _spans([outputs for outputs in (in_domain, general) if outputs], settings),
            _unchanged("size", "bytes", parent_size.weight_bytes, candidate_size.weight_bytes),
            _unchanged("speed", "FLOPs per sentence", parent_size.flops, candidate_size.flops),
        )
    )


@dataclass(frozen=True, slots=True)
class SpanCounts:
    """How many of the spans that the reference keeps are in the translations."""

    expected: int
    parent: int
    candidate: int
    lost: int
    """Sentences in which the candidate keeps fewer than the parent. Sentences are counted and not
    spans, because a sentence that goes wrong loses all of its spans at once."""
    gained: int
    """Sentences in which the candidate keeps more."""


def count_spans(outputs: TestOutputs) -> SpanCounts:
    """Count the spans that source and reference share, and how many each model keeps."""
    totals: Counter[str] = Counter()
    rows = zip(outputs.sources, outputs.references, outputs.parent, outputs.candidate, strict=True)
    for source, reference, parent, candidate in rows:
        expected = _span_texts(source) & _span_texts(reference)
        if expected:
            totals["expected"] += expected.total()
            before, after = ((expected & _span_texts(text)).total() for text in (parent, candidate))
            totals["parent"] += before
            totals["candidate"] += after
            totals["lost"] += after < before
            totals["gained"] += after > before
    return SpanCounts(
        totals["expected"],
        totals["parent"],
        totals["candidate"],
        totals["lost"],
        totals["gained"],
    )


def _in_domain(outputs: TestOutputs, limit: float) -> Iterator[RuleResult]:
    (before, _), (after, p_value) = _scores(outputs, "BLEU")
    is_better = after > before and p_value is not None and p_value < limit
    yield RuleResult(
        name="in_domain_bleu",
        verdict="passed" if is_better else "failed",
        before=before,
        after=after,
        p_value=p_value,
        explanation=f"BLEU {before:.1f} → {after:.1f}, {_p(p_value)}; expected a higher BLEU with "
        f"p < {limit:g}",
    )
    (before, _), (after, p_value) = _scores(outputs, "chrF2")
    yield RuleResult(
        name="in_domain_chrf",
        verdict="passed" if after >= before else "failed",
        before=before,
        after=after,
        p_value=p_value,
        explanation=f"chrF {before:.1f} → {after:.1f}; expected no lower chrF",
    )


def _general(outputs: TestOutputs | None, settings: AdaptationRecipe) -> RuleResult:
    if outputs is None:
        return RuleResult(
            name="general_bleu",
            verdict="not tested",
            explanation="no general test set was given, so nobody knows what the model has lost",
        )
    (before, _), (after, p_value) = _scores(outputs, "BLEU")
    is_significant = p_value is not None and p_value < settings.p_value
    is_worse = before - after > settings.max_general_loss and is_significant
    return RuleResult(
        name="general_bleu",
        verdict="failed" if is_worse else "passed",
        before=before,
        after=after,
        p_value=p_value,
        explanation=f"BLEU {before:.1f} → {after:.1f}, {_p(p_value)}; expected a loss of at most "
        f"{settings.max_general_loss:g}, or one that is not significant "
        f"(p ≥ {settings.p_value:g})",
    )


def _terms(
    outputs: TestOutputs, glossary: Glossary | None, settings: AdaptationRecipe
) -> RuleResult:
    models = outputs.parent, outputs.candidate
    limit = settings.p_value
    words = find_lost_terms(count_words(outputs.references, *models), limit, settings.max_word_loss)
    counts = count_glossary_terms(glossary or Glossary({}), outputs.sources, *models)
    terms = find_lost_terms(
        {f"{term} → {target}": count for (term, target), count in counts.items()}, limit
    )
    lost = (*terms.lost, *words.lost)
    explanation = (
        f"{words.tested:,} words of the references and {terms.tested:,} terms of the glossary were "
        f"tested; expected no word that the candidate uses less often by more than "
        f"{settings.max_word_loss:.0%}, and no term that it uses less often (p < {limit:g})"
    )
    if lost:
        explanation = f"lost: {', '.join(map(_lost_term, lost[:_MAX_LOST]))}; {explanation}"
    if not words.tested and not terms.tested:
        return RuleResult(
            name="terms",
            verdict="not tested",
            explanation=f"the parent has no word of the references in {MIN_USES} sentences",
        )
    return RuleResult(
        name="terms",
        verdict="failed" if lost else "passed",
        p_value=min((term.p_value for term in lost), default=None),
        explanation=explanation,
    )


def _lost_term(term: LostTerm) -> str:
    counts = term.counts
    return f"{term.term!r} in {counts.parent} → {counts.candidate} of {counts.sentences} sentences"


def _spans(outputs: Sequence[TestOutputs], settings: AdaptationRecipe) -> RuleResult:
    counts = [count_spans(output) for output in outputs]
    expected = sum(count.expected for count in counts)
    if not expected:
        return RuleResult(
            name="protected_spans",
            verdict="not tested",
            explanation="the test sets contain no placeholders, tags or code",
        )
    before, after = (
        100 * sum(kept) / expected
        for kept in (
            [count.parent for count in counts],
            [count.candidate for count in counts],
        )
    )
    p_value = sign_test(sum(count.lost for count in counts), sum(count.gained for count in counts))
    limit = 100 * settings.max_span_loss
    is_worse = before - after > limit and p_value < settings.p_value
    return RuleResult(
        name="protected_spans",
        verdict="failed" if is_worse else "passed",
        before=before,
        after=after,
        p_value=p_value,
        explanation=f"{before:.1f} % → {after:.1f} % of {expected:,} spans kept, {_p(p_value)}; "
        f"expected {'no fewer' if not limit else f'at most {limit:g} points fewer'}, or a loss "
        f"that is not significant (p ≥ {settings.p_value:g})",
    )


def _unchanged(name: RuleName, unit: str, before: int, after: int) -> RuleResult:
    return RuleResult(
        name=name,
        verdict="passed" if after <= before else "failed",
        before=before,
        after=after,
        explanation=f"{before:,} → {after:,} {unit}; expected no more",
    )


def _scores(
    outputs: TestOutputs, metric: str
) -> tuple[tuple[float, float | None], tuple[float, float | None]]:
    """Return the score and the p-value of the parent (None) and of the candidate."""
    systems = {"parent": outputs.parent, "candidate": outputs.candidate}
    before, after = compare(systems, [outputs.references], only=metric)
    # Equal scores are no difference, but the test counts only resamples that differ by more.
    p_value = 1.0 if after.score.value == before.score.value else after.p_value
    return (before.score.value, None), (after.score.value, p_value)


def _p(p_value: float | None) -> str:
    return "p unknown" if p_value is None else f"p = {p_value:.3f}"


def _span_texts(text: str) -> Counter[str]:
    return Counter(span.text for span in find_spans(text))
