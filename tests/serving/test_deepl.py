"""The DeepL API for texts, languages and usage: what each client sends, and what it needs back."""

from __future__ import annotations

import json
from typing import get_args

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.serving.apis import deepl
from dragoman.serving.interface import ErrorKind, Limits, ServiceError
from support.deepl_server import live_server
from support.serving import write_stub


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deepl")
    runs = (
        write_stub(folder / "en-de", function="upper", has_span_tokens=True),
        write_stub(folder / "en-pt", target="pt", function="brackets"),
        write_stub(folder / "zh-en", source="zh-Hans", target="en"),
    )
    with live_server(folder, *runs) as live:
        yield live


@pytest.fixture(scope="module")
def client(server):
    headers = {"Authorization": "DeepL-Auth-Key any"}
    with httpx.Client(base_url=server.url, headers=headers) as http:
        yield http


def translate(client, as_form=False, **parameters):
    """Send a request as the official clients do; return its translations."""
    body = {"text": ["Hello."], "source_lang": "EN", "target_lang": "DE", **parameters}
    encoded = {"data": body} if as_form else {"json": body}
    response = client.post("/v2/translate", **encoded)
    assert response.status_code == 200, response.text
    return response.json()["translations"]


def texts(client, **parameters):
    return [translation["text"] for translation in translate(client, **parameters)]


def message(response, status):
    """Check an error; its message must be a string, or deepl-python fails."""
    assert response.status_code == status, response.text
    (key,) = response.json()
    assert key == "message"
    assert isinstance(response.json()["message"], str)
    return response.json()["message"]


# Texts.


@pytest.mark.parametrize("as_form", [False, True])
def test_texts_come_back_in_order_with_what_the_clients_need(client, as_form):
    sources = [f"This is text {number}." for number in range(40)] + ["", " \n"]
    answers = translate(client, as_form, text=sources)
    assert [answer["text"] for answer in answers] == [text.upper() for text in sources]
    for source, answer in zip(sources, answers, strict=True):
        assert answer["detected_source_language"] == "EN"
        assert answer["billed_characters"] == len(source)
        assert "model_type_used" not in answer


def test_a_request_in_the_query_string(client):
    query = {"text": ["One.", "Two."], "target_lang": "DE", "source_lang": "en"}
    response = client.post("/v2/translate", params=query)
    assert [answer["text"] for answer in response.json()["translations"]] == ["ONE.", "TWO."]


@pytest.mark.parametrize("target", ["DE", "de", "de-DE", "PT-BR", "pt-PT", "pt"])
@pytest.mark.parametrize("source", ["EN", "en", "en-US", "EN-GB"])
def test_language_codes_in_every_form(client, source, target):
    (answer,) = translate(client, source_lang=source, target_lang=target)
    assert answer["text"] == ("HELLO." if target.lower().startswith("de") else "[Hello.]")
    assert answer["detected_source_language"] == source.upper()


@pytest.mark.parametrize("target", ["EN", "EN-GB", "en-US"])
@pytest.mark.parametrize("source", ["ZH", "zh-HANS", "zh-CN"])
def test_variants_of_english_and_chinese(client, source, target):
    (text,) = texts(client, text=["你好。"], source_lang=source, target_lang=target)
    assert text == "你好。"


@pytest.mark.parametrize("nothing", [{}, {"source_lang": ""}, {"source_lang": None}])
def test_the_source_language_is_detected_without_one(client, nothing):
    body = {"text": ["This is an English sentence."], "target_lang": "DE", **nothing}
    (answer,) = client.post("/v2/translate", json=body).json()["translations"]
    assert answer["detected_source_language"] == "EN"
    body = {"text": ["这是一个中文句子。"], "target_lang": "EN-US"}
    (answer,) = client.post("/v2/translate", json=body).json()["translations"]
    assert answer["detected_source_language"] == "ZH-HANS"


@pytest.mark.parametrize("text", ["Hello.", "test", "OK", "42", "%s", "…", ""])
def test_a_text_that_is_too_short_to_detect_its_language_is_translated(client, text):
    # The best guess for `Hello.` is Italian, which this server does not translate.
    body = {"text": [text], "target_lang": "DE"}
    (answer,) = client.post("/v2/translate", json=body).json()["translations"]
    assert answer["text"] == (text if text == "%s" else text.upper())


def test_a_language_that_was_surely_detected_and_is_not_offered_is_named(client):
    body = {"text": ["Questa è una frase in italiano, molto chiara."], "target_lang": "DE"}
    assert "it is not supported" in message(client.post("/v2/translate", json=body), 400)


