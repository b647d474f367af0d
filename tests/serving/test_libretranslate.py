"""Does the server answer LibreTranslate's clients as they need it?

Each test is a row of the tables in the contract: what a client sends, and what it breaks without.
"""

import json
import socket
import time
from types import SimpleNamespace
from typing import get_args
from urllib.parse import parse_qs, quote, quote_plus, unquote, urlencode, urlsplit

import httpx
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from dragoman.serving.apis import deeplx, libretranslate
from dragoman.serving.apis.libretranslate_request import base_url
from dragoman.serving.interface import ErrorKind, Limits, ServerSettings, ServiceError, TextResult
from support.deepl_server import live_server
from support.serving import write_stub

BASE = {"q": "Hello", "source": "en", "target": "de"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose models write in capitals; it goes from German to Chinese through English."""
    folder = tmp_path_factory.mktemp("libre")
    runs = [
        write_stub(folder / f"{source}-{target}", source=source, target=target, function="upper")
        for source, target in (("en", "de"), ("de", "en"), ("en", "zh-Hans"), ("fr", "es"))
    ]
    with live_server(folder, *runs) as live:
        yield live


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=server.url, timeout=60) as http:
        yield http


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A server that requires keys, and has small limits."""
    folder = tmp_path_factory.mktemp("locked")
    run = write_stub(folder / "en-de", function="upper")
    limits = Limits(texts=3, characters=10, body_bytes=1000)
    with live_server(folder, run, requires_keys=True, limits=limits) as live:
        yield live


@pytest.fixture(scope="module")
def visitor(locked):
    with httpx.Client(base_url=locked.url, timeout=60) as http:
        yield http


@pytest.fixture(scope="module")
def key(locked):
    return locked.context.state.add_key("test", ["translate", "suggest", "documents"], 0, 0)


# /translate: what clients send.


def translate(client, **fields):
    """Send JSON; return the answer."""
    response = client.post("/translate", json=BASE | fields)
    assert response.status_code == 200, response.text
    return response.json()


def refusal(response, status=400):
    """Check an error of LibreTranslate; return its message."""
    assert response.status_code == status, response.text
    (name,) = response.json()
    assert name == "error"
    return response.json()["error"]


def test_weblate(client):
    """A list, also of one text, gives a list; no format, an empty key."""
    headers = {
        "Accept": "application/json; charset=utf-8",
        "Referer": "https://weblate.example.com",
        "User-Agent": "Weblate/5.14.3",
    }
    for texts in (["test"], ["one", "two", "three"]):
        body = {"api_key": "", "q": texts, "source": "en", "target": "de"}
        answer = client.post("/translate", json=body, headers=headers)
        assert answer.status_code == 200
        assert answer.json()["translatedText"] == [text.upper() for text in texts]
        assert len(answer.json()["detectedLanguage"]) == len(texts)


def test_weblate_engine_with_a_string(client):
    body = {"api_key": "", "q": "test", "source": "en", "target": "de"}
    assert client.post("/translate", json=body).json()["translatedText"] == "TEST"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Well-formed XML: the tags are placeholders too.
        ("Use [X4X]bold[X11X] for [X120X].", "USE [X4X]BOLD[X11X] FOR [X120X]."),
        # Not well-formed: tags and entities are plain text.
        ("Use <b>bold</b> & <i>more</i>", "USE <b>BOLD</b> & <i>MORE</i>"),
        ("Use &amp; and %(name)s", "USE &amp; AND %(name)s"),
    ],
)
def test_placeholders_of_weblate(client, text, expected):
    assert translate(client, q=[text])["translatedText"] == [expected]


def test_mastodon(client):
    """A list in HTML; the key may be null; the detected language of each text is read."""
    texts = [
        '<p>This is my cat <span translate="no">:cat_photo:</span> in the house</p>',
        "This is from AT&amp;T &lt;b&gt; in the city",
    ]
    expected = [
        '<p>THIS IS MY CAT <span translate="no">:cat_photo:</span> IN THE HOUSE</p>',
        "THIS IS FROM AT&amp;T &lt;b&gt; IN THE CITY",
    ]
    fields = {"q": texts, "source": "auto", "format": "html", "api_key": None}
    answer = translate(client, **fields)
    assert answer["translatedText"] == expected
    assert [language["language"] for language in answer["detectedLanguage"]] == ["en", "en"]
    named = translate(client, **fields | {"source": "en"})
    assert named["detectedLanguage"] == [{"confidence": 100, "language": "en"}] * 2


