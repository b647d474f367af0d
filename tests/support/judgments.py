"""Judge made-up numbers, and check the summary that every judgment needs."""

from __future__ import annotations

import json
from typing import Any

from dragoman.lab.experiment import Experiment, load_experiment


def judged(experiment: Experiment | str, numbers: dict[str, Any]) -> str:
    """The verdict on numbers as they are stored; the summary must be one sentence."""
    if isinstance(experiment, str):
        experiment = load_experiment(experiment)
    judgment = experiment.judge(json.loads(json.dumps(numbers)))
    assert_one_sentence(judgment.summary)
    assert judgment.explanation.endswith(".")
    return judgment.verdict


def assert_one_sentence(text: str) -> None:
    """It begins with a capital letter, ends with its only period, and is not too long."""
    assert text[0].isupper(), text
    assert text.endswith("."), text
    assert ". " not in text, text
    assert "\n" not in text, text
    assert 30 < len(text) < 260, text
