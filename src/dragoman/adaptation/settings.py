"""The recipe of an adaptation: that of the parent, with settings that fit the size of the data.

The result is an ordinary recipe. `dragoman prepare` and `dragoman train` do the work with it, and
it can be read, changed and run by hand.

    updates          250/√pairs epochs, at least one: small sets are seen more often
    method           adapters: with the same updates they gained about as much as full fine-tuning
                     and lost less general quality (docs/adapt.md); recurrent and convolutional
                     networks are trained in full
    learning rate    low, because the model is trained already; higher for adapters; it falls
                     linearly to zero at the last update
    validation       every 10 to 40 updates, so that half an hour on two cores has several

A key=value of the user replaces each of these.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.adaptation.data import CorpusGroup, TestSets
from dragoman.recipe.corpus import DEFAULT_FILTERS
from dragoman.recipe.files import load_recipe
from dragoman.recipe.parts import Choice
from dragoman.recipe.schema import (
    AdaptationRecipe,
    CorpusFiles,
    Recipe,
    TrainingRecipe,
)

TOKENS_PER_UPDATE = 1024
LEARNING_RATES = {"full": 1e-4, "adapters": 1e-3}
_TOKENS_PER_PAIR = 30
"""Of one side; only used to estimate the number of updates."""
_EPOCHS = 250.0
_NORMALIZER = "unicode"


@dataclass(frozen=True, slots=True)
class AdaptationText:
    """All text of an adaptation."""

    data: CorpusGroup
    tests: TestSets
    replay: tuple[CorpusFiles, ...]
    """Corpora of general text, or the parent's own translations."""
    replay_pairs: int
    glossary: Path | None = None


def adaptation_recipe(
    parent: Recipe,
    parent_folder: Path,
    work: Path,
    text: AdaptationText,
    minutes: float,
    settings: Sequence[str] = (),
) -> Recipe:
    """Return the recipe that adapts a model; relative paths start from the folder `work`."""
    origin = os.path.relpath(parent_folder, work)
    is_transformer = parent.model.architecture == "transformer"
    draft = Recipe(
        training=TrainingRecipe(init_from=origin),
        adaptation=AdaptationRecipe(method="adapters" if is_transformer else "full"),
    )
    # The method decides the defaults of the training section, so it is read first.
    chosen = [setting for setting in settings if setting.startswith("adaptation.")]
    adaptation = load_recipe(draft, chosen).adaptation
    steps = _steps(updates_for(text.data.pairs, adaptation.replay), settings)
    weight = replay_weight(adaptation.replay, text.data.pairs, text.replay_pairs)
    replay = text.replay if adaptation.replay else ()
    tests = text.tests
    corpus = parent.corpus.model_copy(
        update={
            "train": (
                *text.data.entries(),
                *(entry.model_copy(update={"weight": weight}) for entry in replay),
            ),
            "validation": tests.entries("in_domain_validation"),
            "general": tests.entries("general_validation"),
            "test": tests.entries("in_domain", "general"),
            "filters": _filters(parent.corpus.filters),
            "glossary": "" if text.glossary is None else str(text.glossary.absolute()),
            "folder": "prepared",
        }
    )
    tokenizer = parent.tokenizer.model_copy(update={"init_from": origin})
    recipe = parent.model_copy(
        update={
            "corpus": corpus,
            "tokenizer": tokenizer,
            "training": _training(parent.training, origin, adaptation.method, steps, minutes),
            "adaptation": adaptation,
        }
    )
    return load_recipe(recipe, settings)


def replay_weight(share: float, pairs: int, replay_pairs: int) -> float:
    """Return the sampling weight with which replayed pairs are this share of all pairs."""
    if not (share and pairs and replay_pairs):
        return 1.0
    return round(share / (1 - share) * pairs / replay_pairs, 6) or 1e-6


def updates_for(pairs: int, replay: float) -> int:
    """Return the number of updates for this many pairs, replayed text included."""
    epochs = max(1.0, _EPOCHS / math.sqrt(max(pairs, 1)))
    tokens = epochs * pairs / (1 - replay) * _TOKENS_PER_PAIR
    return max(40, math.ceil(tokens / TOKENS_PER_UPDATE))


def _steps(default: int, settings: Sequence[str]) -> int:
    """Return the number of updates, on which warm-up and validations depend."""
    chosen = [setting for setting in settings if setting.startswith("training.steps=")]
    return load_recipe(Recipe(training=TrainingRecipe(steps=default)), chosen).training.steps


def _training(
    parent: TrainingRecipe, origin: str, method: str, steps: int, minutes: float
) -> TrainingRecipe:
    validate_every = min(max(steps // 8, 10), 40)
    return TrainingRecipe(
        init_from=origin,
        steps=steps,
        minutes=minutes,
        tokens_per_update=TOKENS_PER_UPDATE,
        # Fixed, because "auto" depends on the free memory, and so would the last bits.
        micro_batch=TOKENS_PER_UPDATE,
        learning_rate=LEARNING_RATES[method],
        schedule="linear",
        warmup_steps=min(max(steps // 10, 10), 50, max(steps // 2, 1)),
        label_smoothing=parent.label_smoothing,
        average_checkpoints=1,
        keep_checkpoints=1,
        validate_every=validate_every,
        validation_pairs=200,
        # Of a small set, BLEU is too noisy to choose a checkpoint with; the loss falls steadily.
        best_metric="loss",
        save_every=validate_every,
        patience=5,
        log_every=10,
        precision=parent.precision,
        threads=parent.threads,
    )


def _filters(parent: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """Return all filters; text is normalized only if the parent's text was.

    A model translates text as it was normalized for its training, and that must not change.
    """
    own = {choice.name: choice for choice in parent}
    return tuple(
        own.get(choice.name, choice)
        for choice in DEFAULT_FILTERS
        if choice.name != _NORMALIZER or _NORMALIZER in own
    )