@pytest.mark.parametrize("tag", sorted(libretranslate.IGNORED_TAGS))
def test_elements_that_are_not_translated(client, tag):
    text = f"<p>Hello <{tag}>some text</{tag}> world</p>" if tag != "embed" else "<p>Hello</p>"
    expected = text.replace("Hello", "HELLO").replace("world", "WORLD")
    assert translate(client, q=text, format="html")["translatedText"] == expected


def test_wagtail(client):
    answer = translate(client, q=["<b>a</b>"], format="html", api_key="k")
    assert answer["translatedText"] == ["<b>A</b>"]


def test_json_with_a_string(client):
    """libretranslate-ts, SearXNG, Subtitle Edit, i18n-ally, npm translate, Dialect."""
    answer = translate(client, alternatives=3)
    assert answer["translatedText"] == "HELLO"
    assert answer["alternatives"] == ["HELLO (1)", "HELLO (2)", "HELLO (3)"]
    assert "alternatives" not in translate(client)
    automatic = translate(client, q="This is a house in the city.", source="auto")
    assert automatic["detectedLanguage"]["language"] == "en"
    assert 50 < automatic["detectedLanguage"]["confidence"] <= 100
    refused = client.post("/translate", json=BASE | {"target": "auto"})
    assert refusal(refused) == "auto is not supported"


def test_libretranslatepy(client):
    headers = {
        "Accept-Encoding": "identity",
        "Content-Type": "application/x-www-form-urlencoded",
        "Connection": "close",
    }
    body = urlencode({"q": "Hello & welcome", "source": "en", "target": "de", "api_key": "k"})
    answer = client.post("/translate", content=body, headers=headers)
    assert answer.json()["translatedText"] == "HELLO & WELCOME"
    assert "content-encoding" not in answer.headers
    assert answer.headers["connection"] == "close"


def test_discourse_and_twp(client):
    """Forms; TWP reads `detectedLanguage.language` of every answer."""
    discourse = {"q": "<p>Hi</p>", "source": "auto", "target": "de", "format": "html"}
    assert client.post("/translate", data=discourse).json()["translatedText"] == "<p>HI</p>"
    twp = BASE | {"format": "text", "api_key": ""}
    assert client.post("/translate", data=twp).json()["detectedLanguage"]["language"] == "en"


def php_multipart(fields):
    """Write a multipart body as PHP's curl does."""
    boundary = "------------------------d74496d66958873e"
    parts = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    )
    body = f"{parts}--{boundary}--\r\n".encode()
    return {
        "content": body,
        "headers": {"Content-Type": f"multipart/form-data; boundary={boundary}"},
    }


def test_jefs42(client):
    """Multipart; a list is URL-encoded JSON in one string, in both directions."""
    fields = {"q": "Grüße", "format": "html", "source": "en", "target": "de", "api_key": ""}
    answer = client.post("/translate", **php_multipart(fields))
    assert answer.json()["translatedText"] == "GRÜSSE"
    texts = ["Grün &amp; <b>more</b>", 'a "quoted" text', ""]
    encoded = quote_plus(json.dumps(texts).replace("/", "\\/"))
    answer = client.post("/translate", **php_multipart(fields | {"q": encoded})).json()
    assert isinstance(answer["translatedText"], str)
    decoded = json.loads(parse_qs("q=" + answer["translatedText"])["q"][0])
    assert decoded == ["GRÜN &amp; <b>MORE</b>", 'A "QUOTED" TEXT', ""]
    # What only looks like a list is text.
    for text in ("%5B%22", "%5B%22%FF%22%5D", "%5B%22a%22%2C1%5D", "%5B1%5D"):
        answer = client.post("/translate", **php_multipart(fields | {"q": text}))
        assert answer.json()["translatedText"].upper() == text.upper()


def test_deep_translator(client):
    """POST with all parameters in the query string, an empty body and no content type."""
    query = urlencode({"q": "Hello wörld", "source": "en", "target": "de", "format": "text"})
    answer = client.post(f"/translate?{query}&api_key=k")
    assert answer.json()["translatedText"] == "HELLO WÖRLD"


