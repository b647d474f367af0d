"""Do clients of LibreTranslate and Apertium APy, unpatched, work with a live server?

`libretranslatepy`, `deep-translator` and `curl` run in every test run. What Weblate and the clients
for Node send was recorded byte by byte; every test run sends it again. The clients themselves run
with `make proof`, in environments that these commands make:

    python3.11 tests/support/weblate_environment.py WEBLATE 5.14.3
    python3.13 tests/support/weblate_environment.py WEBLATE2 2026.10.1
    npm install --prefix NODE libretranslate-ts@0.5.12 translate@3.1.0
    export DRAGOMAN_WEBLATE=WEBLATE:WEBLATE2 DRAGOMAN_NODE_CLIENTS=NODE
    pytest -m long tests/serving/test_real_clients_libre.py
"""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from deep_translator import LibreTranslator
from libretranslatepy import LibreTranslateAPI

from support.deepl_server import live_server
from support.serving import write_stub

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).parent / "recorded"
PAIRS = [("en", "de"), ("de", "en"), ("en", "zh-Hans")]
WEBLATE = [path for path in os.environ.get("DRAGOMAN_WEBLATE", "").split(os.pathsep) if path]
NODE = os.environ.get("DRAGOMAN_NODE_CLIENTS", "")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose models write in capitals."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [
        write_stub(folder / f"{source}-{target}", source=source, target=target, function="upper")
        for source, target in PAIRS
    ]
    with live_server(folder, *runs) as live:
        yield live.url


def test_libretranslatepy(url: str) -> None:
    api = LibreTranslateAPI(url, "any")
    assert api.translate("Hello & welcome", "en", "de") == "HELLO & WELCOME"
    assert api.translate("This is a house in the city.", "auto", "de").isupper()
    assert api.detect("Das ist ein Haus, und das Haus ist gut.")[0]["language"] == "de"
    languages = {language["code"]: language["targets"] for language in api.languages()}
    assert set(languages) == {"en", "de", "zh-Hans"}
    assert "de" in languages["en"]


def test_deep_translator(url: str) -> None:
    translator = LibreTranslator(source="en", target="de", api_key="any", custom_url=f"{url}/")
    assert translator.translate("Hello wörld") == "HELLO WÖRLD"
    assert translator.translate_batch(["one thing", "two"]) == ["ONE THING", "TWO"]


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
class TestCurl:
    """The four encodings, and files."""

    def curl(self, *arguments: str) -> bytes:
        command = ["curl", "--silent", "--show-error", "--max-time", "60", *arguments]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def test_four_encodings(self, url: str) -> None:
        fields = {"q": "Hello wörld", "source": "en", "target": "de"}
        address = f"{url}/translate"
        query = "q=Hello+w%C3%B6rld&source=en&target=de"
        forms = [part for name, value in fields.items() for part in ("-F", f"{name}={value}")]
        encoded = [
            part
            for name, value in fields.items()
            for part in ("--data-urlencode", f"{name}={value}")
        ]
        answers = [
            self.curl(address, "--json", json.dumps(fields)),
            self.curl(address, *encoded),
            self.curl(address, *forms),
            self.curl("-X", "POST", f"{address}?{query}"),
            self.curl(f"{address}?{query}"),
        ]
        assert [json.loads(answer)["translatedText"] for answer in answers] == ["HELLO WÖRLD"] * 5

    def test_a_pair_with_an_unescaped_bar(self, url: str) -> None:
        # As OmegaT sends it.
        query = "q=Hello+world&markUnknown=no&langpair=en|de&key="
        answer = json.loads(self.curl(f"{url}/translate?{query}"))
        assert answer["responseData"]["translatedText"] == "HELLO WORLD"

    def test_a_document(self, url: str, tmp_path: Path) -> None:
        document = tmp_path / "note.txt"
        document.write_text("Hello world.\nSecond line.\n")
        fields = ["-F", "source=en", "-F", "target=de"]
        answer = self.curl(f"{url}/translate_file", "-F", f"file=@{document}", *fields)
        link = json.loads(answer)["translatedFileUrl"]
        assert link.startswith(url)
        assert self.curl(link) == b"HELLO WORLD.\nSECOND LINE.\n"