# What has no effect here must not be an error. Left: JSON; right: form.
WITHOUT_EFFECT = {
    "show_billed_characters": (True, "1"),
    "preserve_formatting": (True, "1"),
    "outline_detection": (False, "0"),
    "tag_handling_version": ("v2", "v1"),
    "splitting_tags": (["p", "br"], "p,br"),
    "non_splitting_tags": (["b"], "b"),
    "ignore_tags": (["x"], "x"),
    "context": ("a web shop", "a web shop"),
    "custom_instructions": (["Be brief.", "Be kind."], ["Be brief.", "Be kind."]),
    "style_id": ("7ff9bfd6-cd85-4190-8503-d6215a321519", "7ff9bfd6"),
    "translation_memory_id": ("a-memory", "a-memory"),
    "translation_memory_threshold": (75, "75"),
    "formality": ("prefer_more", "prefer_less"),
    "tag_handling": (None, ""),
    "glossary_id": (None, ""),
    "glossary_ids": ([], ""),
    "model_type": (None, ""),
    "split_sentences": ("1", "1"),
    "enable_beta_languages": (True, "1"),
    "a_key_of_the_future": ({"deeply": ["nested", 1, None]}, "x"),
}


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_parameters_without_effect_are_accepted(client, name):
    as_json, as_form = WITHOUT_EFFECT[name]
    expected = [{"detected_source_language": "EN", "text": "HELLO.", "billed_characters": 6}]
    assert translate(client, **{name: as_json}) == expected
    assert translate(client, as_form=True, **{name: as_form}) == expected


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ("quality_optimized", "quality_optimized"),
        ("prefer_quality_optimized", "quality_optimized"),
        ("latency_optimized", "latency_optimized"),
    ],
)
def test_the_type_of_the_model_is_named_if_it_was_asked_for(client, asked, used):
    assert translate(client, model_type=asked)[0]["model_type_used"] == used


def test_sentences_are_split_as_asked(client):
    text = "One thing. Another\nthing."
    target = {"target_lang": "PT-BR"}
    split = "[One thing.] [Another]\n[thing.]"
    assert texts(client, text=[text], **target) == [split]
    assert texts(client, text=[text], split_sentences="1", **target) == [split]
    assert texts(client, text=[text], split_sentences="0", **target) == [
        "[One thing. Another]\n[thing.]"
    ]
    assert texts(client, text=[text], split_sentences="nonewlines", **target) == [
        "[One thing.] [Another thing.]"
    ]
    # In HTML, a line break is a space unless the client says otherwise.
    assert texts(client, text=["<p>Another\nthing.</p>"], tag_handling="html", **target) == [
        "<p>[Another thing.]</p>"
    ]


@pytest.mark.parametrize("formality", ["", "default", "prefer_more", "prefer_less", None])
def test_a_formality_that_is_only_a_wish_is_accepted(client, formality):
    assert texts(client, formality=formality) == ["HELLO."]


@pytest.mark.parametrize("formality", ["more", "less"])
def test_a_formality_that_no_model_has_is_refused(client, formality):
    body = {"text": ["Hello."], "target_lang": "DE", "formality": formality}
    assert "not supported" in message(client.post("/v2/translate", json=body), 400)


# Tags.


def test_xml_as_weblate_sends_it(client):
    """The text is escaped, and a placeholder is an empty element that must not change."""
    sources = [
        'Hello <x id="6"></x>, you have <x id="24"></x> new messages.',
        "&lt;b&gt;bold&lt;/b&gt; &amp; more",
        "It&#x27;s &quot;quoted&quot; &amp; 5 &lt; 6",
        '<x id="0"></x>',
    ]
    answers = texts(
        client, text=sources, formality="", tag_handling="xml", ignore_tags=["x"], context="x"
    )
    assert answers[0] == 'HELLO <x id="6"></x>, YOU HAVE <x id="24"></x> NEW MESSAGES.'
    assert answers[1].startswith("&lt;b&gt;")
    assert answers[1].endswith("&lt;/b&gt; &amp; MORE")
    assert "&amp;" in answers[2]
    assert "&lt; 6" in answers[2]
    assert answers[3] == sources[3]


@pytest.mark.parametrize("as_form", [False, True])
def test_the_content_of_ignored_tags_stays(client, as_form):
    ignored = "keep,code" if as_form else ["keep", "code"]
    text = "Press <keep>Enter now</keep> or <code>run me</code> or <b>wait</b>."
    (answer,) = translate(client, as_form, text=[text], tag_handling="xml", ignore_tags=ignored)
    assert answer["text"] == ("PRESS <keep>Enter now</keep> OR <code>run me</code> OR <b>WAIT</b>.")