def test_omegat_plugin(client):
    answer = client.get("/translate?q=Hello+world&source=en&target=de")
    assert answer.json()["translatedText"] == "HELLO WORLD"


# /translate: values.


@pytest.mark.parametrize("q", ["", [], None])
def test_no_text_is_refused(client, q):
    answer = client.post("/translate", json=BASE | {"q": q})
    assert refusal(answer) == "Invalid request: missing q parameter"
    refusal(client.post("/translate", data={"source": "en", "target": "de"}))


def test_blank_texts_of_a_list_stay(client):
    answer = translate(client, q=["", " ", "a", "\n"], source="auto")
    assert answer["translatedText"] == ["", " ", "A", "\n"]
    assert translate(client, q=["", " "])["translatedText"] == ["", " "]


@pytest.mark.parametrize("q", [5, 1.5, True, {"a": "b"}, ["a", 5], ["a", None], [["a"]]])
def test_a_wrong_type_is_refused(client, q):
    assert "q must be" in refusal(client.post("/translate", json=BASE | {"q": q}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("alternatives", "many"), ("alternatives", [1]), ("format", "markdown"), ("format", 1)],
        *[("source", 5), ("source", ""), ("target", None), ("target", ["de"]), ("api_key", 5)],
    ],
)
def test_wrong_values_are_refused(client, name, value):
    refusal(client.post("/translate", json=BASE | {name: value}))


def test_alternatives(client):
    """Unique, without the best one; none in HTML; a list of lists for a list."""
    for number, expected in ((10**6, 3), (-1, None), ("2", 2), (0, None)):
        alternatives = translate(client, alternatives=number).get("alternatives")
        assert (alternatives and len(alternatives)) == expected
    assert translate(client, alternatives=2, format="html")["alternatives"] == []
    listed = translate(client, q=["a", "b"], alternatives=1)
    assert listed["alternatives"] == [["A (1)"], ["B (1)"]]
    result = TextResult("best", "en", alternatives=("best", "", "x", " ", "x", "y"))
    assert libretranslate.unique_alternatives(result) == ["x", "y"]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        *[("EN", "DE"), ("en-US", "de-AT"), ("en", "zh"), ("en", "zh-HANS"), ("en", "zh-CN")],
        *[("AUTO", "de"), ("eng", "deu"), ("en_GB", "zh_Hans"), ("de", "zh-Hans")],
    ],
)
def test_codes_in_any_form(client, source, target):
    assert translate(client, source=source, target=target)["translatedText"] == "HELLO"


def test_line_ends_of_forms_are_normalized(client):
    fields = BASE | {"q": "a\r\nb\rc"}
    assert client.post("/translate", data=fields).json()["translatedText"] == "A\nB\nC"
    answer = client.post("/translate", **php_multipart(fields)).json()
    assert answer["translatedText"] == "A\nB\nC"
    assert translate(client, **fields)["translatedText"] == "A\r\nB\rC"


def test_the_first_of_a_repeated_field(client):
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = client.post("/translate", content="q=a&q=b&source=en&target=de", headers=headers)
    assert answer.json()["translatedText"] == "A"


# Errors.


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("en", "xx", "xx is not supported"),
        ("xx", "de", "xx is not supported"),
        ("auto", "xx", "xx is not supported"),
        ("fr", "de", "de is not available as a target language from fr"),
        ("auto", "fr", "fr is not available as a target language from any language"),
        ("en", "some secret text", "This language is not supported"),
    ],
)
def test_unknown_languages(client, source, target, message):
    fields = BASE | {"source": source, "target": target}
    assert refusal(client.post("/translate", json=fields)) == message


