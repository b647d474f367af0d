"""The report page: what it says, and how it looks on a phone, on a desktop and in dark mode."""

import shutil

import pytest

from dragoman.corpus.alignment import Shift
from dragoman.corpus.counts import Example, SplitSizes
from dragoman.corpus.report.advice import advice, share
from dragoman.corpus.report.html import render
from dragoman.corpus.report.model import (
    CorpusReport,
    Detected,
    Foreign,
    Histograms,
    Report,
    SideVocabulary,
    VocabularyReport,
)
from dragoman.corpus.stages.split import LENGTH_EDGES, RATIO_EDGES
from dragoman.recipe.schema import LanguagesRecipe

CHROMIUM = shutil.which("chromium")
NEXT = "dragoman train 'my recipe.yaml'"


def make_report(train=1_234_567_890, shift=None):
    """Make a report with wide numbers, a long file name and a long word."""
    side = SideVocabulary(
        size=32_000, tokens=12_345_678_901, tokens_per_word=1.234, unknown=0,
        unknown_share=0.0, used=31_000, rare=1_000,
    )  # fmt: skip
    corpus = CorpusReport(
        name="a/very/long/folder/name/of/a/corpus/file-00001.en + a/very/long/folder/name/file.de",
        split="train",
        rows=train + 1_000_000,
        kept=train,
        dropped={"length ratio too large": 999_995, "unreadable: not UTF-8": 5},
        examples={"length ratio too large": [Example(7, "Donaudampfschiff" * 20, "<b>x</b>")]},
        rejected_rows={"unreadable: not UTF-8": [1, 22, 333, 4_444, 55_555]},
        dropped_languages={"fr → de": 3},
        shift=shift,
    )
    lengths = list(range(len(LENGTH_EDGES) + 1))
    return Report(
        languages=LanguagesRecipe(source="en", target="de"),
        corpora=[corpus],
        splits=SplitSizes(train=train, validation=2_000, test=2_000),
        statistics=Histograms(
            source_words=10**10,
            source_lengths=lengths,
            target_words=10**10,
            target_lengths=lengths,
            ratios=list(range(len(RATIO_EDGES) + 1)),
            length_edges=LENGTH_EDGES.tolist(),
            ratio_edges=RATIO_EDGES.tolist(),
        ),
        detected=Detected(source={"en": 2_000}, target={"de": 1_990, "unsure": 10}),
        foreign=Foreign(source=0, target=0),
        vocabulary=VocabularyReport(
            pairs=train,
            too_long=0,
            augmented=0,
            annotated=0,
            longest=256,
            sampled_pairs=500_000,
            source=side,
            target=side,
        ),
        samples=[("A dog.", "Ein Hund.")],
    )


def test_a_good_corpus_has_no_warning():
    page = render(make_report(), NEXT)
    assert '<div class="advice good"><b>No problems found.</b>' in page
    assert "dragoman train &#x27;my recipe.yaml&#x27;" in page


def test_advice_is_a_warning():
    report = make_report(train=100, shift=Shift(17_000, -1))
    messages = advice(report)
    assert messages[0].endswith("Look there for a line that is missing or was cut in two.")
    assert "from about line 17,000 on" in messages[0]
    assert "the target line 1 line further up" in messages[0]
    page = render(report, NEXT)
    assert '<div class="advice"><b>What to check</b>' in page


def test_text_of_the_corpus_is_escaped():
    assert "<b>x</b>" not in render(make_report(), NEXT)


def test_a_report_is_read_as_it_was_written():
    report = make_report()
    assert Report.model_validate_json(report.to_json()) == report


def test_shares_are_rounded_honestly():
    assert share(0, 10) == "0.0 %"
    assert share(1, 100_000) == "0.001 %"
    assert share(99_999, 100_000) == "99.999 %"


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1200])
def test_the_page_does_not_scroll_sideways(tmp_path, width, scheme):
    from playwright.sync_api import sync_playwright

    path = tmp_path / "report.html"
    path.write_text(render(make_report(), NEXT), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(item => item.open = true)")
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        background, warning = page.evaluate(
            """() => [
                getComputedStyle(document.querySelector('.advice')).backgroundColor,
                getComputedStyle(document.documentElement).getPropertyValue('--warn').trim(),
            ]"""
        )
        red, green, _ = (int(value) for value in background[4:-1].split(","))
        assert green > red, f"{background} is not green; the warning color is {warning}"
        browser.close()
