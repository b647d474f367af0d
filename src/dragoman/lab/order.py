"""Which tasks are nothing but order?

Two, for whoever asks how positions should be told: an encoder alone says at each place the symbol
that stood three places before, and an encoder with its decoder says a sequence backwards. Beside
the pupils, one is told no places at all: what it can do, the others need none for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.lab.experiment import Numbers
from dragoman.lab.task import reversing, shifting
from dragoman.lab.teaching import Lesson, accuracies, build, build_reader, contest

TASKS = {"shifting": "say the symbol three before", "reversing": "say it backwards"}
"""What a sentence or a figure calls them."""

MODEL: Mapping[str, Any] = {
    "width": 32,
    "head_count": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "feed_forward_width": 64,
    "position_features": 8,
}


def contests(
    pupils: Mapping[str, Mapping[str, Any]], steps: Mapping[str, int], seeds: Sequence[int]
) -> Numbers:
    """Teach both tasks to every pupil, who has these settings above those of `MODEL`."""
    models = {name: {**MODEL, **settings} for name, settings in pupils.items()}
    lessons = {task: Lesson(steps[task], batch=32, rate=5e-3) for task in TASKS}
    tasks = {"shifting": shifting(10, 14, -3), "reversing": reversing(10, 6, 6)}
    make = {"shifting": build_reader, "reversing": build}

    def hold(models: Mapping[str, Mapping[str, Any]], seeds: Sequence[int]) -> dict[str, Any]:
        return {
            task: contest(models, tasks[task], lessons[task], seeds, make[task]) for task in TASKS
        }

    lost = hold({"lost": {**MODEL, "position": "none"}}, seeds[:1])
    shares = {task: accuracies(lost[task]["lost"])[0] for task in TASKS}
    return {"steps": dict(steps), "without": shares, **hold(models, seeds)}


def floor(numbers: Numbers) -> str:
    """What the pupil did that was told no places."""
    shares = " and ".join(f"{numbers['without'][task]:.0%}" for task in TASKS)
    return f"Told no places at all, {shares} without a fault"