def test_keys(visitor, key):
    for body in (BASE, BASE | {"api_key": ""}, BASE | {"api_key": None}):
        message = refusal(visitor.post("/translate", json=body))
        assert message == "Please contact the server operator to get an API key"
    wrong = visitor.post("/translate", json=BASE | {"api_key": "nope"})
    assert refusal(wrong, 403) == "Invalid API key"
    assert visitor.post("/translate", json=BASE | {"api_key": key}).is_success
    refusal(visitor.post("/detect", data={"q": "a"}))
    refusal(visitor.post("/suggest", data=BASE | {"s": "b"}))
    files = {"file": ("a.txt", b"x")}
    refusal(visitor.post("/translate_file", data={"source": "en", "target": "de"}, files=files))
    # A header is no place for a key of this API.
    bearer = {"Authorization": f"Bearer {key}"}
    assert visitor.post("/translate", json=BASE, headers=bearer).status_code == 400
    # These need no key.
    for path in ("/languages", "/frontend/settings", "/spec", "/health"):
        assert visitor.get(path).is_success
    settings = visitor.get("/frontend/settings").json()
    assert settings["keyRequired"] is settings["apiKeys"] is True
    assert settings["charLimit"] == 10


def test_scopes_quotas_and_rates(locked, visitor):
    add_key = locked.context.state.add_key
    no_scope = add_key("glossaries only", ["glossaries"])
    refusal(visitor.post("/translate", json=BASE | {"api_key": no_scope}), 403)
    few = add_key("few characters", ["translate"], characters_per_month=7)
    # A refused request costs nothing.
    refusal(visitor.post("/translate", json=BASE | {"api_key": few, "target": "xx"}))
    assert visitor.post("/translate", json=BASE | {"api_key": few}).is_success
    assert "quota" in refusal(visitor.post("/translate", json=BASE | {"api_key": few}), 403)
    slow = add_key("one per minute", ["translate"], requests_per_minute=1)
    assert visitor.post("/translate", json=BASE | {"api_key": slow}).is_success
    answer = visitor.post("/translate", json=BASE | {"api_key": slow})
    assert refusal(answer, 429).startswith("Slowdown: ")
    assert "retry-after" not in answer.headers


def test_limits(visitor, key):
    cases = [
        ({"q": "x" * 11}, "Invalid request: request (11) exceeds text limit (10)"),
        ({"q": ["a"] * 4}, "Invalid request: request (4) exceeds text limit (3)"),
        ({"q": ["a" * 6, "b" * 5]}, "Invalid request: request (11) exceeds text limit (10)"),
        ({"q": "x" * 2000}, "The request exceeds text limit (1000 bytes)"),
    ]
    for change, message in cases:
        answer = visitor.post("/translate", json=BASE | {"api_key": key} | change)
        assert refusal(answer) == message
    assert translate(visitor, q=["aaaa", "bbbb", "cc"], api_key=key)


@pytest.mark.parametrize("path", ["/translate", "/detect", "/suggest"])
def test_a_long_body_is_refused_before_it_is_sent(server, path):
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: 5000000\r\n\r\n".encode())
        answer = b""
        while b"exceeds text limit" not in answer:
            received = connection.recv(1 << 16)
            assert received
            answer += received
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_a_client_that_sends_a_long_body_reads_the_answer(client):
    for path in ("/translate", "/detect", "/suggest"):
        answer = client.post(path, json=BASE | {"q": "x" * 3_000_000})
        assert "exceeds text limit" in refusal(answer)


@pytest.mark.parametrize("body", ["{", "[1]", '"q"', "null", "", "{}", '{"q": "\\ud800"}'])
def test_bad_json(client, body):
    headers = {"Content-Type": "application/json"}
    refusal(client.post("/translate", content=body, headers=headers))


def test_unknown_paths_and_methods(client):
    refusal(client.get("/nope"), 404)
    refusal(client.delete("/translate"), 405)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        *[("overloaded", 529), ("rate", 429), ("quota", 403), ("forbidden", 403)],
        *[("unsupported", 501), ("too_long", 400), ("not_found", 404), ("not_ready", 503)],
        *[("key_missing", 400), ("key_invalid", 403), ("internal", 500), ("bad_request", 400)],
    ],
)
def test_statuses(kind, status):
    answer = libretranslate.error_response(ServiceError(kind, "why"))
    assert answer.status_code == status
    assert list(json.loads(answer.body)) == ["error"]
    # No client reads it, and some libraries wait for it.
    assert "retry-after" not in answer.headers


