"""`card.json`: what a trained model cost, and what it was trained on.

This file does not import torch, so that programs without torch can read cards.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman.artifact import CARD
from dragoman.errors import ArtifactError
from dragoman.recipe.schema import Recipe
from dragoman.storage.files import write_text


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BestValidation(_Frozen):
    """The best validation of a run."""

    metric: Literal["bleu", "loss"]
    value: float | None
    """None if the run ended without a validation."""
    step: int


class Card(_Frozen):
    """Facts about a finished run."""

    version: Literal[1] = 1
    dragoman: str
    """The version of Dragoman that finished the run."""
    cost: str
    """The cost in one line, for people."""
    flops: float
    hours: float
    cpu_hours: float | None = None
    """Processor time of the main process, all threads, with validation; None if unknown."""
    world_size: int
    """Number of processes that trained together."""
    device: str
    threads: int
    """Threads per process."""
    parameters: int
    updates: int
    pairs: int
    """Sentence pairs seen; a pair counts once per epoch."""
    source_tokens: int
    target_tokens: int
    validation: BestValidation
    ended_by: Literal["steps", "minutes", "patience"]
    """The limit that ended training."""
    checkpoint_steps: tuple[int, ...]
    """Steps of the checkpoints whose mean is the model."""
    corpus_sha256: str
    """Hash of the manifest of the prepared corpus."""
    recipe: Recipe

    def write(self, run: Path) -> None:
        """Write the card into a run folder."""
        content = json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False)
        write_text(run / CARD, content + "\n")


def read_card(run: Path) -> Card | None:
    """Read the card of a run; None if there is no card, for example for an imported model."""
    try:
        return Card.model_validate_json((run / CARD).read_bytes())
    except FileNotFoundError:
        return None
    except (ValidationError, ValueError):
        raise ArtifactError(
            f"{CARD} of {str(run)!r} cannot be read; to write a new one, type the command of its "
            "training again: dragoman train RECIPE"
        ) from None
