"""Does the page work in a browser: by mouse, by keyboard, without a network, without an error?

Driven are the real page and a real Chromium, offline. Where there is none, `.ci/run` installs it.
"""

import shutil
from dataclasses import replace

import pytest
from playwright.sync_api import sync_playwright

from dragoman import explain
from dragoman.explanation.explanation import Word
from explanation.explained import SENTENCE, small_translator
from small_models import RIVALS

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine"),
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
    """Opens an explanation; at the end nothing may have been asked of a network, and no error."""
    wrong, asked, pages = [], [], []

    def open_page(explanation, **options):
        path = explanation.save(tmp_path / "page.html")
        page = browser.new_page(**{"viewport": {"width": 1200, "height": 900}} | options)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert not wrong
    assert asked == [(tmp_path / "page.html").as_uri()] * len(pages)


@pytest.fixture(scope="module")
def explanation():
    found = explain(small_translator(seed=2, beam=3), SENTENCE)
    assert len(found.words) > 3, "a longer translation shows more"
    return found


def percent(share):
    """As the page writes a weight, which is rounded to a hundredth of a percent."""
    return f"{round(float(share) * 10_000) / 100:.2f} %"


def cell(page, row, column, shape):
    box = page.locator("#map").bounding_box()
    rows, columns = shape
    return (
        box["x"] + (column + 0.5) * box["width"] / columns,
        box["y"] + (row + 0.5) * box["height"] / rows,
    )


def test_words_and_alternatives_are_shown(opened, explanation):
    page = opened(explanation)
    cards = page.locator("#cards li")
    assert cards.count() == len(explanation.words)
    for place, word in enumerate(explanation.words):
        text = cards.nth(place).inner_text()
        assert word.token.replace("▁", "␣") in text
        assert f"{100 * word.probability:.2f} %" in text
        assert all(token.replace("▁", "␣") in text for token, _ in word.alternatives)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_a_map_is_enlarged_and_read_by_mouse(opened, explanation, kind):
    page = opened(explanation)
    page.click(f"[data-kind={kind}]")
    for look in explanation.of_kind(kind):
        for head in range(2):
            page.click(f"#grid [data-layer='{look.layer}'][data-head='{head}']")
            title = page.inner_text("#large h3")
            assert title == f"Layer {look.layer + 1}, head {head + 1}: {look.heads[head].job}"
            page.locator("#map").scroll_into_view_if_needed()
            weights = look.weights[head]
            for row, column in ((0, 0), (len(weights) - 1, 1), (2, weights.shape[1] - 1)):
                page.mouse.move(*cell(page, row, column, weights.shape))
                if look.mask[row, column]:
                    assert page.inner_text("#weight") == percent(weights[row, column])
                else:
                    assert "cannot see" in page.inner_text("#map-read")


def test_maps_are_chosen_and_read_by_keyboard(opened, explanation):
    page = opened(explanation)
    page.click("[data-kind=encoder]")
    page.focus("#grid [data-layer='0'][data-head='0']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.inner_text("#large h3").startswith("Layer 2, head 2:")
    page.focus("#map")
    for _ in range(20):
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowLeft")
    weights = explanation.of_kind("encoder")[1].weights[1]
    assert page.inner_text("#weight") == percent(weights[0, 0])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#weight") == percent(weights[1, 2])
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) != "none", "who has the focus must be seen"


def test_the_arithmetic_of_a_pair(opened, explanation):
    page = opened(explanation)
    page.select_option("#pick-kind", "cross")
    page.select_option("#pick-head", "1,1")
    page.select_option("#pick-row", "2")
    page.select_option("#pick-column", "3")
    look = explanation.of_kind("cross")[1]
    score = f"{look.scores[1, 2, 3]:.3f}".replace("-", "−")
    assert page.inner_text("#score") == score
    assert page.inner_text(".term.final").endswith(percent(look.weights[1, 2, 3]))
    assert f"÷ √{look.product.queries.shape[-1]}" in page.inner_text(".equation")
    q, k = look.product.queries[1, 2], look.product.keys[1, 3]
    page.focus(".strips")
    page.keyboard.press("ArrowRight")
    told = page.inner_text("#feature").replace("−", "-")
    assert told.startswith(f"number 2 of {len(q)}: {q[1]:.3f} × {k[1]:.3f} = ")
    rows = page.locator("#row-table tbody tr")
    assert rows.count() == len(explanation.source)
    for place in range(rows.count()):
        assert percent(look.weights[1, 2, place]) in rows.nth(place).inner_text()