def test_what_cannot_be_answered_in_time_is_refused_at_once(tmp_path):
    """The clients wait 20 seconds; 429 or 503 would make Weblate pause for 30 minutes."""
    run = write_stub(tmp_path / "en-de", function="upper")
    # Equal sentences would be translated once.
    text = " ".join(f"This is sentence number {number}." for number in range(200))
    addresses = [
        ("/translate", BASE | {"q": text}, "error", 529),
        ("/translate", {"langpair": "en|de", "q": text}, "explanation", 529),
        ("/translate", {"text": text, "target_lang": "DE"}, "message", 503),
    ]
    with (
        live_server(tmp_path, run, requires_keys=True) as live,
        httpx.Client(base_url=live.url, timeout=60) as client,
    ):
        state = live.context.state
        key = state.add_key("test", ["translate"])
        keys = {"api_key": key, "key": key}
        assert translate(client, api_key=key)["translatedText"] == "HELLO"
        # As if slow batches had been measured.
        for version in live.models.versions.values():
            version.queue.speed = 10.0
        for path, fields, name, status in addresses:
            start = time.monotonic()
            answer = client.post(path, json=keys | fields)
            assert time.monotonic() - start < 5
            assert answer.status_code == status, answer.text
            assert "busy" in answer.json()[name]
        # Only the short text was charged.
        (info,) = state.keys()
        assert state.usage(info.id).characters == len("Hello")


def test_every_kind_of_error_has_an_answer():
    for kind in get_args(ErrorKind):
        for api in (libretranslate, deeplx):
            assert 400 <= api.error_response(ServiceError(kind, "why")).status_code < 600


# Other endpoints.


def test_languages(client):
    """Weblate needs source and target in the list; Mastodon needs `targets` of each language."""
    languages = client.get("/languages").json()
    assert [set(language) for language in languages] == [{"code", "name", "targets"}] * 5
    targets = {language["code"]: set(language["targets"]) for language in languages}
    assert targets == {
        "de": {"en", "zh-Hans"},
        "en": {"de", "zh-Hans"},
        "es": set(),
        "fr": {"es"},
        "zh-Hans": set(),
    }
    names = {language["code"]: language["name"] for language in languages}
    assert (names["de"], names["zh-Hans"]) == ("German", "Chinese (Simplified)")
    # libretranslatepy sends a form with GET, jefs42 an empty multipart body.
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for body in ("", "api_key=k"):
        answer = client.request("GET", "/languages", content=body, headers=form)
        assert answer.json() == languages
    assert client.request("GET", "/languages", **php_multipart({})).json() == languages


def test_detect(client):
    german = "Das ist ein Haus, und das Haus ist gut."
    answers = [
        client.post("/detect", data={"q": german}),
        client.post("/detect", json={"q": german}),
        client.post("/detect", json={"q": [german, german]}),
        client.post("/detect", **php_multipart({"q": german, "api_key": ""})),
        # jefs42: the parameters in the query string, an empty body.
        client.post(f"/detect?{urlencode({'q': german, 'api_key': ''})}"),
    ]
    # Discourse needs a language of this list.
    codes = {language["code"] for language in client.get("/languages").json()}
    for answer in answers:
        best, *others = answer.json()
        assert best["language"] == "de"
        assert 90 <= best["confidence"] <= 100
        assert {detection["language"] for detection in others} <= codes
        confidences = [detection["confidence"] for detection in answer.json()]
        assert confidences == sorted(confidences, reverse=True)
    for text in (" ", "12345", "😀"):
        (detection, *_) = client.post("/detect", json={"q": text}).json()
        assert set(detection) == {"confidence", "language"}
    for bad in ({}, {"q": ""}, {"q": 5}):
        refusal(client.post("/detect", json=bad))


def test_frontend_settings(client):
    answer = client.get("/frontend/settings").json()
    assert answer["charLimit"] == Limits().characters
    assert answer["apiKeys"] is answer["keyRequired"] is False
    assert answer["filesTranslation"] is answer["suggestions"] is True
    assert isinstance(answer["frontendTimeout"], int)
    assert answer["language"]["source"] == {"code": "auto", "name": "Auto Detect"}
    assert set(answer["language"]["target"]) == {"code", "name"}
    assert {".txt", ".po", ".docx", ".html", ".srt"} <= set(answer["supportedFilesFormat"])
    assert client.request("GET", "/frontend/settings", **php_multipart({})).json() == answer


