"""Does the page hold the numbers, all of them and rounded as it says, and nothing but data?"""

import re
from dataclasses import fields, replace
from html import unescape

import numpy as np
import pytest

from dragoman import explain, load_recipe
from dragoman.explanation import page
from dragoman.explanation.explanation import Word
from dragoman.tokenizer.interface import END
from explanation.explained import SENTENCE, numbers, page_data, small_translator

HOSTILE = (
    '</script><img src=x onerror="alert(1)"><script>alert(2)</script><!-- {{data}} \u2028 & \x00'
)
LIMIT = 2_000_000


@pytest.fixture(scope="module")
def explanation():
    return explain(small_translator(seed=2, beam=3), SENTENCE)


def test_numbers_are_the_recorded_ones_rounded_as_is_said(explanation):
    data = page_data(explanation)
    told = {(each["kind"], each["layer"]): each for each in data["looks"]}
    assert len(told) == len(explanation.looks)
    for look in explanation.looks:
        shown = told[look.kind, look.layer]
        shape = look.weights.shape
        assert tuple(shown["shape"]) == shape
        assert np.abs(numbers(shown["weights"], shape) - look.weights).max() <= 0.5e-4 + 1e-9
        scores = numbers(shown["scores"], shape)
        assert (
            np.abs(scores - look.scores).max() <= 0.5 * 10.0 ** -shown["scores"]["decimals"] + 1e-9
        )
        assert shown["scores"]["decimals"] >= 5
        for name in ("queries", "keys"):
            vectors = getattr(look.product, name)
            packed = shown["vectors"][name]
            unit = 10.0 ** -packed["decimals"]
            assert np.abs(numbers(packed, vectors.shape) - vectors).max() <= 0.5 * unit + 1e-9
        for head, own in zip(shown["heads"], look.heads, strict=True):
            assert head["job"] == own.job
            assert head["entropy"] == pytest.approx(own.entropy, abs=0.5e-4)
    for word, own in zip(data["words"], explanation.words, strict=True):
        assert word["probability"] == pytest.approx(own.probability, rel=1e-5)
    for shown, own in zip(data["alignments"], explanation.alignments, strict=True):
        assert np.abs(numbers(shown, own.shape) - own).max() <= 0.5e-4 + 1e-9
    assert explanation.alignment is explanation.alignments[-1]


def test_large_numbers_have_fewer_decimals():
    assert page._decimals(np.array([3.0, -32.7]), 3) == 3
    assert page._decimals(np.array([3.0, -32.8]), 3) == 2
    assert page._decimals(np.array([1e5]), 3) == -1
    assert page._decimals(np.zeros(3), 3) == 3
    assert numbers(page._fixed(np.array([1e5, -7e4]), -1), (2,)).tolist() == [1e5, -7e4]


@pytest.mark.slow
@pytest.mark.parametrize("size", ["small", "base", "big"])
def test_a_page_of_twenty_tokens_is_small(size):
    """Of every preset's width and depth: beyond a budget, vectors are left out, and it is told."""
    model = load_recipe(size).model
    sizes = ("width", "encoder_layers", "decoder_layers", "head_count")
    chosen = {name: getattr(model, name) for name in sizes}
    translator = small_translator("words", model=chosen, beam=5, minimum_length=20)
    translator.engine.model.output.bias[END] = 1e3  # It ends as soon as it may.
    explanation = explain(translator, " ".join(["one"] * 20))
    assert len(explanation.source) == len(explanation.words) == 21
    assert len(explanation.to_html().encode()) < LIMIT
    left_out = [each["vectors"]["isLeftOut"] for each in page_data(explanation)["looks"]]
    assert any(left_out) == (size == "big")


def test_a_small_page_is_small(explanation):
    assert len(explanation.to_html().encode()) < 300_000


@pytest.fixture(scope="module")
def hostile(explanation):
    """The same, of tokens that would all like to be markup."""
    return replace(
        explanation,
        sentence=HOSTILE,
        translation=HOSTILE,
        model=HOSTILE,
        languages=(HOSTILE, HOSTILE),
        source=(HOSTILE,) * len(explanation.source),
        read=(HOSTILE,) * len(explanation.read),
        words=tuple(
            Word(HOSTILE, each.probability, ((HOSTILE, 0.1),)) for each in explanation.words
        ),
        notes=(HOSTILE,),
    )


def test_no_token_becomes_markup(explanation, hostile):
    usual, other = explanation.to_html(), hostile.to_html()
    for tag in ("<script", "</script", "<img", "<!--"):
        assert usual.count(tag) == other.count(tag), tag
    assert page_data(hostile)["source"][0] == HOSTILE


def test_a_page_may_load_nothing_and_names_no_other(explanation):
    text = explanation.to_html()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    # The one address is the name of SVG, which is not a place.
    assert set(re.findall(r"\w+://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
    for word in ("eval(", "innerHTML", "document.write", "@import", "url(", "fetch("):
        assert word not in text, word


def test_a_notebook_shows_it_in_a_frame_that_reaches_nothing(hostile):
    shown = hostile._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts" ')
    inner = re.search(r'srcdoc="([^"]*)"', shown)[1]
    assert unescape(inner) == hostile.to_html()


def test_it_is_saved_as_it_is(explanation, tmp_path):
    path = explanation.save(tmp_path / "new" / "page.html")
    assert path.read_text(encoding="utf-8") == explanation.to_html()


@pytest.mark.parametrize(
    ("text", "direction"),
    [("one", "ltr"), ("اثنان", "rtl"), ("12 שלום one", "rtl"), ("二", "ltr"), ("123", "ltr")],
)
def test_directions(text, direction):
    assert page._direction(text) == direction


def test_all_that_is_known_is_on_the_page(explanation):
    """Every field has its place, so a new one cannot be forgotten."""
    assert {field.name for field in fields(explanation)} <= page_data(explanation).keys()