def test_html_fragments(client):
    text = '<p>Look at <span translate="no">:party:</span> &amp; <a href="/a?b=1">this</a></p>'
    assert texts(client, text=[text], tag_handling="html") == [
        '<p>LOOK AT <span translate="no">:party:</span> &amp; <a href="/a?b=1">THIS</a></p>'
    ]


# Languages.


@pytest.mark.parametrize(
    "send",
    [
        lambda client: client.get("/v2/languages", params={"type": "target"}),
        lambda client: client.request("GET", "/v2/languages", data={"type": "target"}),
        lambda client: client.request("GET", "/v2/languages", json={"type": "target"}),
        lambda client: client.post("/v2/languages", data={"type": "target", "auth_key": "any"}),
    ],
    ids=["query", "form of deepl-python", "JSON of deepl-rb", "POST"],
)
def test_target_languages(client, send):
    entries = send(client).json()
    assert [entry["language"] for entry in entries] == [
        "DE",
        "EN",
        "EN-GB",
        "EN-US",
        "PT",
        "PT-BR",
        "PT-PT",
    ]
    assert all(entry["supports_formality"] is False for entry in entries)
    names = {entry["language"]: entry["name"] for entry in entries}
    assert names["DE"] == "German"
    assert names["EN-GB"] == "English (United Kingdom)"


@pytest.mark.parametrize("query", [{}, {"type": "source"}])
def test_source_languages(client, query):
    assert client.get("/v2/languages", params=query).json() == [
        {"language": "EN", "name": "English"},
        {"language": "ZH", "name": "Chinese"},
        {"language": "ZH-HANS", "name": "Chinese (Simplified)"},
    ]


def test_every_listed_language_is_accepted(client):
    sources = [entry["language"] for entry in client.get("/v2/languages").json()]
    targets = [entry["language"] for entry in client.get("/v2/languages?type=target").json()]
    for source in sources:
        for target in targets:
            if (source, target[:2]) != ("EN", "EN"):
                assert translate(client, source_lang=source, target_lang=target)


@pytest.mark.parametrize("resource", ["translate_text", "glossary", "translate_document"])
def test_languages_of_version_3(client, resource):
    entries = client.get("/v3/languages", params={"resource": resource}).json()
    flags = {
        entry["lang"]: (entry["usable_as_source"], entry["usable_as_target"]) for entry in entries
    }
    assert flags == {
        "de": (False, True),
        "en": (True, True),
        "en-GB": (False, True),
        "en-US": (False, True),
        "pt": (False, True),
        "pt-BR": (False, True),
        "pt-PT": (False, True),
        "zh": (True, False),
        "zh-Hans": (True, False),
    }
    for entry in entries:
        assert entry["name"]
        assert entry["status"] == "stable"
        # As a feature, it makes Weblate offer variants that no model has.
        assert "formality" not in entry["features"]


def test_languages_of_what_is_not_offered(client):
    assert client.get("/v3/languages?resource=write").json() == []
    assert "translate_text" in message(client.get("/v3/languages?resource=x"), 400)
    assert "source or target" in message(client.get("/v2/languages?type=x"), 400)


def test_language_pairs_of_glossaries_have_base_languages(client):
    pairs = client.get("/v2/glossary-language-pairs").json()["supported_languages"]
    assert [(pair["source_lang"], pair["target_lang"]) for pair in pairs] == [
        ("en", "de"),
        ("en", "pt"),
        ("zh", "de"),
        ("zh", "en"),
        ("zh", "pt"),
    ]


# Usage, and what the server does not offer.


def test_a_server_without_quotas_is_unlimited(client):
    # With a limit of 0, the official clients believe that the limit is reached.
    expected = {"character_count": 0, "character_limit": 10**12}
    assert client.get("/v2/usage").json() == expected
    assert client.post("/v2/usage").json() == expected


@pytest.mark.parametrize(
    "path",
    ["/v2/write/rephrase", "/v2/write/correct", "/v3/style_rules", "/v3/translation_memories"],
)
def test_what_the_server_does_not_offer(client, path):
    assert message(client.post(path, json={"text": ["x"], "target_lang": "de"}), 404)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/nothing", 404),
        ("POST", "/v3/voice/realtime", 404),
        ("GET", "/v2", 404),
        ("GET", "/v2/translate", 405),
        ("DELETE", "/v2/languages", 405),
        ("POST", "/v2/translate/", 404),
        ("PUT", "/v3/glossaries", 405),
    ],
)
def test_other_addresses_and_methods_have_a_message_too(client, method, path, status):
    assert message(client.request(method, path), status)