def test_spec(client, server):
    """Dialect accepts a server only with this title; every path that is described exists."""
    spec = client.get("/spec").json()
    assert spec["info"]["title"] == "LibreTranslate"
    assert spec["servers"] == [{"url": server.url}]
    for path, operations in spec["paths"].items():
        for method in operations:
            assert client.request(method, path).status_code in (200, 400), path


def test_the_spec_describes_the_answers(client):
    """What the server sends has the form that the description says."""
    paths = client.get("/spec").json()["paths"]
    requests = {
        "/translate": [{"json": BASE}, {"json": BASE | {"q": ["a", "b"], "alternatives": 2}}],
        "/detect": [{"data": {"q": "Hello"}}],
        "/suggest": [{"data": BASE | {"s": "Hallo"}}],
        "/translate_file": [
            {"data": {"source": "en", "target": "de"}, "files": {"file": ("a.txt", b"x")}}
        ],
    }
    for path, operations in paths.items():
        for method, operation in operations.items():
            content = operation["responses"]["200"]["content"]["application/json"]
            for request in requests.get(path, [{}]):
                answer = client.request(method, path, **request)
                assert answer.status_code == 200, answer.text
                jsonschema.validate(answer.json(), content["schema"])


def test_suggest(client, server):
    state = server.context.state
    state.remove_suggestions([suggestion.id for suggestion in state.suggestions()])
    fields = {"q": "This is a house.", "s": "Das ist ein Haus.", "source": "en", "target": "DE"}
    for options in ({"data": fields}, {"json": fields}, {"data": fields | {"source": "auto"}}):
        assert client.post("/suggest", **options).json() == {"success": True}
    stored = list(state.suggestions())
    assert len(stored) == 3
    for suggestion in stored:
        assert (suggestion.source, suggestion.target) == ("en", "de")
        assert (suggestion.source_text, suggestion.suggestion) == (fields["q"], fields["s"])
        version = client.get("/v1/models").json()["models"][0]["version"]
        assert (suggestion.machine_text, suggestion.model) == ("", version)
        assert version
    for bad in (fields | {"s": ""}, fields | {"q": ""}, fields | {"target": "xx"}):
        refusal(client.post("/suggest", data=bad))
    assert len(list(state.suggestions())) == 3
    # Of a few words, the language is a guess: the same as that of a translation.
    few = {"q": "Hello.", "s": "Hallo.", "source": "auto", "target": "de"}
    assert client.post("/translate", data=few).json()["detectedLanguage"]["language"] == "en"
    assert client.post("/suggest", data=few).json() == {"success": True}
    assert list(state.suggestions())[-1].source == "en"


def test_health_and_root(client, server):
    assert client.get("/health").json() == {"status": "ok"}
    server.context.service.is_ready = False
    try:
        assert client.get("/health").status_code == 503
    finally:
        server.context.service.is_ready = True
    # jefs42 tests the connection with an empty multipart POST to the root.
    assert client.post("/", **php_multipart({})).is_success
    assert client.post("/", content=b"\xff" * 10_000).is_success


# Documents.


def test_translate_file(client, server):
    fields = {"source": "en", "target": "de", "format": "html", "api_key": ""}
    content = "Hello world.\nSecond line.\n"
    files = {"file": ("my nöte.txt", content.encode())}
    answer = client.post("/translate_file", data=fields, files=files)
    assert answer.status_code == 200, answer.text
    link = answer.json()["translatedFileUrl"]
    assert link.startswith(f"{server.url}/download_file/")
    assert unquote(link).endswith("/my nöte_de.txt")
    # Without a key and without the connection of the upload.
    result = httpx.get(link)
    assert result.text == content.upper()
    disposition = result.headers["content-disposition"]
    assert disposition.startswith("attachment")
    assert quote("my nöte_de.txt") in disposition
    assert result.headers["content-type"] == "application/octet-stream"
    path = urlsplit(link).path
    wrong_secret = path.replace(".", ".0", 1)
    for wrong in (wrong_secret, "/download_file/a/b", "/download_file/a.b/c", "/download_file/"):
        refusal(client.get(wrong), 404)
    assert not list(server.context.documents.uploads.iterdir())


