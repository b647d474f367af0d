"""The page of an adaptation: everything is on it, text is escaped, and it fits every screen."""

import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from dragoman.adaptation.gate import TestOutputs
from dragoman.adaptation.report import changes
from dragoman.adaptation.report.html import render
from dragoman.adaptation.report.model import AdaptationReport, CurvePoint
from dragoman.text.glossary import Glossary
from support.adaptation_report import report

CHROMIUM = shutil.which("chromium")
HOSTILE = '</td><script>broken()</script><img src=x onerror="broken()">'


def test_a_report_is_read_as_it_was_written():
    written = report()
    assert AdaptationReport.model_validate_json(written.model_dump_json()) == written


def test_the_page_says_why_a_model_was_refused():
    page = render(report(accepted=False), "dragoman models list adapted")
    assert "Refused" in page
    assert "p = 0.001; expected a higher BLEU" in page
    assert "Accepted" not in page
    assert "Accepted" in render(report(), "dragoman serve adapted")


def test_the_page_has_the_figures_of_every_section():
    page = render(report(), "dragoman serve adapted")
    for text in ("31.2 → 38.9", "(+7.7)", "24,789", "29.7 min", "bouton", "−12.5", "+41.5"):
        assert text.replace("−", "-") in page, text


def test_a_general_bleu_of_zero_is_drawn():
    point = CurvePoint(step=10, bleu=20.0, general_bleu=0.0, is_best=True)
    page = render(report().model_copy(update={"curve": (point,)}), "dragoman serve adapted")
    assert "update 10: BLEU 0.0" in page


def test_text_of_the_corpus_is_escaped():
    page = render(report(text=HOSTILE), "dragoman serve adapted")
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page


OUTPUTS = TestOutputs(
    sources=["open the folder", "close the folder", "read the file", "fine"],
    references=["ouvrez le dossier", "fermez le dossier", "lisez le fichier", "bien"],
    parent=["ouvrez le classeur", "fermez le classeur", "lisez le fichier", "bien"],
    candidate=["ouvrez le dossier", "fermez le dossier", "lisez le document", "bien"],
)


def test_examples_are_sorted_by_their_change_and_unchanged_ones_are_left_out():
    examples = changes.example_changes({"in_domain": OUTPUTS})
    assert [change.line for change in examples][-1] == 3
    assert len(examples) == 3
    assert {change.line for change in changes.improved(examples)} == {1, 2}
    assert [change.line for change in changes.worse(examples)] == [3]


def test_terms_of_the_glossary_are_counted_where_the_source_has_them():
    glossary = Glossary({"folder": "dossier", "file": "fichier", "never": "jamais"})
    counts = {
        term.term: (term.expected, term.before, term.after)
        for term in changes.glossary_terms(glossary, OUTPUTS)
    }
    assert counts == {"folder": (2, 0, 2), "file": (1, 1, 0)}


def test_words_are_learned_or_lost_if_several_sentences_say_so():
    words = changes.word_changes(OUTPUTS)
    assert [word.term for word in words.learned] == ["dossier"]
    assert words.lost == ()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_page_fits_every_screen_and_is_accessible(tmp_path):
    """Desktop and phone, light and dark: no sideways scrolling, no script, no violation of axe."""
    path = tmp_path / "report.html"
    path.write_text(render(report(text=f"long{'word' * 60} {HOSTILE}"), "dragoman serve adapted"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for width, scheme in ((1280, "light"), (1280, "dark"), (360, "light"), (360, "dark")):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            requests = []
            page.on("request", lambda request, urls=requests: urls.append(request.url))
            page.goto(path.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert requests == [path.as_uri()]
            violations = Axe().run(page).response["violations"]
            assert not violations, [item["id"] for item in violations]
            page.close()
        browser.close()
