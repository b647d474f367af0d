"""A run folder as training leaves it: recipe, journal and samples, without a model."""

from __future__ import annotations

import shutil
from pathlib import Path

from dragoman.dashboard.samples import SampleTranslation, ValidationSamples, append_samples
from dragoman.training.journal import JOURNAL, Journal
from support import digits

HOSTILE = '</script><img src=x onerror="window.broken=1">'


def sample(step: int, text: str = "3 2 1") -> ValidationSamples:
    """Return the samples of one validation."""
    sentence = SampleTranslation(
        source=HOSTILE,
        reference="3 2 1",
        translation=text,
        source_tokens=("1", "⟨end⟩"),
        target_tokens=("3",),
        layers=(((250, 750),),),
    )
    return ValidationSamples(step=step, sentences=(sentence,))


def write_run(folder: Path, steps: int = 30) -> Path:
    """Write the files of an unfinished run."""
    folder.mkdir(parents=True)
    recipe = digits.write_recipe(folder.parent, languages={"source": "en", "target": "de"})
    shutil.copy(recipe, folder / "recipe.yaml")
    with Journal(folder / JOURNAL, 0) as journal:
        for step in range(1, steps + 1):
            journal.write(
                "progress",
                step,
                loss=9 / step,
                learning_rate=0.01,
                grad_norm=1.0,
                tokens_per_second=1000.0,
                seconds=float(step),
            )
        journal.write("validation", steps, loss=1.25, bleu=12.5, is_best=True)
        journal.write("skipped", steps + 1, position=[0, 1])
    append_samples(folder, sample(steps))
    return folder