def test_pointing_at_a_token_reads_its_alignment(opened, explanation):
    page = opened(explanation)
    page.hover("#ribbons [data-side=target][data-place='1']")
    row = explanation.alignment[1]
    told = page.inner_text("#alignment-read")
    assert percent(row.max()) in told
    assert explanation.source[int(row.argmax())].replace("▁", "␣") in told
    place = int(explanation.alignment.max(axis=0).argmax())
    page.focus(f"#ribbons [data-side=source][data-place='{place}']")
    assert percent(explanation.alignment[:, place].max()) in page.inner_text("#alignment-read")


def test_the_search_is_replayed_step_by_step(opened, explanation):
    page = opened(explanation)
    story = explanation.search
    for number, step in enumerate(story.steps):
        rows = page.locator("#step-table tbody tr")
        assert page.inner_text("#where") == f"step {number + 1} of {len(story.steps)}"
        assert rows.count() == len(step)
        for place, each in enumerate(step):
            text = rows.nth(place).inner_text()
            assert f"{each.score:.4f}".replace("-", "−") in text
            name = {"kept": "● kept", "ended": "◆ put away", "left": "○ left"}
            assert name.get(each.fate, "○ dropped") in text
        if number % 2:
            page.click("#on")
        else:
            page.focus("#play")
            page.keyboard.press("ArrowRight")
    assert page.inner_text("#where") == "the end"
    finals = page.locator("#final-table tbody tr")
    assert finals.count() == len(story.finalists)
    assert "the answer" in finals.nth(0).inner_text()
    assert f"{story.finalists[0].score:.4f}".replace("-", "−") in finals.nth(0).inner_text()
    assert page.locator(".tree path.answer").count() == len(explanation.words) - 1
    page.keyboard.press("Home")
    assert page.inner_text("#where").startswith("step 1 ")


def test_play_plays(opened, explanation):
    page = opened(explanation)
    page.click("#play")
    page.locator("#where", has_text="step 2 ").wait_for()
    page.click("#play")
    assert "play" in page.inner_text("#play")


@pytest.mark.parametrize("name", RIVALS)
def test_what_a_model_does_not_have_is_said(opened, name):
    page = opened(explain(small_translator(model=RIVALS[name]), SENTENCE))
    text = page.inner_text("main")
    assert ("This model has no attention" in text) == (name == "recurrent")
    assert page.locator("#cards li").count()
    assert page.locator("#step-table").count()


@pytest.mark.parametrize("decoding", [{"search": "sample"}, {"search": "greedy"}], ids=str)
def test_other_searches(opened, decoding):
    page = opened(explain(small_translator(**decoding), SENTENCE))
    told = {"sample": "drawn by chance", "greedy": "a beam of one"}[decoding["search"]]
    assert told in page.inner_text("#search-words")


@pytest.mark.parametrize(
    "model", [{"similarity": "additive"}, {"reach": "hard"}, {"position": "shaw"}], ids=str
)
def test_other_parts(opened, model):
    page = opened(explain(small_translator(model=model), SENTENCE))
    page.click("[data-kind=encoder]")
    text = page.inner_text("#arithmetic")
    assert ("not the dot product" in text) == (model != {"reach": "hard"})
    assert ("only the best key weighs" in text) == (model == {"reach": "hard"})


def with_tokens(explanation, source, target):
    """The same numbers under other words."""
    words = [replace(word, token=target) for word in explanation.words]
    return replace(
        explanation,
        sentence=source,
        translation=target,
        source=(source,) * len(explanation.source),
        read=(target,) * len(explanation.read),
        words=tuple(Word(each.token, each.probability, ((target, 0.1),)) for each in words),
    )


def test_no_token_runs(opened, explanation):
    page = opened(with_tokens(explanation, HOSTILE, HOSTILE))
    assert page.inner_text("#sentence") == HOSTILE
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0


def test_scripts_that_run_to_the_left(opened, explanation):
    page = opened(with_tokens(explanation, "▁مرحبا", "▁日本🐎"))
    row = page.locator("#ribbons .row")
    assert row.nth(0).get_attribute("dir") == "rtl"
    assert row.nth(1).get_attribute("dir") == "ltr"
    first, second = (row.nth(0).locator(".chip").nth(place).bounding_box() for place in (0, 1))
    assert first["x"] > second["x"], "the first word stands on the right"
    assert page.locator("#cards .token").first.inner_text() == "␣日本🐎"


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_every_screen(opened, explanation, width, scheme):
    viewport = {"width": width, "height": 800}
    page = opened(explanation, viewport=viewport, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper, ink = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    assert paper != ink


def test_a_frame_without_any_right_shows_it_too(browser, explanation):
    """As a notebook does."""
    page = browser.new_page()
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.set_content(explanation._repr_html_())
    inner = page.frame_locator("iframe")
    assert inner.locator("#cards li").first.inner_text()
    page.close()
    assert not wrong
