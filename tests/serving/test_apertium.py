"""Does the server answer clients of Apertium APy: OmegaT and Weblate?"""

import json
from typing import get_args

import httpx
import pytest

from dragoman.serving.apis import apertium
from dragoman.serving.interface import ErrorKind, Limits, ServiceError
from support.deepl_server import live_server
from support.serving import write_stub


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A server whose models write in capitals."""
    folder = tmp_path_factory.mktemp("apertium")
    runs = [
        write_stub(folder / f"{source}-{target}", source=source, target=target, function="upper")
        for source, target in (("en", "de"), ("en", "zh-Hans"), ("fr", "es"))
    ]
    with (
        live_server(folder, *runs) as live,
        httpx.Client(base_url=live.url, timeout=60) as http,
    ):
        yield http


def test_pairs(client):
    """Weblate compares codes with underscores."""
    answer = client.get("/listPairs").json()
    assert answer["responseStatus"] == 200
    pairs = {(pair["sourceLanguage"], pair["targetLanguage"]) for pair in answer["responseData"]}
    assert pairs == {("en", "de"), ("en", "zh_Hans"), ("fr", "es")}
    assert all(set(pair) == {"sourceLanguage", "targetLanguage"} for pair in answer["responseData"])


def test_language_names(client):
    names = client.get("/listLanguageNames?locale=en").json()
    assert names["zh_Hans"] == "Chinese (Simplified)"
    assert set(names) == {"de", "en", "es", "fr", "zh_Hans"}
    chosen = client.get("/listLanguageNames?locale=en&languages=de+it").json()
    assert chosen == {"de": "German"}
    assert client.get("/listLanguageNames?languages=%ff").json()["responseStatus"] == 400
    # All errors of this address are those of Apertium, also those of the web framework.
    refused = client.delete("/listLanguageNames")
    assert (refused.status_code, refused.json()["status"]) == (405, "error")


@pytest.mark.parametrize(
    "query",
    [
        # OmegaT does not escape `|`, and writes country codes with underscores.
        "q=Hello+world&markUnknown=no&langpair=en|de&key=",
        "q=Hello+world&markUnknown=yes&langpair=en_US|de&key=null",
        # Weblate.
        "langpair=en%7Cde&q=Hello+world&markUnknown=no",
        "langpair=eng%7Cdeu&q=Hello+world&markUnknown=no",
    ],
)
def test_translate(client, query):
    answer = client.get(f"/translate?{query}")
    assert answer.json() == {
        "responseStatus": 200,
        "responseData": {"translatedText": "HELLO WORLD"},
        "responseDetails": None,
    }
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/translate", content=query, headers=headers).json() == answer.json()


@pytest.mark.parametrize(
    ("text", "text_format", "expected"),
    [
        # OmegaT writes tags of a segment as text; a bare character is no entity.
        ("<f0>Hello</f0> & world", "", "<f0>HELLO</f0> & WORLD"),
        ("Line\nbreak", "", "LINE\nBREAK"),
        ("<b>Hello</b> &amp; world", "html", "<b>HELLO</b> &amp; WORLD"),
    ],
)
def test_text_and_html(client, text, text_format, expected):
    fields = {"langpair": "en|zh_Hans", "q": text, "format": text_format}
    answer = client.get("/translate", params=fields).json()
    assert answer["responseData"]["translatedText"] == expected


@pytest.mark.parametrize(
    "query",
    [
        *["langpair=en|xx&q=a", "langpair=en&q=a", "langpair=&q=a", "langpair=en|de|fr&q=a"],
        *["langpair=|de&q=a", "langpair=en|de", "langpair=en|de&q=", "langpair=fr|de&q=a"],
        *["langpair=en|de&q=%ff", "langpair=a&langpair=b&q=c"],
    ],
)
def test_errors_have_the_fields_of_apy(client, query):
    answer = client.get(f"/translate?{query}")
    body = answer.json()
    assert answer.status_code == body["code"] == body["responseStatus"] == 400
    assert body["status"] == "error"
    assert body["message"] == "Bad Request"
    assert body["explanation"] == body["responseDetails"] != ""


def test_keys_quotas_and_limits(tmp_path):
    run = write_stub(tmp_path / "en-de", function="upper")
    with (
        live_server(tmp_path, run, requires_keys=True, limits=Limits(characters=5)) as live,
        httpx.Client(base_url=live.url, timeout=60) as client,
    ):
        key = live.context.state.add_key("test", ["translate"], characters_per_month=4)
        assert client.get("/translate?langpair=en|de&q=a").status_code == 400
        assert client.get("/translate?langpair=en|de&q=a&key=no").status_code == 403
        assert client.get("/listPairs").is_success
        address = f"/translate?langpair=en|de&key={key}&q="
        assert client.get(f"{address}abcdef").status_code == 400
        assert client.get(f"{address}abc").json()["responseData"]["translatedText"] == "ABC"
        answer = client.get(f"{address}abc")
        assert answer.status_code == answer.json()["responseStatus"] == 403
        assert client.get(f"{address}d").is_success


def test_every_kind_of_error_has_an_answer():
    for kind in get_args(ErrorKind):
        answer = apertium.error_response(ServiceError(kind, "why"))
        assert answer.status_code == json.loads(answer.body)["responseStatus"] >= 400
    assert apertium.error_response(ServiceError("overloaded", "why")).status_code == 529
