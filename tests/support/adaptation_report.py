"""A report of an adaptation with made-up figures, for tests of the page."""

from __future__ import annotations

from dragoman.adaptation.gate import GateResult, RuleResult
from dragoman.adaptation.history import DataFile
from dragoman.adaptation.report.model import (
    AdaptationCost,
    AdaptationReport,
    CurvePoint,
    ExampleChange,
    TermChange,
)
from dragoman.recipe.schema import LanguagesRecipe


def report(*, accepted: bool = True, text: str = "Press the button.") -> AdaptationReport:
    """An accepted or refused candidate; `text` is the text of its examples, names and terms."""
    rules = (
        RuleResult(
            name="in_domain_bleu",
            verdict="passed" if accepted else "failed",
            before=31.24,
            after=38.93,
            p_value=0.001,
            explanation="BLEU 31.2 → 38.9, p = 0.001; expected a higher BLEU with p < 0.05",
        ),
        RuleResult(
            name="in_domain_chrf",
            verdict="passed",
            before=58.1,
            after=63.7,
            explanation="chrF 58.1 → 63.7; expected no lower chrF",
        ),
        RuleResult(
            name="general_bleu",
            verdict="passed",
            before=40.3,
            after=40.1,
            p_value=0.31,
            explanation="BLEU 40.3 → 40.1, p = 0.310; expected a loss of at most 1, or one that is "
            "not significant (p ≥ 0.05)",
        ),
        RuleResult(
            name="protected_spans",
            verdict="not tested",
            explanation="the test sets contain no placeholders, tags or code",
        ),
        RuleResult(
            name="size",
            verdict="passed",
            before=298_708_852,
            after=298_708_852,
            explanation="298,708,852 → 298,708,852 bytes; expected no more",
        ),
        RuleResult(
            name="speed",
            verdict="passed",
            before=3_000_000_000,
            after=3_000_000_000,
            explanation="3,000,000,000 → 3,000,000,000 FLOPs per sentence; expected no more",
        ),
    )
    examples = [
        ExampleChange(
            test_set="in_domain" if change > -20 else "general",
            line=line,
            source=text,
            reference=f"{text} (reference)",
            before=f"{text} (before)",
            after=f"{text} (after)",
            change=change,
        )
        for line, change in enumerate((41.5, 30.25, -12.5, -25.0), start=1)
    ]
    return AdaptationReport(
        request="0" * 16,
        number=2,
        parent=1,
        languages=LanguagesRecipe(source="en", target="fr"),
        method="full",
        data=(DataFile(name=text, sha256="ab" * 32, pairs=24_789),),
        kept_pairs=41_020,
        dropped={"wrong target language": 120, text: 3},
        test_pairs={"in_domain": 800, "in_domain_validation": 200, "general": 1000},
        replay="Replayed text (50% of the training pairs): 200,000 pairs of news.tsv.",
        gate=GateResult(rules=rules),
        curve=tuple(
            CurvePoint(step=step, bleu=bleu, general_bleu=general, is_best=step in (0, 80, 160))
            for step, bleu, general in (
                (0, 30.9, 39.8),
                (40, 33.0, 39.9),
                (80, 35.5, 39.2),
                (120, 37.1, 38.1),
                (160, 38.4, 39.4),
                (200, 38.2, 39.3),
            )
        ),
        improved=tuple(examples[:2]),
        worse=tuple(examples[2:]),
        terms=(TermChange(term=text, translation=text, expected=12, before=3, after=11),),
        learned=(TermChange(term="bouton", expected=14, before=2, after=13),),
        lost=(),
        cost=AdaptationCost(
            updates=200,
            pairs=16_400,
            minutes=29.7,
            cpu_seconds=3_512.0,
            flops=2.4e14,
            device="cpu",
        ),
        notes=("The time limit ended the training; with more time, the result may be better",),
    )
