"""The documentation site builds without a warning, loads nothing from elsewhere, is readable."""

import functools
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from axe_playwright_python.sync_playwright import Axe
from docs_build import reference
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
CONFIGURATION = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
PAGES = (
    "",
    "tutorial/",
    "guides/weblate/",
    "lectures/nlu/",
    "lab/",
    "playground/",
    "equations/",
    "reference/recipe/",
)
EXTERNAL = re.compile(r"<(?:script|link|img|iframe)[^>]*\s(?:src|href)=\"?(https?:)?//[^\">\s]+")


def pages_of(entries):
    """The files that the navigation names."""
    for entry in entries:
        for content in entry.values():
            yield from [content] if isinstance(content, str) else pages_of(content)


def test_every_page_is_in_the_navigation():
    folder = ROOT / CONFIGURATION["docs_dir"]
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}
    assert set(pages_of(CONFIGURATION["nav"])) == files


def test_the_reference_is_that_of_the_code():
    for name, page in (
        ("recipe.md", reference.recipe_page()),
        ("commands.md", reference.commands_page()),
    ):
        stored = (reference.FOLDER / name).read_text(encoding="utf-8")
        assert stored == page, "type: python -m docs_build.reference"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "zensical.toml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    for name in ("docs_build", "src"):
        (folder / name).symlink_to(ROOT / name)
    built = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict"],
        cwd=folder, capture_output=True, text=True, env={"PYTHONPATH": str(folder), "PATH": ""},
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    assert "No issues found" in built.stdout + built.stderr
    return folder / CONFIGURATION["site_dir"]


@pytest.mark.slow
def test_the_site_is_built_strictly_and_loads_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(list(pages_of(CONFIGURATION["nav"])))
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not EXTERNAL.search(text), page
        prose = re.sub("(?s)<(pre|code).*?</", "", text)
        # An equation that was not converted would still have its backslashes.
        assert not re.search(r"\$[^$<]*\\[a-z]+[^$<]*\$", prose), page
        # An item of a list that became a part of the paragraph before it would have its number.
        assert not re.search(r"(?m)^\d+\. ", prose), page
    assert (site / "lectures" / "nlu" / "index.html").read_text(encoding="utf-8").count("<math") > 9


class Links(HTMLParser):
    """The links of a page, and the places in it that a link can name."""

    def __init__(self, page):
        super().__init__()
        self.targets, self.places = set(), set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, _tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.targets.add(value)
            elif name in ("id", "name") and value:
                self.places.add(value)


@pytest.mark.slow
def test_every_link_leads_to_a_file_and_a_place_in_it(site):
    pages = {page: Links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    broken = []
    for page, links in pages.items():
        for target in links.targets:
            path, _, place = target.partition("#")
            if re.match(r"[a-z]+:", path):
                continue  # Another server, or data in the page.
            file = (page.parent / unquote(path)).resolve() if path else page
            file = file / "index.html" if file.is_dir() else file
            is_place = not place or file not in pages or unquote(place) in pages[file].places
            if not file.is_file() or not is_place:
                broken.append((page.relative_to(site).as_posix(), target))
    assert not broken
    assert sum(len(links.targets) for links in pages.values()) > 1_000


@pytest.fixture(scope="module")
def address(site):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


SCREENS = [(1280, "light"), (1280, "dark"), (390, "dark")]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_pages_can_be_read_on_every_screen(address, width, scheme):
    check_pages(address, PAGES, width, scheme)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("width", "scheme"), [*SCREENS, (390, "light")])
def test_all_pages_can_be_read_on_every_screen(site, address, width, scheme):
    files = site.rglob("index.html")
    names = sorted(file.parent.relative_to(site).as_posix() + "/" for file in files)
    assert len(names) >= len(list(pages_of(CONFIGURATION["nav"])))
    check_pages(address, names, width, scheme)


def check_pages(address, names, width, scheme):
    """Open the pages, and collect what is wrong with any of them."""
    problems = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page, requests = context.new_page(), []
        page.on("request", lambda request: requests.append(request.url))
        for name in names:
            assert page.goto(address + name).ok
            if page.locator("h1").count() != 1:
                problems.append((name, "not one h1"))
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                problems.append((name, "wider than the screen"))
            found = Axe().run(page, options={"resultTypes": ["violations"]}).response
            problems += [
                (name, one["id"], one["nodes"][0]["html"][:200])
                for one in found["violations"]
                if one["impact"] in ("serious", "critical")
            ]
        assert not problems
        assert all(url.startswith((address, "data:")) for url in requests), requests
        browser.close()
