"""Which tasks are nothing but order?

Two, for whoever asks how positions should be told: an encoder alone says at each place the symbol
that stood three places before, and an encoder with its decoder says a sequence backwards. Without
positions, neither can be learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.lab.experiment import Numbers
from dragoman.lab.task import reversing, shifting
from dragoman.lab.teaching import Lesson, build, build_reader, contest

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
    shifted, reversed_ = shifting(10, 14, -3), reversing(10, 6, 6)
    return {
        "steps": dict(steps),
        "shifting": contest(models, shifted, lessons["shifting"], seeds, build_reader),
        "reversing": contest(models, reversed_, lessons["reversing"], seeds, build),
    }