def test_a_missing_or_unknown_file_is_refused(client, server):
    fields = {"source": "en", "target": "de"}
    cases = [
        {"data": fields},
        {"json": fields},
        {"data": fields, "files": {"other": ("a.txt", b"x")}},
        {"data": fields, "files": {"file": ("a.xyz", b"x")}},
        {"data": fields, "files": {"file": ("noextension", b"x")}},
        {"data": fields, "files": {"file": ("broken.docx", b"x")}},
        {"data": fields | {"target": "xx"}, "files": {"file": ("a.txt", b"x")}},
        {"data": {}, "files": {"file": ("a.txt", b"x")}},
    ]
    for options in cases:
        refusal(client.post("/translate_file", **options))
    assert not list(server.context.documents.uploads.iterdir())


class Address:
    """A request to a server without a public address."""

    def __init__(self, host, public_url=""):
        scope = {"type": "http", "scheme": "http", "server": ("10.0.0.1", 5000), "root_path": ""}
        self.request = Request(scope | {"headers": [(b"host", host.encode("latin-1"))]})
        settings = ServerSettings(runs=(), public_url=public_url)
        self.context = SimpleNamespace(settings=settings)

    def url(self):
        return base_url(self.context, self.request)


@pytest.mark.parametrize("host", ['a"b', "a/b", "x" * 300, "a b", "é", "a@b", "a?b", ""])
def test_the_address_in_links(host):
    """A public address is used; an invalid header is not."""
    assert Address(host).url() == "http://10.0.0.1:5000"
    assert Address("mt.example.com:5000").url() == "http://mt.example.com:5000"
    assert Address("[::1]:5000").url() == "http://[::1]:5000"
    assert Address(host, "https://mt.example.com/lt/").url() == "https://mt.example.com/lt"


# DeepLX.


def test_subtitle_edit(client):
    """JSON as plain text with two wrong characters at the end; it reads `alternatives[0]`."""
    body = '{ "source_lang": "EN", "target_lang": "DE", "text": "Hello\\nworld" }]}'
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    answer = client.post("/translate", content=body, headers=headers)
    assert answer.json()["data"] == answer.json()["alternatives"][0] == "HELLO\nWORLD"
    assert answer.json()["code"] == 200


def test_deeplx(client, visitor, key):
    body = {"text": "This is a house.", "source_lang": "auto", "target_lang": "DE"}
    answer = client.post("/translate", json=body).json()
    assert (answer["data"], answer["source_lang"]) == ("THIS IS A HOUSE.", "EN")
    bad = [
        body | {"target_lang": "XX"},
        body | {"source_lang": "FR"},
        body | {"text": ""},
        body | {"text": ["Hello"]},
        {"text": "a"},
    ]
    for values in bad:
        refused = client.post("/translate", json=values)
        assert refused.status_code == refused.json()["code"] == 400
        assert isinstance(refused.json()["message"], str)
    # `q` is LibreTranslate's.
    assert client.post("/translate", json=BASE | body).json()["translatedText"] == "HELLO"
    short = body | {"text": "Hello"}
    assert visitor.post("/translate", json=short).json()["code"] == 401
    assert visitor.post(f"/translate?token={key}", json=short).is_success
    bearer = {"Authorization": f"Bearer {key}"}
    assert visitor.post("/translate", json=short, headers=bearer).is_success
    too_long = visitor.post("/translate", json=body, headers=bearer)
    assert too_long.status_code == 413


# Any request.


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
NAMES = ["q", "source", "target", "format", "alternatives", "api_key", "s", "text", "langpair"]
BODIES = st.one_of(
    st.tuples(st.just("application/json"), st.dictionaries(st.sampled_from(NAMES), ANYTHING)),
    st.tuples(
        st.sampled_from(["application/json", "application/x-www-form-urlencoded", "text/plain"]),
        st.binary(max_size=60),
    ),
    st.tuples(
        st.just("application/x-www-form-urlencoded"),
        st.dictionaries(st.sampled_from(NAMES), st.text(max_size=20)).map(urlencode),
    ),
)


@settings(max_examples=60)
@given(st.sampled_from(["/translate", "/detect", "/suggest", "/translate_file"]), BODIES)
def test_no_request_is_an_error_of_the_server(client, path, body):
    content_type, content = body
    if isinstance(content, dict):
        content = json.dumps(BASE | content).encode()
    answer = client.post(path, content=content, headers={"Content-Type": content_type})
    assert answer.status_code in (200, 400), answer.text
    assert isinstance(answer.json(), dict | list)
