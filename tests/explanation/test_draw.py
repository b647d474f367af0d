"""Are pictures drawn, in any script, without a warning?"""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from dragoman import explain
from dragoman.explanation.draw import draw
from explanation.explained import small_translator
from small_models import RIVALS

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
def test_every_script_is_drawn_or_marked_without_a_warning(tmp_path):
    explanation = explain(small_translator(), "One two and so five, seven; nine.")
    words = [
        replace(each, token=SCRIPTS[place % 11]) for place, each in enumerate(explanation.words)
    ]
    source = tuple(SCRIPTS[place % 11] for place in range(len(explanation.source)))
    paths = draw(replace(explanation, words=tuple(words), source=source), tmp_path)
    assert sorted(path.name for path in paths) == sorted(
        f"{name}.{kind}"
        for name in ("alignment", "encoder", "decoder", "cross")
        for kind in ("png", "svg")
    )
    for path in paths:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_the_same_explanation_makes_the_same_files(tmp_path):
    explanation = explain(small_translator(), "One two.")
    first, second = (draw(explanation, tmp_path / each) for each in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.parametrize(("name", "count"), [("recurrent", 0), ("convolutional", 4)])
def test_what_is_not_there_is_not_drawn(tmp_path, name, count):
    explanation = explain(small_translator(model=RIVALS[name]), "One two.")
    assert len(draw(explanation, tmp_path)) == count