# Mistakes.


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"target_lang": "DE"}, "text is missing"),
        ({"text": [], "target_lang": "DE"}, "text is missing"),
        ({"text": ["x"]}, "target_lang is missing"),
        ({"text": 5, "target_lang": "DE"}, "text must be"),
        ({"text": [5], "target_lang": "DE"}, "text must be"),
        ({"text": ["x"], "target_lang": "XX"}, "XX"),
        ({"text": ["x"], "target_lang": "DE", "source_lang": "XX"}, "XX"),
        ({"text": ["x"], "target_lang": "EN", "source_lang": "DE"}, "EN"),
        ({"text": ["x"], "target_lang": "DE", "tag_handling": "rtf"}, "xml or html"),
        ({"text": ["x"], "target_lang": "DE", "split_sentences": "2"}, "nonewlines"),
        ({"text": ["x"], "target_lang": "DE", "formality": "rude"}, "prefer_more"),
        ({"text": ["x"], "target_lang": "DE", "glossary_id": "x"}, "source_lang"),
        (["x"], "JSON object"),
    ],
)
def test_a_wrong_value_is_explained(client, body, part):
    assert part in message(client.post("/v2/translate", json=body), 400)


def test_an_unknown_glossary_is_not_found(client):
    body = {"text": ["x"], "source_lang": "EN", "target_lang": "DE", "glossary_id": "x"}
    assert "glossary" in message(client.post("/v2/translate", json=body), 404)


def test_too_much_text_is_refused(client):
    limits = Limits()
    body = {"text": ["x"] * (limits.texts + 1), "target_lang": "DE", "source_lang": "EN"}
    assert message(client.post("/v2/translate", json=body), 413)
    body["text"] = ["x" * (limits.characters + 1)]
    assert message(client.post("/v2/translate", json=body), 413)
    body["text"] = ["x" * (limits.body_bytes + 1)]
    assert message(client.post("/v2/translate", json=body), 413)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values),
    max_leaves=5,
)
NAMES = [
    "text",
    "source_lang",
    "target_lang",
    "type",
    "resource",
    "name",
    "entries",
    "document_key",
]
PATHS = [
    "/v2/translate",
    "/v2/languages",
    "/v3/languages",
    "/v2/usage",
    "/v2/glossaries",
    "/v3/glossaries",
    "/v3/glossaries/x/dictionaries",
    "/v2/document",
    "/v2/document/x",
    "/v2/document/x/result",
]


@given(
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]),
    st.sampled_from(PATHS),
    st.dictionaries(st.sampled_from([*NAMES, *WITHOUT_EFFECT, "dictionaries"]), VALUES),
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_is_an_error_of_the_server(client, method, path, body):
    response = client.request(method, path, content=json.dumps(body).encode())
    assert response.status_code < 500, (response.status_code, response.text)
    if response.status_code >= 400:
        assert isinstance(response.json()["message"], str)


def test_every_error_has_a_status_that_the_clients_know():
    # The official clients do not expect 401 and 422. Weblate gives up for 30 minutes after 429, 456
    # and 503, so an overloaded server must not use them.
    statuses = {
        kind: deepl.error_response(ServiceError(kind, "Why.")).status_code
        for kind in get_args(ErrorKind)
    }
    assert statuses == {
        "bad_request": 400,
        "unknown_language": 400,
        "missing_pair": 400,
        "too_long": 413,
        "not_found": 404,
        "unsupported": 404,
        "key_missing": 403,
        "key_invalid": 403,
        "forbidden": 403,
        "quota": 456,
        "rate": 429,
        "not_ready": 503,
        "overloaded": 529,
        "internal": 500,
    }
    for kind in get_args(ErrorKind):
        response = deepl.error_response(ServiceError(kind, "Why."))
        assert json.loads(response.body) == {"message": "Why."}


