"""Two tasks that depend on nothing but word order, for claims about positions.

An encoder alone outputs at each position the symbol three positions before. An encoder with a
decoder outputs a sequence in reverse. A control model without positions is trained too: what it
can do needs no positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.lab.experiment import Numbers
from dragoman.lab.task import reverse_task, shift_task
from dragoman.lab.training import (
    TrainingSetup,
    accuracies,
    build,
    build_encoder_only,
    compare_models,
)

TASKS = {"shifting": "output the symbol three before", "reversing": "output it in reverse"}
"""Task to its name in sentences and figures."""

MODEL: Mapping[str, Any] = {
    "width": 32,
    "heads": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "feed_forward_width": 64,
    "position_features": 8,
}


def compare_on_order_tasks(
    models: Mapping[str, Mapping[str, Any]], steps: Mapping[str, int], seeds: Sequence[int]
) -> Numbers:
    """Train every model on both tasks; its settings override `MODEL`."""
    models = {name: {**MODEL, **settings} for name, settings in models.items()}
    setups = {task: TrainingSetup(steps[task], batch_size=32, learning_rate=5e-3) for task in TASKS}
    tasks = {"shifting": shift_task(10, 14, -3), "reversing": reverse_task(10, 6, 6)}
    builders = {"shifting": build_encoder_only, "reversing": build}

    def train_all(models: Mapping[str, Mapping[str, Any]], seeds: Sequence[int]) -> dict[str, Any]:
        return {
            task: compare_models(models, tasks[task], setups[task], seeds, builders[task])
            for task in TASKS
        }

    control = train_all({"control": {**MODEL, "position": "none"}}, seeds[:1])
    shares = {task: accuracies(control[task]["control"])[0] for task in TASKS}
    return {"steps": dict(steps), "without": shares, **train_all(models, seeds)}


def describe_control(numbers: Numbers) -> str:
    """The accuracy of the control model."""
    shares = " and ".join(f"{numbers['without'][task]:.0%}" for task in TASKS)
    return f"Without positions, {shares} of the examples are correct"
