"""Gathers the report of an adaptation from the results of its stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dragoman.adaptation.data import CorpusGroup, TestSets
from dragoman.adaptation.gate import GateResult, RuleName, TestOutputs
from dragoman.adaptation.history import TestSet, VersionScore
from dragoman.adaptation.report import changes
from dragoman.adaptation.report.model import AdaptationCost, AdaptationReport, CurvePoint
from dragoman.corpus.report.model import Report
from dragoman.data.manifest import Manifest
from dragoman.recipe.schema import Recipe
from dragoman.text.glossary import Glossary
from dragoman.training.card import Card
from dragoman.training.journal import JOURNAL, read_journal

_FEW_TEST_PAIRS = 200
_SCORES: dict[RuleName, tuple[TestSet, str]] = {
    "in_domain_bleu": ("in_domain", "BLEU"),
    "in_domain_chrf": ("in_domain", "chrF"),
    "general_bleu": ("general", "BLEU"),
}
"""The rules whose figures are scores of a version."""


@dataclass(frozen=True, slots=True)
class AdaptationSources:
    """The text that an adaptation was made from."""

    data: CorpusGroup
    general: CorpusGroup | None
    """None if the parent's own translations were replayed."""
    tests: TestSets
    glossary: Path | None


@dataclass(frozen=True, slots=True)
class AdaptationFacts:
    """What is known about a candidate besides its translations."""

    request: str
    number: int
    parent: int
    recipe: Recipe
    text: AdaptationSources
    corpus: Report
    manifest: Manifest
    card: Card
    cpu_seconds: float


def gather(
    facts: AdaptationFacts,
    run: Path,
    outputs: Mapping[TestSet, TestOutputs],
    gate: GateResult,
) -> AdaptationReport:
    """Make the report; `run` is the folder of the candidate."""
    in_domain = outputs["in_domain"]
    examples = changes.example_changes(outputs)
    words = changes.word_changes(in_domain)
    glossary, card = facts.text.glossary, facts.card
    dropped: Counter[str] = Counter()
    for corpus in facts.corpus.corpora:
        dropped.update(corpus.dropped)
    return AdaptationReport(
        request=facts.request,
        number=facts.number,
        parent=facts.parent,
        languages=facts.recipe.languages,
        method=facts.recipe.adaptation.method,
        data=facts.text.data.files,
        kept_pairs=sum(shard.rows for shard in facts.manifest.train),
        dropped=dict(dropped.most_common()),
        test_pairs=_set_sizes(facts.text.tests),
        replay=_replay_text(facts),
        gate=gate,
        curve=tuple(_curve_points(run)),
        improved=changes.improved(examples),
        worse=changes.worse(examples),
        terms=changes.glossary_terms(Glossary.load(glossary), in_domain) if glossary else (),
        learned=words.learned,
        lost=words.lost,
        cost=AdaptationCost(
            updates=card.updates,
            pairs=card.pairs,
            minutes=60 * card.hours,
            cpu_seconds=facts.cpu_seconds,
            flops=card.flops,
            device=card.device,
        ),
        notes=tuple(_notes(facts)),
    )


def version_scores(gate: GateResult) -> tuple[VersionScore, ...]:
    """Return the scores for the history of versions."""
    return tuple(
        VersionScore(
            test_set=_SCORES[rule.name][0],
            metric=_SCORES[rule.name][1],
            before=rule.before,
            after=rule.after,
            p_value=rule.p_value,
        )
        for rule in gate.rules
        if rule.name in _SCORES and rule.before is not None and rule.after is not None
    )


def _set_sizes(tests: TestSets) -> dict[str, int]:
    names = ["in_domain", "in_domain_validation"]
    if tests.has_general:
        names += ["general", "general_validation"]
    return {name: len(tests.read(name)[0]) for name in names}


def _replay_text(facts: AdaptationFacts) -> str:
    share = f"{facts.recipe.adaptation.replay:.0%}"
    general = facts.text.general
    if general is None:
        return (
            f"Replayed text ({share} of the training pairs): the parent's own translations of the "
            "new sources."
        )
    return (
        f"Replayed text ({share} of the training pairs): {general.pairs:,} pairs of "
        f"{', '.join(file.name for file in general.files)}."
    )


def _notes(facts: AdaptationFacts) -> Iterator[str]:
    tests, card = facts.text.tests, facts.card
    if not tests.has_general:
        yield (
            "General quality was not tested, because no general text was given: the model may have "
            "lost quality outside its domain"
        )
    count = len(tests.read("in_domain")[0])
    if count < _FEW_TEST_PAIRS:
        yield f"The in-domain test set has {count} pairs; only large differences are significant"
    if card.checkpoint_steps == (0,):
        yield "No update improved the in-domain validation set, so the weights are the parent's"
    if card.ended_by == "minutes":
        yield "The time limit ended the training; with more time, the result may be better"


def _curve_points(run: Path) -> Iterator[CurvePoint]:
    for entry in read_journal(run / JOURNAL):
        if entry["kind"] == "validation":
            yield CurvePoint(
                step=entry["step"],
                bleu=entry["bleu"],
                general_bleu=entry.get("general_bleu"),
                is_best=entry["is_best"],
            )
