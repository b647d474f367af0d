"""The result of an evaluation, and the progress that is reported while it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from dragoman.evaluation.compare import Comparison
from dragoman.evaluation.metrics import Score, SentenceScore
from dragoman.evaluation.robustness import RobustnessResult

VERSION = 1
"""Version of the JSON layout."""

Stage = Literal["load", "translate", "score", "compare", "robustness"]


@dataclass(frozen=True, slots=True)
class EvaluationProgress:
    """How far one stage of an evaluation is."""

    stage: Stage
    system: str
    """The run that is loaded, translated with or scored; empty for a comparison of all runs."""
    done: int
    total: int
    """Sentences when translating, checks for robustness, 1 otherwise."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The training cost of a model."""

    summary: str
    flops: float
    hours: float
    tokens: int
    """Source and target tokens of all epochs."""


@dataclass(frozen=True, slots=True)
class System:
    """One run with its scores."""

    name: str
    scores: tuple[Score, ...]
    flags: Mapping[str, int]
    """For each flag, the number of translations that have it."""
    cost: Cost | None
    """None if the folder has no card, for example an imported model."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of `evaluate`."""

    sentences: int
    files: Mapping[str, str]
    """Source and reference files with their SHA-256."""
    systems: tuple[System, ...]
    """The evaluated run first, then the runs that it is compared with."""
    comparisons: tuple[Comparison, ...] = ()
    robustness: tuple[RobustnessResult, ...] = ()
    """Only of the first run."""
    worst_sentences: tuple[SentenceScore, ...] = ()
    """The translations of the first run with the lowest chrF, worst first."""
    notes: tuple[str, ...] = ()
    """Warnings that a reader of the numbers needs."""
    version: int = VERSION

    def to_json(self) -> str:
        """Write all fields as JSON."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False)
