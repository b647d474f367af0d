"""What training reports while it runs.

`train(on_progress=...)` calls the function with one of these for each event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Scores(NamedTuple):
    """The quality of a model on the validation sets."""

    loss: float
    """Mean cross-entropy per target token, without label smoothing."""
    bleu: float
    general_bleu: float | None = None
    """BLEU on the general validation set (`corpus.general`), if there is one."""


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """What is about to be trained; reported once, before the first update."""

    step: int
    """Updates done in earlier sessions; 0 for a new run."""
    steps: int
    minutes: float
    """Maximum training time in minutes; 0 = unlimited."""
    model: str
    parameters: int
    pairs: int
    device: str
    threads: int
    precision: str
    world_size: int


@dataclass(frozen=True, slots=True)
class UpdateCompleted:
    """One update is done; reported for every update."""

    step: int
    elapsed_seconds: float
    """Training time of all sessions of the run."""
    seconds_left: float
    """Estimated from the updates of this session."""


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Means over the updates since the last report; reported every `log_every` updates."""

    step: int
    loss: float
    """Per target token, with label smoothing."""
    learning_rate: float
    grad_norm: float
    """Norm of the last gradient, before clipping."""
    tokens_per_second: float
    """Target tokens, without the time of validation and saving."""


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The validation set was translated and scored."""

    step: int
    scores: Scores
    is_best: bool


@dataclass(frozen=True, slots=True)
class Message:
    """Something that the user should know."""

    step: int
    text: str


TrainingEvent = TrainingSummary | UpdateCompleted | TrainingProgress | ValidationResult | Message
