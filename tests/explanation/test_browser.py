"""The page works in a browser: by mouse, by keyboard, without network access, without errors.

The tests drive a real Chromium, offline. `.ci/run` installs it if it is missing.
"""

import shutil
from dataclasses import replace

import pytest
from playwright.sync_api import sync_playwright

from dragoman import explain
from dragoman.explanation.explanation import OutputToken
from support.explained import SENTENCE, small_translator
from support.small_models import BASELINES

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
HOSTILE = '</script><img src=x onerror="window.broken=1"><b>'


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens explanations; at the end there must be no error and no network request."""
    errors, requests, pages = [], [], []

    def open_page(explanation, **options):
        path = explanation.save(tmp_path / "page.html")
        page = browser.new_page(**{"viewport": {"width": 1200, "height": 900}} | options)
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert not errors
    assert requests == [(tmp_path / "page.html").as_uri()] * len(pages)


@pytest.fixture(scope="module")
def explanation():
    explanation = explain(small_translator(seed=2, beam_size=3), SENTENCE)
    assert len(explanation.tokens) > 3, "a longer translation tests more"
    return explanation


def percent(share):
    """A weight as the page shows it: rounded to a hundredth of a percent."""
    return f"{round(float(share) * 10_000) / 100:.2f} %"


def cell(page, row, column, shape):
    box = page.locator("#map").bounding_box()
    rows, columns = shape
    return (
        box["x"] + (column + 0.5) * box["width"] / columns,
        box["y"] + (row + 0.5) * box["height"] / rows,
    )


def test_tokens_and_alternatives_are_shown(opened, explanation):
    page = opened(explanation)
    cards = page.locator("#cards li")
    assert cards.count() == len(explanation.tokens)
    for position, token in enumerate(explanation.tokens):
        text = cards.nth(position).inner_text()
        assert token.token.replace("▁", "␣") in text
        assert f"{100 * token.probability:.2f} %" in text
        assert all(other.replace("▁", "␣") in text for other, _ in token.alternatives)


@pytest.mark.parametrize("role", ["encoder", "decoder", "cross"])
def test_a_map_is_enlarged_and_read_by_mouse(opened, explanation, role):
    page = opened(explanation)
    page.click(f"[data-role={role}]")
    for view in explanation.with_role(role):
        for head in range(2):
            page.click(f"#grid [data-layer='{view.layer}'][data-head='{head}']")
            title = page.inner_text("#large h3")
            assert (
                title == f"Layer {view.layer + 1}, head {head + 1}: {view.heads[head].description}"
            )
            page.locator("#map").scroll_into_view_if_needed()
            weights = view.weights[head]
            for row, column in ((0, 0), (len(weights) - 1, 1), (2, weights.shape[1] - 1)):
                page.mouse.move(*cell(page, row, column, weights.shape))
                if view.mask[row, column]:
                    assert page.inner_text("#weight") == percent(weights[row, column])
                else:
                    assert "cannot attend to" in page.inner_text("#map-read")


def test_maps_are_selected_and_read_by_keyboard(opened, explanation):
    page = opened(explanation)
    page.click("[data-role=encoder]")
    page.focus("#grid [data-layer='0'][data-head='0']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.inner_text("#large h3").startswith("Layer 2, head 2:")
    page.focus("#map")
    for _ in range(20):
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowLeft")
    weights = explanation.with_role("encoder")[1].weights[1]
    assert page.inner_text("#weight") == percent(weights[0, 0])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#weight") == percent(weights[1, 2])
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) != "none", "the focus must be visible"


def test_the_arithmetic_of_a_pair(opened, explanation):
    page = opened(explanation)
    page.select_option("#pick-role", "cross")
    page.select_option("#pick-head", "1,1")
    page.select_option("#pick-row", "2")
    page.select_option("#pick-column", "3")
    view = explanation.with_role("cross")[1]
    score = f"{view.scores[1, 2, 3]:.3f}".replace("-", "−")
    assert page.inner_text("#score") == score
    assert page.inner_text(".term.final").endswith(percent(view.weights[1, 2, 3]))
    assert f"÷ √{view.product.queries.shape[-1]}" in page.inner_text(".equation")
    q, k = view.product.queries[1, 2], view.product.keys[1, 3]
    page.focus(".strips")
    page.keyboard.press("ArrowRight")
    reading = page.inner_text("#feature").replace("−", "-")
    assert reading.startswith(f"number 2 of {len(q)}: {q[1]:.3f} × {k[1]:.3f} = ")
    rows = page.locator("#row-table tbody tr")
    assert rows.count() == len(explanation.source_tokens)
    for position in range(rows.count()):
        assert percent(view.weights[1, 2, position]) in rows.nth(position).inner_text()


def test_pointing_at_a_token_reads_its_alignment(opened, explanation):
    page = opened(explanation)
    page.hover("#ribbons [data-side=target][data-position='1']")
    row = explanation.alignment[1]
    reading = page.inner_text("#alignment-read")
    assert percent(row.max()) in reading
    assert explanation.source_tokens[int(row.argmax())].replace("▁", "␣") in reading
    position = int(explanation.alignment.max(axis=0).argmax())
    page.focus(f"#ribbons [data-side=source][data-position='{position}']")
    assert percent(explanation.alignment[:, position].max()) in page.inner_text("#alignment-read")


def test_the_search_is_shown_step_by_step(opened, explanation):
    page = opened(explanation)
    trace = explanation.search
    for number, step in enumerate(trace.steps):
        rows = page.locator("#step-table tbody tr")
        assert page.inner_text("#search-position") == f"step {number + 1} of {len(trace.steps)}"
        assert rows.count() == len(step)
        for position, hypothesis in enumerate(step):
            text = rows.nth(position).inner_text()
            assert f"{hypothesis.score:.4f}".replace("-", "−") in text
            names = {"kept": "● kept", "finished": "◆ finished", "unused": "○ not used"}
            assert names.get(hypothesis.outcome, "○ dropped") in text
        if number % 2:
            page.click("#next")
        else:
            page.focus("#play")
            page.keyboard.press("ArrowRight")
    assert page.inner_text("#search-position") == "end of the search"
    finished = page.locator("#finished-table tbody tr")
    assert finished.count() == len(trace.finished)
    assert "the result" in finished.nth(0).inner_text()
    assert f"{trace.finished[0].score:.4f}".replace("-", "−") in finished.nth(0).inner_text()
    assert page.locator(".tree path.best").count() == len(explanation.tokens) - 1
    page.keyboard.press("Home")
    assert page.inner_text("#search-position").startswith("step 1 ")


def test_the_play_button_plays_and_pauses(opened, explanation):
    page = opened(explanation)
    page.click("#play")
    page.locator("#search-position", has_text="step 2 ").wait_for()
    page.click("#play")
    assert "play" in page.inner_text("#play")


@pytest.mark.parametrize("name", BASELINES)
def test_a_missing_attention_is_stated(opened, name):
    page = opened(explain(small_translator(model=BASELINES[name]), SENTENCE))
    text = page.inner_text("main")
    assert ("This model has no attention" in text) == (name == "recurrent")
    assert page.locator("#cards li").count()
    assert page.locator("#step-table").count()


@pytest.mark.parametrize("decoding", [{"search": "sample"}, {"search": "greedy"}], ids=str)
def test_other_searches(opened, decoding):
    page = opened(explain(small_translator(**decoding), SENTENCE))
    text = {"sample": "sampled at random", "greedy": "beam size 1"}[decoding["search"]]
    assert text in page.inner_text("#search-text")


@pytest.mark.parametrize(
    "model", [{"similarity": "additive"}, {"attention_kind": "hard"}, {"position": "shaw"}], ids=str
)
def test_other_parts(opened, model):
    page = opened(explain(small_translator(model=model), SENTENCE))
    page.click("[data-role=encoder]")
    text = page.inner_text("#arithmetic")
    assert ("not the dot product" in text) == (model != {"attention_kind": "hard"})
    assert ("only the key with the best score" in text) == (model == {"attention_kind": "hard"})


def with_tokens(explanation, source, target):
    """The same numbers with other tokens."""
    tokens = [replace(token, token=target) for token in explanation.tokens]
    return replace(
        explanation,
        sentence=source,
        translation=target,
        source_tokens=(source,) * len(explanation.source_tokens),
        decoder_input=(target,) * len(explanation.decoder_input),
        tokens=tuple(
            OutputToken(token.token, token.probability, ((target, 0.1),)) for token in tokens
        ),
    )


def test_no_token_is_executed(opened, explanation):
    page = opened(with_tokens(explanation, HOSTILE, HOSTILE))
    assert page.inner_text("#sentence") == HOSTILE
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0


def test_right_to_left_scripts(opened, explanation):
    page = opened(with_tokens(explanation, "▁مرحبا", "▁日本🐎"))
    row = page.locator("#ribbons .row")
    assert row.nth(0).get_attribute("dir") == "rtl"
    assert row.nth(1).get_attribute("dir") == "ltr"
    first, second = (
        row.nth(0).locator(".chip").nth(position).bounding_box() for position in (0, 1)
    )
    assert first["x"] > second["x"], "the first token is on the right"
    assert page.locator("#cards .token").first.inner_text() == "␣日本🐎"


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_every_screen(opened, explanation, width, scheme):
    viewport = {"width": width, "height": 800}
    page = opened(explanation, viewport=viewport, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background, color = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    assert background != color


def test_a_sandboxed_frame_shows_the_page(browser, explanation):
    """A notebook shows it this way."""
    page = browser.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_content(explanation._repr_html_())
    inner = page.frame_locator("iframe")
    assert inner.locator("#cards li").first.inner_text()
    page.close()
    assert not errors


def test_the_reason_for_dropping_names_the_row_of_the_last_kept_hypothesis(opened):
    """A finished hypothesis takes a row too, so the third kept one may be in row 4."""
    explanation = explain(small_translator(seed=2, beam_size=3), SENTENCE)
    page = opened(explanation)
    is_shifted = False
    for step in explanation.search.steps:
        rows = page.locator("#step-table tbody tr")
        kept = [row for row, hypothesis in enumerate(step, 1) if hypothesis.outcome == "kept"]
        for row, hypothesis in enumerate(step):
            text = rows.nth(row).inner_text()
            if hypothesis.outcome == "dropped":
                assert f"its score is below row {kept[-1]}, the last row that is kept" in text
                is_shifted |= kept[-1] != 3
        page.click("#next")
    assert is_shifted, "choose another seed: no step of this search has a finished row above"


def test_the_header_counts_end_tokens_on_neither_side(opened, explanation):
    page = opened(explanation)
    source, target = len(explanation.source_tokens) - 1, len(explanation.tokens) - 1
    facts = page.inner_text("#facts")
    assert f"{source} source tokens, {target} output tokens (end tokens not counted)" in facts
