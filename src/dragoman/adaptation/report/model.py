"""The report of an adaptation: what the page shows, and what `report.json` contains."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from dragoman.adaptation.gate import GateResult
from dragoman.adaptation.history import DataFile
from dragoman.recipe.schema import LanguagesRecipe

REPORT, REPORT_PAGE = "report.json", "report.html"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExampleChange(_Frozen):
    """A test sentence whose translation has changed."""

    test_set: Literal["in_domain", "general"]
    line: int
    """In the test set, from 1."""
    source: str
    reference: str
    before: str
    after: str
    change: float
    """Difference of the sentence-level chrF; negative if the translation got worse."""


class TermChange(_Frozen):
    """How often a term was translated as expected on the in-domain test set."""

    term: str
    translation: str = ""
    """Empty for a word that is in no glossary."""
    expected: int
    before: int
    after: int


class CurvePoint(_Frozen):
    """One validation."""

    step: int
    bleu: float
    general_bleu: float | None = None
    is_best: bool


class AdaptationCost(_Frozen):
    """What the adaptation cost."""

    updates: int
    pairs: int
    """Pairs seen in training, with replayed ones."""
    minutes: float
    """Training time of all sessions."""
    cpu_seconds: float
    """Processor time of the last session, of all stages."""
    flops: float
    """Estimated, of the training."""
    device: str


class AdaptationReport(_Frozen):
    """Everything that is known about a candidate."""

    version: Literal[1] = 1
    request: str
    """Hash of the data and the settings that this candidate was made from."""
    number: int
    parent: int
    languages: LanguagesRecipe
    method: Literal["full", "adapters"]
    data: tuple[DataFile, ...]
    kept_pairs: int
    """Training pairs after cleaning, replayed ones included."""
    dropped: dict[str, int]
    """Pairs that preparation dropped, by reason."""
    test_pairs: dict[str, int]
    """The size of each set."""
    replay: str
    """Where the replayed text comes from, in one sentence."""
    gate: GateResult
    curve: tuple[CurvePoint, ...]
    improved: tuple[ExampleChange, ...]
    worse: tuple[ExampleChange, ...]
    terms: tuple[TermChange, ...]
    """Terms of the glossary that occur in the in-domain test set."""
    learned: tuple[TermChange, ...]
    """Words of the references that the candidate uses in more sentences than its parent."""
    lost: tuple[TermChange, ...]
    """Words that it uses in fewer sentences."""
    cost: AdaptationCost
    notes: tuple[str, ...] = ()
    """Warnings that a reader of the figures needs."""

    @property
    def is_accepted(self) -> bool:
        """Whether the candidate replaced its parent."""
        return self.gate.is_accepted
