"""Our own API: results, errors, limits, keys, documents, and its OpenAPI document."""

import json
import time

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from dragoman.serving.apis.native_results import split_text
from dragoman.serving.interface import Limits
from support.deepl_server import live_server
from support.serving import write_stub

CANARY = "zebrafish"
PO = (
    b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "Save %s"\nmsgstr ""\n'
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    runs = (
        write_stub(folder / "en-de", function="upper", source="en", target="de", version="v1"),
        write_stub(folder / "de-en", function="echo", source="de", target="en", version="v2"),
        write_stub(folder / "en-fr", function="brackets", source="en", target="fr", version="v3"),
    )
    for run in runs:
        (run / "dragoman.json").write_text("{}")  # An export cannot be explained.
    limits = Limits(body_bytes=100_000, upload_bytes=50_000, texts=20, characters=30_000)
    with live_server(folder, *runs, limits=limits) as live:
        yield live


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keyed")
    run = write_stub(folder / "en-de", function="upper", source="en", target="de")
    with live_server(folder, run, requires_keys=True) as live:
        yield live


def translate(client, *texts, **options):
    body = {"texts": list(texts), "source": "en", "target": "de"} | options
    return client.post("/v1/translate", json=body)


def error_kind(answer, status):
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    assert set(answer.json()["error"]) == {"kind", "message"}
    return answer.json()["error"]["kind"]


def test_texts_come_back_in_order(client):
    answer = translate(client, "one two", "", "  ", "three")
    assert answer.status_code == 200
    body = answer.json()
    assert [result["text"] for result in body["translations"]] == ["ONE TWO", "", "  ", "THREE"]
    assert body["characters"] == len("one two" + "  " + "three")
    first = body["translations"][0]
    assert (first["source"], first["confidence"], first["model"]) == ("en", 1.0, "v1")
    assert first["pivot"] is None
    assert first["sentences"] is None


def test_alignment_and_alternatives_only_if_requested(client):
    plain = translate(client, "one two").json()["translations"][0]
    assert plain["alternatives"] == []
    full = translate(client, "one two", alternatives=2, alignment=True).json()["translations"][0]
    assert full["alternatives"] == ["ONE TWO (1)", "ONE TWO (2)"]
    assert full["source_tokens"] == ["▁one", "▁two"]
    assert full["tokens"] == ["▁ONE", "▁TWO"]
    assert full["alignment"] == [[0, 0], [1, 1]]


def test_the_source_is_detected(client):
    text = "The weather is very nice today, and we are going to the beach."
    result = translate(client, text, source=None).json()["translations"][0]
    assert result["source"] == "en"
    assert 0.5 < result["confidence"] <= 1


def test_a_pivot_language_is_named(client):
    result = translate(client, "eins", source="de", target="fr").json()["translations"][0]
    assert (result["text"], result["pivot"], result["model"]) == ("[eins]", "en", "v2+v3")


def test_regions_and_capitals_of_languages(client):
    assert translate(client, "a", source="EN-gb", target="DE_at").status_code == 200


def test_html_keeps_its_tags(client):
    text = '<p>one <b translate="no">two</b> &amp; three</p>'
    for sentences in (False, True):
        answer = translate(client, text, format="html", sentences=sentences).json()
        result = answer["translations"][0]["text"]
        assert result.startswith("<p>ONE ")
        assert '<b translate="no">' in result
        assert "&amp;" in result


def test_an_inline_glossary_is_used(client):
    answer = translate(client, "the bank is here", glossary=[["bank", "Ufer"]])
    assert answer.json()["translations"][0]["text"] == "THE UFER IS HERE"


def test_results_by_sentence_join_to_the_text(client):
    text = "  Mr. Smith is here. He waits!\n\nAnd now?  "
    result = translate(client, text, sentences=True, alignment=True).json()["translations"][0]
    sentences = result["sentences"]
    assert [one["source"] for one in sentences if one["source"]] == [
        "Mr. Smith is here.",
        "He waits!",
        "And now?",
    ]
    assert "".join(one["source"] + one["source_gap"] for one in sentences) == text
    assert "".join(one["text"] + one["gap"] for one in sentences) == result["text"] == text.upper()
    assert all(one["alignment"] for one in sentences if one["source"])
    assert result["score"] is None


def test_the_log_counts_texts_and_not_sentences(client, caplog):
    caplog.set_level("INFO", "dragoman.serving")
    texts = ("One is here.  Two is here.", "Three is here.")
    assert translate(client, *texts, sentences=True).status_code == 200
    end = time.monotonic() + 30
    # The line is written after the answer is sent.
    while not (lines := [record for record in caplog.records if record.getMessage() == "request"]):
        assert time.monotonic() < end
        time.sleep(0.01)
    (line,) = lines
    assert (line.fields["texts"], line.fields["characters"]) == (2, sum(map(len, texts)))


def test_one_sentence_has_its_facts_in_the_text_too(client):
    result = translate(client, "one two", sentences=True, alignment=True).json()["translations"][0]
    assert result["alignment"] == result["sentences"][0]["alignment"] == [[0, 0], [1, 1]]
    assert result["score"] is not None


@given(st.text(alphabet="Ab .!?\n\t\r。　é", max_size=60), st.sampled_from(["en", "ja", "xx"]))
@settings(max_examples=200)
def test_sentences_and_gaps_join_to_any_text(text, language):
    pieces = split_text(text, language)
    assert "".join(piece.text + piece.gap for piece in pieces) == text
    assert all(piece.text == piece.text.strip() for piece in pieces)
    assert all(piece.text or not number for number, piece in enumerate(pieces))


def test_detection(client):
    detections = client.post("/v1/detect", json={"text": "Guten Morgen, wie geht es?"}).json()
    assert detections["detections"][0]["language"] == "de"


def test_languages_and_models(client, server):
    languages = client.get("/v1/languages").json()
    assert {"source": "de", "target": "fr", "pivot": "en"} in languages["pairs"]
    by_code = {language["code"]: language for language in languages["languages"]}
    assert by_code["de"]["name"] == "German"
    assert set(by_code["en"]["targets"]) == {"de", "fr"}
    models = client.get("/v1/models").json()
    assert {model["version"] for model in models["models"]} == {"v1", "v2", "v3"}
    assert models["requires_key"] is False
    assert models["can_explain"] is server.context.service.can_explain is False
    assert ".docx" in models["document_extensions"]
    assert models["limits"]["texts"] == 20


def test_an_explanation_that_is_not_possible_has_a_reason(client):
    answer = client.post("/v1/explain", json={"text": "one", "source": "en", "target": "de"})
    assert error_kind(answer, 501) == "unsupported"
    assert answer.json()["error"]["message"]


def test_a_suggestion_is_stored(client, server):
    body = {
        "source": "en",
        "target": "de",
        "source_text": "one",
        "machine_text": "ONE",
        "suggestion": "eins",
        "model": "v1",
    }
    answer = client.post("/v1/suggestions", json=body)
    assert answer.status_code == 201
    stored = next(one for one in server.context.state.suggestions() if one.suggestion == "eins")
    assert stored.id == answer.json()["id"]
    assert (stored.source_text, stored.machine_text, stored.model) == ("one", "ONE", "v1")
    # If the client does not name the version, it is the one that is used now.
    del body["model"]
    body["suggestion"] = "eine"
    client.post("/v1/suggestions", json=body)
    stored = next(one for one in server.context.state.suggestions() if one.suggestion == "eine")
    assert stored.model == client.get("/v1/models").json()["models"][0]["version"] != ""


def test_health(client, server):
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").status_code == 200
    server.context.service.is_ready = False
    try:
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
    finally:
        server.context.service.is_ready = True


@pytest.mark.parametrize(
    ("options", "status", "kind"),
    [
        ({"target": "xx"}, 404, "unknown_language"),
        ({"source": "fr"}, 404, "missing_pair"),
        ({"target": f"{CANARY} {CANARY}"}, 400, "bad_request"),
        ({"format": CANARY}, 400, "bad_request"),
        ({CANARY: 1}, 400, "bad_request"),
        ({"alternatives": 99}, 400, "bad_request"),
        ({"alternatives": "1"}, 400, "bad_request"),
        ({"alignment": 1}, 400, "bad_request"),
        ({"texts": []}, 400, "bad_request"),
        ({"texts": CANARY}, 400, "bad_request"),
        ({"texts": [CANARY, 5]}, 400, "bad_request"),
        ({"texts": ["a"] * 21}, 413, "too_long"),
        ({"texts": ["a" * 30_001]}, 413, "too_long"),
        ({"texts": ["a" * 20_001], "sentences": True}, 413, "too_long"),
        ({"texts": ["a" * 200_000]}, 413, "too_long"),
        ({"glossary": [[CANARY]]}, 400, "bad_request"),
        ({"glossary": [[CANARY, " "]]}, 400, "bad_request"),
    ],
    ids=str,
)
def test_refused_translations(client, options, status, kind):
    answer = translate(client, CANARY, **options)
    assert error_kind(answer, status) == kind
    assert CANARY not in answer.text
    assert "detail" not in answer.json()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b'{"texts": ["a"], "target": "de", "target": "fr"}',
        b'{"texts": ["\\ud800"], "target": "de"}',
        b'{"texts": ["a"], "target": "de", "alternatives": NaN}',
        b'{"texts": ["a"], "target": "de", "alternatives": ' + b"9" * 5000 + b"}",
        b"[" * 30_000,
        b'{"texts": [' + b"[" * 100 + b"]" * 100 + b'], "target": "de"}',
    ],
    ids=lambda body: repr(body[:40]),
)
def test_malformed_bodies(client, body):
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/translate", content=body, headers=headers)
    assert error_kind(answer, 400) == "bad_request"


