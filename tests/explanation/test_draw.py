"""Figures are drawn in any script, without a warning."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from dragoman import explain
from dragoman.explanation.draw import draw
from support.explained import small_translator
from support.small_models import BASELINES

SCRIPTS = [
    "▁مرحبا",
    "שלום",
    "▁日本語",
    "한국어",
    "🐎",
    "👩‍🚀️",
    "$x^2$",
    "\x00\x1b",
    "ไทย",
    "\U0010fffd",
    "ﷺ",
]


@pytest.mark.slow
def test_every_script_is_drawn_or_replaced_without_a_warning(tmp_path):
    explanation = explain(small_translator(), "One two and so five, seven; nine.")
    tokens = tuple(
        replace(token, token=SCRIPTS[position % 11])
        for position, token in enumerate(explanation.tokens)
    )
    source = tuple(SCRIPTS[position % 11] for position in range(len(explanation.source_tokens)))
    paths = draw(replace(explanation, tokens=tokens, source_tokens=source), tmp_path)
    assert sorted(path.name for path in paths) == sorted(
        f"{name}.{suffix}"
        for name in ("alignment", "encoder", "decoder", "cross")
        for suffix in ("png", "svg")
    )
    for path in paths:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            assert ElementTree.parse(path).getroot().tag.endswith("svg")


@pytest.mark.slow
def test_the_same_explanation_gives_the_same_files(tmp_path):
    explanation = explain(small_translator(), "One two.")
    first, second = (draw(explanation, tmp_path / folder) for folder in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("recurrent", 0), ("convolutional", 4)])
def test_a_missing_attention_is_not_drawn(tmp_path, name, count):
    explanation = explain(small_translator(model=BASELINES[name]), "One two.")
    assert len(draw(explanation, tmp_path)) == count
