"""What a model costs when it is used: the bytes of its weights, and the FLOPs of a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dragoman.artifact import read_artifact
from dragoman.model.cost import measure
from dragoman.tokenizer.folder import load_tokenizer

_LENGTH = 25
"""Tokens on each side of the sentence."""


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What a model costs when it is used."""

    weight_bytes: int
    flops: int
    """For one sentence of 25 tokens on each side."""


def measure_size(folder: Path) -> ModelSize:
    """Return the size of a model folder."""
    artifact = read_artifact(folder)
    size = load_tokenizer(artifact.tokenizer / "target").size
    tokenizer = artifact.recipe.tokenizer.model_copy(update={"vocabulary_size": size})
    recipe = artifact.recipe.model_copy(update={"tokenizer": tokenizer})
    return ModelSize(
        weight_bytes=(artifact.folder / artifact.weights_file).stat().st_size,
        flops=measure(recipe, _LENGTH, _LENGTH).flops,
    )