def test_content_types(client):
    body = json.dumps({"texts": ["a"], "source": "en", "target": "de"})
    for content_type, status in (
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("APPLICATION/JSON", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        (None, 415),
    ):
        headers = {"Content-Type": content_type} if content_type else {}
        answer = client.post("/v1/translate", content=body, headers=headers)
        assert answer.status_code == status, content_type


@pytest.mark.parametrize("path", ["/v1/translate", "/v1/models", "/healthz"])
def test_wrong_methods_name_the_right_one(client, path):
    answer = client.delete(path)
    assert error_kind(answer, 405)
    assert answer.headers["allow"] in ("GET", "POST", "GET, HEAD")


def test_an_unknown_path(client):
    assert error_kind(client.get("/v1/nothing"), 404) == "not_found"


def headers_with(key):
    return {"Authorization": f"Bearer {key}"}


def test_keys(keyed):
    state = keyed.context.state
    secret = state.add_key("reader", ("translate",), 10, 0)
    with httpx.Client(base_url=keyed.url, timeout=30) as client:
        body = {"texts": ["12345"], "source": "en", "target": "de"}
        missing = client.post("/v1/translate", json=body)
        assert error_kind(missing, 401) == "key_missing"
        assert missing.headers["www-authenticate"] == "Bearer"
        wrong = client.post("/v1/translate", json=body, headers=headers_with("x" * 40))
        assert error_kind(wrong, 401) == "key_invalid"
        for header in (f"bearer  {secret}", f"Bearer {secret}"):
            answer = client.post("/v1/translate", json=body, headers={"Authorization": header})
            assert answer.status_code == 200
        empty = client.post("/v1/translate", json=body, headers=headers_with(secret))
        assert error_kind(empty, 402) == "quota"
        suggestion = {
            "source": "en",
            "target": "de",
            "source_text": "a",
            "machine_text": "A",
            "suggestion": "b",
        }
        forbidden = client.post("/v1/suggestions", json=suggestion, headers=headers_with(secret))
        assert error_kind(forbidden, 403) == "forbidden"
        # The page needs these before a key is known.
        assert client.get("/v1/models").json()["requires_key"] is True
        assert client.get("/v1/languages").status_code == 200


def test_a_refused_translation_costs_nothing(keyed):
    state = keyed.context.state
    secret = state.add_key("careful", ("translate",), 100, 0)
    with httpx.Client(base_url=keyed.url, timeout=30) as client:
        body = {"texts": ["12345"], "source": "de", "target": "en"}
        answer = client.post("/v1/translate", json=body, headers=headers_with(secret))
        assert error_kind(answer, 404)
    key = state.find_key(secret)
    assert state.usage(key.id).characters == 0


def test_a_failed_translation_costs_nothing(keyed, monkeypatch):
    async def fail(request, caller):
        raise ZeroDivisionError

    state = keyed.context.state
    secret = state.add_key("unlucky", ("translate",), 100, 0)
    monkeypatch.setattr(keyed.context.service, "translate", fail)
    with httpx.Client(base_url=keyed.url, timeout=30) as client:
        body = {"texts": ["12345"], "source": "en", "target": "de"}
        answer = client.post("/v1/translate", json=body, headers=headers_with(secret))
        assert error_kind(answer, 500) == "internal"
    assert state.usage(state.find_key(secret).id).characters == 0


def test_a_rate_says_when_to_try_again(keyed):
    secret = keyed.context.state.add_key("slow", ("translate",), 0, 1)
    with httpx.Client(base_url=keyed.url, timeout=30) as client:
        headers = headers_with(secret)
        assert client.post("/v1/detect", json={"text": "a"}, headers=headers).status_code == 200
        answer = client.post("/v1/detect", json={"text": "a"}, headers=headers)
        assert error_kind(answer, 429) == "rate"
        assert int(answer.headers["retry-after"]) > 0


def finished(client, job, headers):
    for _ in range(200):
        status = client.get(f"/v1/documents/{job['id']}", headers=headers).json()
        if status["status"] in ("done", "error"):
            return status
        time.sleep(0.05)
    raise AssertionError("the document was not translated")


def test_a_document_is_translated(client):
    files = {"file": ("messages.po", PO)}
    answer = client.post("/v1/documents", files=files, data={"source": "en", "target": "de"})
    assert answer.status_code == 202
    job = answer.json()
    headers = {"Document-Secret": job["secret"]}
    status = finished(client, job, headers)
    assert (status["status"], status["progress"]) == ("done", 1.0)
    assert status["characters"] == len("Save %s")
    result = client.get(f"/v1/documents/{job['id']}/result", headers=headers)
    assert b'msgstr "SAVE %s"' in result.content
    assert "attachment" in result.headers["content-disposition"]
    assert "messages" not in str(result.headers)


def test_a_document_needs_its_secret(client):
    files = {"file": ("a.txt", b"one")}
    job = client.post("/v1/documents", files=files, data={"target": "de", "source": "en"}).json()
    for path in (f"/v1/documents/{job['id']}", f"/v1/documents/{job['id']}/result"):
        assert error_kind(client.get(path), 400) == "bad_request"
        wrong = client.get(path, headers={"Document-Secret": "0" * 64})
        assert error_kind(wrong, 404) == "not_found"
        in_address = client.get(f"{path}?secret={job['secret']}")
        assert in_address.status_code == 400
    finished(client, job, {"Document-Secret": job["secret"]})


def test_a_document_that_cannot_be_read(client):
    files = {"file": ("a.docx", b"not a zip file")}
    job = client.post("/v1/documents", files=files, data={"target": "de", "source": "en"}).json()
    headers = {"Document-Secret": job["secret"]}
    status = finished(client, job, headers)
    assert status["status"] == "error"
    assert status["message"]
    result = client.get(f"/v1/documents/{job['id']}/result", headers=headers)
    assert error_kind(result, 404) == "not_found"


@pytest.mark.parametrize(
    ("name", "data", "status"),
    [
        ("a.xyz", {"target": "de"}, 400),
        ("a.txt", {}, 400),
        ("a.txt", {"target": "xx"}, 404),
        ("a.txt", {"target": "de", CANARY: CANARY}, 400),
    ],
)
def test_refused_documents(client, server, name, data, status):
    answer = client.post("/v1/documents", files={"file": (name, b"one")}, data=data)
    assert error_kind(answer, status)
    assert CANARY not in answer.text
    assert not list(server.context.documents.uploads.iterdir())


def test_a_document_that_is_too_large(client):
    files = {"file": ("a.txt", b"a" * 60_000)}
    answer = client.post("/v1/documents", files=files, data={"target": "de"})
    assert error_kind(answer, 413) == "too_long"


def test_the_document_describes_every_answer(client):
    document = client.get("/v1/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]) == {
        "/v1/translate",
        "/v1/detect",
        "/v1/explain",
        "/v1/suggestions",
        "/v1/documents",
        "/v1/documents/{document_id}",
        "/v1/documents/{document_id}/result",
        "/v1/languages",
        "/v1/models",
        "/healthz",
        "/readyz",
    }
    assert "422" not in json.dumps(document)
    assert "securitySchemes" not in document["components"], "this server needs no keys"
    answer = translate(client, "one. two.", sentences=True, alternatives=1, alignment=True)
    schema = {"$ref": "#/components/schemas/TranslateResponse"} | document
    Draft202012Validator(schema).validate(answer.json())


def test_a_server_with_keys_documents_them(keyed):
    document = httpx.get(f"{keyed.url}/v1/openapi.json").json()
    operation = document["paths"]["/v1/translate"]["post"]
    assert operation["security"] == [{"key": []}]
    assert "401" in operation["responses"]
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
