"""The page contains all numbers, rounded as it says, and no other active content."""

import re
from dataclasses import fields, replace
from html import unescape

import numpy as np
import pytest

from dragoman import explain, load_recipe
from dragoman.explanation import page
from dragoman.explanation.explanation import OutputToken
from dragoman.tokenizer.interface import END
from support.explained import SENTENCE, numbers, page_data, small_translator

HOSTILE = (
    '</script><img src=x onerror="alert(1)"><script>alert(2)</script><!-- {{data}} \u2028 & \x00'
)
LIMIT = 2_000_000


@pytest.fixture(scope="module")
def explanation():
    return explain(small_translator(seed=2, beam_size=3), SENTENCE)


def test_the_numbers_are_the_recorded_ones_rounded(explanation):
    data = page_data(explanation)
    views = {(view["role"], view["layer"]): view for view in data["attention"]}
    assert len(views) == len(explanation.attention)
    for view in explanation.attention:
        shown = views[view.role, view.layer]
        shape = view.weights.shape
        assert tuple(shown["shape"]) == shape
        assert np.abs(numbers(shown["weights"], shape) - view.weights).max() <= 0.5e-4 + 1e-9
        scores = numbers(shown["scores"], shape)
        assert (
            np.abs(scores - view.scores).max() <= 0.5 * 10.0 ** -shown["scores"]["decimals"] + 1e-9
        )
        assert shown["scores"]["decimals"] >= 5
        for name in ("queries", "keys"):
            vectors = getattr(view.product, name)
            packed = shown["vectors"][name]
            unit = 10.0 ** -packed["decimals"]
            assert np.abs(numbers(packed, vectors.shape) - vectors).max() <= 0.5 * unit + 1e-9
        for shown_head, head in zip(shown["heads"], view.heads, strict=True):
            assert shown_head["description"] == head.description
            assert shown_head["entropy"] == pytest.approx(head.entropy, abs=0.5e-4)
    for shown, token in zip(data["tokens"], explanation.tokens, strict=True):
        assert shown["probability"] == pytest.approx(token.probability, rel=1e-5)
    for shown, weights in zip(data["alignments"], explanation.alignments, strict=True):
        assert np.abs(numbers(shown, weights.shape) - weights).max() <= 0.5e-4 + 1e-9
    assert explanation.alignment is explanation.alignments[-1]


def test_large_numbers_have_fewer_decimals():
    assert page._fitting_decimals(np.array([3.0, -32.7]), 3) == 3
    assert page._fitting_decimals(np.array([3.0, -32.8]), 3) == 2
    assert page._fitting_decimals(np.array([1e5]), 3) == -1
    assert page._fitting_decimals(np.zeros(3), 3) == 3
    assert numbers(page._pack(np.array([1e5, -7e4]), -1), (2,)).tolist() == [1e5, -7e4]


@pytest.mark.slow
@pytest.mark.parametrize("size", ["small", "base", "big"])
def test_a_page_of_twenty_tokens_is_small(size):
    """With the width and depth of each preset. Vectors beyond the size budget are left out."""
    model = load_recipe(size).model
    sizes = ("width", "encoder_layers", "decoder_layers", "heads")
    chosen = {name: getattr(model, name) for name in sizes}
    translator = small_translator("words", model=chosen, beam_size=5, min_length=20)
    translator.engine.model.output.bias[END] = 1e3  # It ends as soon as it can.
    explanation = explain(translator, " ".join(["one"] * 20))
    assert len(explanation.source_tokens) == len(explanation.tokens) == 21
    assert len(explanation.to_html().encode()) < LIMIT
    left_out = [view["vectors"]["isLeftOut"] for view in page_data(explanation)["attention"]]
    assert any(left_out) == (size == "big")


def test_a_small_page_is_small(explanation):
    assert len(explanation.to_html().encode()) < 300_000


@pytest.fixture(scope="module")
def hostile(explanation):
    """The same explanation with tokens that look like markup."""
    return replace(
        explanation,
        sentence=HOSTILE,
        translation=HOSTILE,
        model=HOSTILE,
        languages=(HOSTILE, HOSTILE),
        source_tokens=(HOSTILE,) * len(explanation.source_tokens),
        decoder_input=(HOSTILE,) * len(explanation.decoder_input),
        tokens=tuple(
            OutputToken(HOSTILE, token.probability, ((HOSTILE, 0.1),))
            for token in explanation.tokens
        ),
        notes=(HOSTILE,),
    )


def test_no_token_becomes_markup(explanation, hostile):
    usual, other = explanation.to_html(), hostile.to_html()
    for tag in ("<script", "</script", "<img", "<!--"):
        assert usual.count(tag) == other.count(tag), tag
    assert page_data(hostile)["source_tokens"][0] == HOSTILE


def test_the_page_cannot_load_anything(explanation):
    text = explanation.to_html()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    # The one address is the XML namespace of SVG, which is not loaded.
    assert set(re.findall(r"\w+://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
    for word in ("eval(", "innerHTML", "document.write", "@import", "url(", "fetch("):
        assert word not in text, word


def test_a_notebook_shows_the_page_in_a_sandboxed_frame(hostile):
    shown = hostile._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts" ')
    inner = re.search(r'srcdoc="([^"]*)"', shown)[1]
    assert unescape(inner) == hostile.to_html()


def test_the_saved_page_is_the_rendered_one(explanation, tmp_path):
    path = explanation.save(tmp_path / "new" / "page.html")
    assert path.read_text(encoding="utf-8") == explanation.to_html()


@pytest.mark.parametrize(
    ("text", "direction"),
    [("one", "ltr"), ("اثنان", "rtl"), ("12 שלום one", "rtl"), ("二", "ltr"), ("123", "ltr")],
)
def test_directions(text, direction):
    assert page._direction(text) == direction


def test_every_field_of_an_explanation_is_on_the_page(explanation):
    """A new field cannot be forgotten."""
    assert {field.name for field in fields(explanation)} <= page_data(explanation).keys()


def test_the_end_token_is_counted_on_neither_side(explanation):
    data = page_data(explanation)
    assert explanation.tokens[-1].token == explanation.source_tokens[-1] == "⟨end⟩"
    counts = [len(explanation.source_tokens) - 1, len(explanation.tokens) - 1]
    assert data["tokenCounts"] == counts
    truncated = page_data(replace(explanation, tokens=explanation.tokens[:-1]))
    assert truncated["tokenCounts"] == counts
