"""The part of a checkpoint that is not a tensor: counts, best score, and position in the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dragoman.data.sampler import StreamPosition

SKIP_WINDOW = 1000
"""In steps."""


@dataclass(slots=True)
class TrainingState:
    """The part of a checkpoint that is not a tensor."""

    step: int = 0
    updates: int = 0
    """Steps that changed the weights; the others were skipped."""
    position: StreamPosition = field(default_factory=StreamPosition)
    pairs: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    seconds: float = 0.0
    """Training time of all sessions."""
    cpu_seconds: float | None = 0.0
    """Processor time of the main process in all sessions; None if a session did not measure it."""
    loss_since_log: float = 0.0
    """Sum over the target tokens since the last log entry."""
    tokens_since_log: int = 0
    best_metric: str = "bleu"
    best_value: float | None = None
    """BLEU, or minus the loss: a larger value is better."""
    best_step: int = 0
    validations_without_improvement: int = 0
    first_general_bleu: float | None = None
    """BLEU on the general validation set before the first update."""
    skipped_steps: list[int] = field(default_factory=list)
    """Skipped steps among the last `SKIP_WINDOW` steps."""
    unscheduled_saves: list[int] = field(default_factory=list)
    """Steps that were saved only because the run stopped or ended there."""

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> TrainingState:
        """Build the state from the dictionary of `asdict`, read back from JSON."""
        # Checkpoints of early versions have no processor time.
        unknown = {"cpu_seconds": None}
        return cls(**unknown | stored | {"position": StreamPosition(*stored["position"])})