# Keys.


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that requires keys."""
    folder = tmp_path_factory.mktemp("guarded")
    run = write_stub(folder / "run", function="upper")
    with live_server(folder, run, requires_keys=True) as live:
        yield live


def ask(server, headers=None, **places):
    with httpx.Client(base_url=server.url, headers=headers) as http:
        body = {"text": ["Hi."], "target_lang": "DE", "source_lang": "EN"}
        return http.post(
            "/v2/translate",
            data={**body, **places.get("form", {})},
            params=places.get("query"),
        )


def test_the_key_is_read_from_header_form_and_query(guarded):
    key = guarded.context.state.add_key("a client")
    for scheme in ("DeepL-Auth-Key", "deepl-auth-key"):
        assert ask(guarded, {"Authorization": f"{scheme} {key}"}).status_code == 200
    assert ask(guarded, form={"auth_key": key}).status_code == 200
    assert ask(guarded, query={"auth_key": key}).status_code == 200


@pytest.mark.parametrize("path", ["/v2/languages", "/v2/usage", "/v3/languages", "/v2/glossaries"])
def test_a_wrong_or_missing_key_is_forbidden(guarded, path):
    wrong = {"Authorization": "DeepL-Auth-Key wrong"}
    for headers in (wrong, {}, {"Authorization": "Bearer x"}, {"Authorization": "DeepL-Auth-Key"}):
        assert message(ask(guarded, headers), 403)
        with httpx.Client(base_url=guarded.url, headers=headers) as http:
            assert message(http.get(path), 403)
    assert message(ask(guarded, form={"auth_key": "wrong"}), 403)


def test_a_server_without_keys_takes_any_key_or_none(server):
    for headers in ({"Authorization": "DeepL-Auth-Key x:fx"}, {}):
        assert ask(server, headers).status_code == 200


def test_a_quota_is_counted_and_ends(guarded):
    key = guarded.context.state.add_key("a client", characters_per_month=8)
    headers = {"Authorization": f"DeepL-Auth-Key {key}"}
    for _ in range(2):
        assert ask(guarded, headers).status_code == 200
    assert message(ask(guarded, headers), 456)
    with httpx.Client(base_url=guarded.url, headers=headers) as http:
        assert http.get("/v2/usage").json() == {"character_count": 6, "character_limit": 8}


def test_a_rate_ends(guarded):
    key = guarded.context.state.add_key("a client", requests_per_minute=2)
    statuses = [ask(guarded, form={"auth_key": key}).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]


def test_a_key_without_the_scope_is_forbidden(guarded):
    key = guarded.context.state.add_key("a client", scopes=["translate"])
    headers = {"Authorization": f"DeepL-Auth-Key {key}"}
    with httpx.Client(base_url=guarded.url, headers=headers) as http:
        assert "glossaries" in message(http.get("/v2/glossaries"), 403)
        assert "documents" in message(http.post("/v2/document/x", data={"document_key": "x"}), 403)
        # Weblate would give up for 30 minutes after that; so it must not try.
        assert http.get("/v2/glossary-language-pairs").json() == {"supported_languages": []}
        assert http.get("/v3/languages?resource=glossary").json() == []
        assert http.get("/v3/languages?resource=translate_document").json() == []
        assert http.get("/v3/languages?resource=translate_text").json()


# Overload.


def test_an_overloaded_server_says_so_at_once_and_charges_nothing(guarded):
    """529: the official clients try again, and Weblate goes on using the server."""
    headers = {"Authorization": f"DeepL-Auth-Key {guarded.context.state.add_key('a client')}"}
    (model,) = guarded.models.versions.values()
    speed, model.queue.speed = model.queue.speed, 10.0  # Tokens per second.
    try:
        body = {"text": ["A text.", "Another."] * 20, "target_lang": "DE", "source_lang": "EN"}
        with httpx.Client(base_url=guarded.url, headers=headers) as http:
            response = http.post("/v2/translate", json=body)
            assert message(response, 529)
            assert response.elapsed.total_seconds() < 1.0
            assert http.get("/v2/usage").json()["character_count"] == 0
    finally:
        model.queue.speed = speed


def test_each_language_waits_for_its_own_texts_only(tmp_path):
    """Two queues work at the same time: half of the texts in each is in time."""
    runs = [
        write_stub(tmp_path / source, source=source, target="fr", function="upper")
        for source in ("en", "de")
    ]
    english, german = "This is a sentence in English.", "Das ist ein Satz auf Deutsch."
    body = {"text": [english, german] * 10, "target_lang": "FR"}
    with live_server(tmp_path, *runs) as live, httpx.Client(base_url=live.url) as http:
        headers = {"Authorization": "DeepL-Auth-Key k"}
        for version in live.models.versions.values():
            version.queue.speed = 16.0  # Tokens per second.
        response = http.post("/v2/translate", json=body, headers=headers)
        assert response.status_code == 200, response.text
        body["text"] *= 2
        for version in live.models.versions.values():
            version.queue.speed = 16.0
        assert message(http.post("/v2/translate", json=body, headers=headers), 529)
