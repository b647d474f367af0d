"""The playground of the docs: its page is up to date, and its script computes what our parts do."""

import base64
import shutil

import numpy as np
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from docs_build import playground
from playwright.sync_api import sync_playwright

from dragoman.model.attention_kind.hard import Hard
from dragoman.model.attention_kind.local import Local
from dragoman.model.attention_kind.soft import Soft
from dragoman.model.mask import causal_mask
from dragoman.model.position.sinusoidal import Sinusoidal
from dragoman.model.similarity.cosine import Cosine
from dragoman.model.similarity.dot import Dot
from dragoman.model.similarity.scaled_dot import ScaledDot

DATA = playground.read_data(playground.PAGE.read_text("utf-8"))
ROUNDING = 0.015
"""Recorded vectors have three decimals, so the page's scores differ a little from the model's."""


def test_the_page_is_that_of_its_scripts_and_data():
    page = playground.PAGE.read_text("utf-8")
    assert page == playground.render(DATA), "type: python -m docs_build.playground render"


def test_the_recorded_models_are_those_of_the_code():
    recorded = [(model["name"], model["changes"]) for model in DATA["models"]]
    assert recorded == [
        (model.name, [*playground.SIZE, *model.changes]) for model in playground.MODELS
    ]
    for model in DATA["models"]:
        sentences = tuple(sentence["sentence"] for sentence in model["sentences"])
        assert sentences == playground.SENTENCES


def test_the_models_with_positions_translate_well():
    shares = {model["name"]: model["exact"] / model["items"] for model in DATA["models"]}
    assert all(share > 0.9 for name, share in shares.items() if name != "no positions"), shares
    assert shares["no positions"] < 0.8
    without = DATA["models"][1]["sentences"]
    assert without[0]["translation"] == without[3]["translation"], "it cannot see the order"


def unpack(packed, shape):
    """The numbers of a packed array."""
    kind = f"<i{packed['bits'] // 8}"
    numbers = np.frombuffer(base64.b64decode(packed["data"]), dtype=kind)
    return torch.tensor(numbers.reshape(shape) / 10 ** packed["decimals"])


def plain_weights(view, similarity, kind, mask):
    """The weights of recorded queries and keys, computed with our own parts: heads × T × S."""
    heads, rows, columns = view["shape"]
    size = view["vectors"]["size"]
    queries, keys = (
        unpack(view["vectors"][name], (1, heads, length, size))
        for name, length in (("queries", rows), ("keys", columns))
    )
    scores = {
        "trained": ScaledDot(size),
        "dot": Dot(size),
        "root": ScaledDot(size),
        "size": lambda q, k: Dot(size)(q, k) / size,
        "cosine": Cosine(size, scale=10.0),
    }[similarity](queries, keys)
    is_causal = mask == "causal" or (mask == "trained" and view["role"] == "decoder")
    visible = torch.ones(1, 1, rows, columns, dtype=torch.bool)
    if is_causal:
        visible &= torch.tril(torch.ones(rows, columns, dtype=torch.bool))
        if view["role"] == "decoder":
            assert visible.equal(causal_mask(0, rows, scores.device))
    part = {"soft": Soft(), "hard": Hard(), "local": Local(window=1)}[kind]
    return part(scores, part.restrict_mask(visible, 0, rows))[0]


@pytest.fixture(scope="module")
def page():
    if shutil.which("chromium") is None:
        pytest.skip("Chromium is not installed")
    errors = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(playground.PAGE.as_uri())
        yield page
        browser.close()
    assert not errors


COMPUTE = """([model, sentence, role, layer, settings]) => {
  const view = viewOf(model, sentence, role, layer);
  return Array.from({ length: view.heads }, (_, head) =>
    rowsOf(view, head, settings).map((row) => row.weights));
}"""


def page_weights(page, model, sentence, view, settings):
    arguments = [model, sentence, view["role"], view["layer"], settings]
    return torch.tensor(page.evaluate(COMPUTE, arguments), dtype=torch.float64)


@pytest.mark.slow
def test_the_weights_are_those_that_the_models_computed(page):
    settings = {"similarity": "trained", "kind": "soft", "mask": "trained"}
    for number, model in enumerate(DATA["models"]):
        for index, sentence in enumerate(model["sentences"]):
            for view in sentence["attention"]:
                computed = page_weights(page, number, index, view, settings)
                recorded = unpack(view["weights"], view["shape"])
                assert (computed - recorded).abs().max() < ROUNDING, (model["name"], view["role"])


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["trained", "none", "causal"])
@pytest.mark.parametrize("kind", ["soft", "hard", "local"])
@pytest.mark.parametrize("similarity", ["trained", "dot", "root", "size", "cosine"])
def test_changed_weights_are_those_of_our_parts(page, similarity, kind, mask):
    settings = {"similarity": similarity, "kind": kind, "mask": mask}
    for view in DATA["models"][0]["sentences"][1]["attention"]:
        if mask == "causal" and kind == "local" and view["role"] == "cross":
            continue  # Some rows would see no key.
        computed = page_weights(page, 0, 1, view, settings)
        assert (computed - plain_weights(view, similarity, kind, mask)).abs().max() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("size", [8, 16, 32, 64])
def test_the_clocks_show_our_positions(page, size):
    vectors = page.evaluate(
        "size => Array.from({ length: POSITIONS }, (_, t) => positionVector(t, size))", size
    )
    own = Sinusoidal(size)(0, len(vectors), torch.zeros(1, dtype=torch.float64))
    assert torch.allclose(torch.tensor(vectors, dtype=torch.float64), own, atol=1e-9)


@pytest.mark.slow
def test_controls_and_keys_change_the_page(page):
    page.reload()
    before = page.inner_text("#summary")
    page.select_option("#choose-similarity", "dot")
    assert page.inner_text("#summary") != before
    assert page.is_visible("#warning")
    for button in page.locator("#experiments button").all():
        button.click()
        assert page.inner_text("#experiment-text")
    assert page.locator("#choose-similarity").is_disabled()  # The additive similarity is a network.
    page.focus("#map")
    row = page.inner_text("#row-title")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#row-title") != row
    page.evaluate("byId('position').value = 9; drawClocks()")
    assert page.inner_text("#position-value") == "9"


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_everybody_can_read_it(page, width, scheme):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.reload()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    violations = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert not [(one["id"], one["nodes"][0]["html"][:200]) for one in violations]
