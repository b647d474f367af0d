"""Tests of what a model reports about itself: its layer matrices and its longest sequence."""

from __future__ import annotations

from typing import Any

import pytest

from support.small_models import BASELINES, EVERY_PART, small_model

CASES: dict[str, dict[str, Any]] = {
    **{f"{kind} {name}": {kind: name} for kind, name in EVERY_PART},
    "swiglu": {"feed_forward": "swiglu"},
    "untied": {"tied_embeddings": "none"},
    **BASELINES,
}


@pytest.mark.parametrize("settings", CASES.values(), ids=list(CASES))
def test_layer_matrices_are_the_matrices_inside_layers(settings: dict[str, Any]) -> None:
    model = small_model(**settings)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    reported = {names[id(parameter)] for parameter in model.layer_matrices()}
    expected = {
        name
        for name, parameter in model.named_parameters()
        if ".layers." in name and parameter.ndim == 2 and min(parameter.shape) > 1
    }
    assert reported == expected
    assert reported or settings.get("head_kind") == "bare"


def test_only_learned_positions_limit_the_length() -> None:
    for kind, name in EVERY_PART:
        limit = small_model(**{kind: name}).max_positions
        assert limit == (1024 if name == "learned" else None), name


@pytest.mark.parametrize("entry", ["added", "concatenated", "projected"])
def test_the_longest_sequence_is_the_size_of_the_table(entry: str) -> None:
    position = {"name": "learned", "maximum": 9}
    assert small_model(position=position, position_entry=entry).max_positions == 9