def replay(url: str, name: str) -> dict[str, object] | list[dict[str, object]]:
    """Send the recorded bytes; return the JSON of the answer."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall((RECORDED / name).read_bytes())
        received = b""
        while b"\r\n\r\n" not in received:
            received += connection.recv(1 << 16)
        head, _, body = received.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        assert status.startswith("HTTP/1.1 200"), received
        headers = dict(line.lower().split(": ", 1) for line in lines)
        assert headers["content-type"].startswith("application/json")
        assert "content-encoding" not in headers
        while len(body) < int(headers["content-length"]):
            body += connection.recv(1 << 16)
    return json.loads(body)


def recorded_requests(suffix: str) -> list[str]:
    names = sorted(path.name for path in RECORDED.glob(f"*-{suffix}.http"))
    assert names, suffix
    return names


@pytest.mark.parametrize("name", recorded_requests("translate"))
def test_recorded_translations(url: str, name: str) -> None:
    """A string gives a string, a list gives a list of the same length."""
    answer = replay(url, name)
    head, _, body = (RECORDED / name).read_bytes().decode().partition("\r\n\r\n")
    texts = json.loads(body)["q"] if "json" in head else ["one"]
    text = answer["translatedText"]
    if "json" in head and isinstance(texts, list):
        assert [*map(str.lower, text)] == [*map(str.lower, texts)]
        assert len(answer["detectedLanguage"]) == len(texts)
    else:
        assert text.startswith("HELLO")
        assert answer["detectedLanguage"] == {"confidence": 100, "language": "en"}


@pytest.mark.parametrize("name", recorded_requests("languages"))
def test_recorded_languages(url: str, name: str) -> None:
    answer = replay(url, name)
    assert {"en", "de", "zh-Hans"} == {language["code"] for language in answer}


@pytest.mark.parametrize("name", recorded_requests("detect"))
def test_recorded_detections(url: str, name: str) -> None:
    assert replay(url, name)[0]["language"] == "de"


@pytest.mark.parametrize("name", recorded_requests("pairs"))
def test_recorded_lists_of_pairs(url: str, name: str) -> None:
    answer = replay(url, name)
    pairs = {(pair["sourceLanguage"], pair["targetLanguage"]) for pair in answer["responseData"]}
    assert {("en", "de"), ("de", "en"), ("en", "zh_Hans")} <= pairs


@pytest.mark.parametrize("name", recorded_requests("langpair"))
def test_recorded_requests_to_apertium(url: str, name: str) -> None:
    answer = replay(url, name)
    assert answer["responseStatus"] == 200
    assert answer["responseData"]["translatedText"].isupper()


NODE_SCRIPT = """
const { libreTranslate } = require("libretranslate-ts");
(async () => {
  const url = process.argv[2];
  libreTranslate.setApiEndpoint(url);
  libreTranslate.setApiKey("any");
  const answers = [
    await libreTranslate.translate("Hello world", "en", "de", 2),
    await libreTranslate.detect("Das ist gut und schön"),
    await libreTranslate.listLanguages(),
    await libreTranslate.translate("Hello world", "en", "xx"),
  ];
  const translate = (await import("translate")).default;
  Object.assign(translate, { engine: "libre", url: url + "/translate", key: "any", from: "en" });
  answers.push(await translate("Hello world", "de"));
  console.log(JSON.stringify(answers));
})();
"""


@pytest.mark.long
@pytest.mark.skipif(not NODE, reason="needs DRAGOMAN_NODE_CLIENTS; see the beginning of this file")
def test_clients_for_node(url: str) -> None:
    script = Path(NODE) / "clients.cjs"
    script.write_text(NODE_SCRIPT)
    command = ["node", str(script), url]
    output = subprocess.run(command, check=True, capture_output=True, timeout=120).stdout
    translated, detected, languages, refused, other = json.loads(output)
    assert translated["translatedText"] == "HELLO WORLD"
    assert len(translated["alternatives"]) == 2
    assert (detected["language"], detected["confidence"]) == ("de", 100)
    assert {"en", "de"} <= {language["code"] for language in languages}
    assert refused["error"] == "xx is not supported"
    assert other == "HELLO WORLD"


@pytest.mark.long
@pytest.mark.skipif(not WEBLATE, reason="needs DRAGOMAN_WEBLATE; see the beginning of this file")
@pytest.mark.parametrize("folder", WEBLATE)
@pytest.mark.parametrize(
    "service",
    [
        "libretranslate.LibreTranslateTranslation",
        "libretranslate.LTEngineTranslation",
        "apertium.ApertiumAPYTranslation",
    ],
)
def test_weblate(url: str, folder: str, service: str) -> None:
    """The form for settings accepts the server; placeholders survive; a full batch is answered."""
    module, cls = service.split(".")
    (source,) = Path(folder).glob(f"lib/python*/site-packages/weblate/machinery/{module}.py")
    if f"class {cls}" not in source.read_text():
        pytest.skip("this release of Weblate does not have this class")
    command = [f"{folder}/bin/python", ROOT / "tests/support/weblate_client.py", url, service]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    settings, languages, *translations, batch = steps
    assert settings["is_valid"], settings["errors"]
    assert languages["pair"] == ["en", "de"]
    assert len(translations) == 13
    for step in translations:
        text = step["translation"]
        assert all(value in text for value in step["placeholders"]), step
        # Nothing is left of what Weblate put in their place.
        assert "[X" not in text.replace(step["text"], ""), step
        assert text.upper() == step["text"].upper()
    assert len(batch["translations"]) == batch["size"]
    assert all(
        row == [f"%d FILE NUMBER {n}", f"%d FILES NUMBER {n}"]
        for n, row in enumerate(batch["translations"])
    )
