"""The dashboard in a real browser: while a model trains, and as one file.

The pages must have no errors in the console, ask no other server, and pass axe-core.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

from dragoman.dashboard.run_data import read_heading
from dragoman.dashboard.samples import append_samples
from dragoman.dashboard.server import DashboardServer
from dragoman.training.events import UpdateCompleted
from dragoman.training.journal import JOURNAL, Journal
from dragoman.workflow.dashboard import write_dashboard
from support import digits
from support.dashboard import HOSTILE, sample, write_run

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
DARK = {"color_scheme": "dark"}
# Machines are shared: a test may wait, but it must not fail because of others.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser):
    """Opens addresses; at the end there must be no error and no request to another server."""
    errors, requests, contexts = [], [], []

    def open_page(address, **options):
        context = browser.new_context(**{"viewport": {"width": 1240, "height": 800}} | options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append((address, request.url)))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not errors
    assert [url for own, url in requests if not url.startswith(own)] == []


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of one corpus; in the second, a sentence changes and an update was skipped."""
    folder = tmp_path_factory.mktemp("runs")
    first, second = write_run(folder / "first"), write_run(folder / "second", steps=60)
    append_samples(second, sample(70, "1 2 3"))
    with Journal(second / JOURNAL, 100) as journal:
        journal.write("validation", 70, loss=1.0, bleu=25.0, is_best=True, general_bleu=20.0)
    return first, second


@pytest.fixture(scope="module")
def overlay(runs, tmp_path_factory):
    return write_dashboard(runs, tmp_path_factory.mktemp("page") / "both.html").as_uri()


@pytest.mark.parametrize("options", [{}, PHONE, DARK], ids=["desktop", "phone", "dark"])
def test_a_page_of_two_runs_is_accessible_on_all_screens(opened, overlay, options):
    page = opened(overlay, **options)
    page.click("summary")
    page.focus("#chart-loss")
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.locator("#chart-loss path.line").count() == 4
    assert page.locator("#columns canvas").count() == 2
    assert page.evaluate("window.broken") is None
    assert HOSTILE in page.inner_text("#pair")


def test_values_are_read_by_mouse_and_by_keyboard(opened, overlay):
    page = opened(overlay)
    legend = page.locator("#legend-loss")
    expect(legend).to_contain_text("first, training 0.300")  # 9 / 30, the newest value.
    box = page.locator("#chart-loss").bounding_box()
    page.mouse.move(box["x"] + 54, box["y"] + 50)  # The first update is at the left end.
    expect(legend).to_contain_text("first, training 9.000")
    expect(page.locator("#legend-bleu")).to_contain_text("second, validation 12.5")
    page.mouse.move(0, 0)
    expect(legend).to_contain_text("first, training 0.300")
    page.focus("#chart-bleu")
    page.keyboard.press("Home")
    expect(page.locator("#chart-reading")).to_contain_text("Validation BLEU, values nearest to")
    page.click("[data-axis=seconds]")
    expect(page.locator("#chart-loss")).to_contain_text("training time (s)")


def test_the_reader_moves_through_the_validations(opened, overlay):
    page = opened(overlay)
    second = page.locator("#columns .column").nth(1)
    expect(second).to_contain_text("translation at update 70")
    expect(second.locator(".translation")).to_have_text("1 2 3")
    page.focus("#step")
    page.keyboard.press("ArrowLeft")
    expect(second.locator(".translation")).to_have_text("3 2 1")
    expect(page.locator("#step-text")).to_have_text("update 60")
    page.click("#newest")
    expect(page.locator("#step-text")).to_have_text("update 70")
    page.locator("#history .column").nth(1).locator("button").last.click()
    expect(page.locator("#step-text")).to_have_text("update 60")
    page.locator("#columns canvas").first.hover(position={"x": 1, "y": 1})
    expect(page.locator(".map-read").first).to_contain_text("25.0 % of the attention goes to 1")


def test_the_page_of_a_training_is_accessible_and_hears_of_its_end(opened, runs):
    server = DashboardServer(runs[1], read_heading(runs[1]), step=60)
    with server.serving():
        server.show(UpdateCompleted(60, 380.0, 95.0))
        page = opened(server.address, **PHONE)
        expect(page.locator("#status-numbers")).to_contain_text("update 60 of at most 12")
        expect(page.locator("#columns canvas")).to_be_visible()
        results = Axe().run(page)
        assert results.violations_count == 0, results.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    expect(page.locator("#status-text")).to_contain_text("Training has ended")


def test_a_training_is_watched_from_its_first_update_to_its_end(opened, tmp_path):
    training = {"steps": 4000, "minutes": 0.2, "validate_every": 30, "save_every": 1000}
    recipe = digits.write(tmp_path, training=training)
    command = [sys.executable, "-m", "dragoman", "train", str(recipe), "--dashboard"]
    log = tmp_path / "log.txt"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=os.environ | {"COLUMNS": "200"}
        )
    try:
        address = wait_for_address(process, log)
        page = opened(address)
        expect(page.locator("#status-text")).to_have_text("Training")
        expect(page.locator("#chart-loss path.line.training")).to_be_visible()
        expect(page.locator("#columns canvas")).to_be_visible()
        first = page.inner_text("#step-text")
        expect(page.locator("#step-text")).not_to_have_text(first)  # It follows the training.
        expect(page.locator("#status-text")).to_contain_text("Training has ended")
        assert process.wait(60) == 0, log.read_text()
        newest = page.inner_text("#step-text")
    finally:
        process.kill()
        process.wait()
    written = opened((tmp_path / "run" / "dashboard.html").as_uri())
    expect(written.locator("#step-text")).to_have_text(newest)
    expect(written.locator("#headings")).to_contain_text("FLOPs")
    source = written.inner_text("#pair dd >> nth=0")
    assert source in (tmp_path / "prepared" / "validation.source").read_text().splitlines()
    assert source not in log.read_text(), "the text of users is in the run folder only"


def wait_for_address(process, log):
    """Wait until the command has printed the address of its page."""
    while process.poll() is None:
        if match := re.search(r"dashboard: (http://127\.0\.0\.1:\d+/\S+/)", log.read_text()):
            return match[1]
    raise AssertionError(log.read_text())
