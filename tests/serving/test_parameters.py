"""Are the parameters of a request read in all encodings, and is every bad body refused?"""

import asyncio
import json
import os
import stat
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from dragoman.serving.interface import Limits, ServiceError
from dragoman.serving.parameters import Parameters, read_parameters

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
MULTIPART = "multipart/form-data; boundary=XX"
LIMITS = Limits(body_seconds=5.0)


def make_request(
    body: bytes = b"",
    content_type: str = "",
    query: bytes = b"",
    chunk: int = 1 << 16,
    receive: Callable[[], Awaitable[dict[str, object]]] | None = None,
    **headers: str,
) -> Request:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    if content_type:
        names["content-type"] = content_type
    pieces = [body[start : start + chunk] for start in range(0, len(body), chunk)] or [b""]

    async def send_pieces() -> dict[str, object]:
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": query,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in names.items()],
    }
    return Request(scope, receive or send_pieces)


def read(
    body: bytes = b"",
    content_type: str = "",
    query: bytes = b"",
    limits: Limits = LIMITS,
    uploads: Path | None = None,
    chunk: int = 1 << 16,
    **headers: str,
) -> Parameters:
    request = make_request(body, content_type, query, chunk, **headers)
    return asyncio.run(read_parameters(request, limits, uploads))


def refusal(*arguments: object, **options: object) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        read(*arguments, **options)  # type: ignore[arg-type]
    return caught.value


def multipart(*parts: tuple[str, bytes]) -> bytes:
    """Write parts; the first item is what follows `form-data; `."""
    lines = [
        b"--XX\r\nContent-Disposition: form-data; " + header.encode() + b"\r\n\r\n" + data + b"\r\n"
        for header, data in parts
    ]
    return b"".join(lines) + b"--XX--\r\n"


# No surrogates: they cannot be sent in a form, and JSON with them is refused.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@settings(max_examples=40)
@given(TEXTS, st.integers(1, 40))
def test_all_encodings_give_the_same_text(text: str, chunk: int) -> None:
    form = urlencode({"q": text}).encode()
    bodies = [
        (json.dumps({"q": text}).encode(), JSON, b""),
        (
            json.dumps({"q": text}, ensure_ascii=False).encode(),
            "application/json; charset=utf-8",
            b"",
        ),
        (json.dumps({"q": text}).encode(), "text/plain; charset=utf-8", b""),
        (json.dumps({"q": text}).encode(), "", b""),
        (form, FORM, b""),
        (form, "", b""),
        (b"", "", form),
        (b"", JSON, form),
    ]
    if b"XX" not in text.encode():
        bodies.append((multipart(('name="q"', text.encode())), MULTIPART, b""))
    for body, content_type, query in bodies:
        parameters = read(body, content_type, query, chunk=chunk)
        assert parameters.text("q", "absent") == text, content_type
        assert parameters.texts("q") == (text,)
        assert not parameters.is_list("q")


def test_a_list_is_known_as_a_list() -> None:
    parameters = read(b'{"q": ["a"], "one": "a", "none": null, "empty": []}', JSON)
    assert parameters.texts("q") == ("a",)
    assert parameters.is_list("q")
    assert not parameters.is_list("one")
    assert not parameters.has("none")
    assert parameters.text("none", "default") == "default"
    assert parameters.texts("none") == ()
    assert parameters.has("empty")
    assert parameters.is_list("empty")
    repeated = read(b"text=a&text=b&one=c", FORM)
    assert repeated.texts("text") == ("a", "b")
    assert repeated.is_list("text")
    assert not repeated.is_list("one")
    # LibreTranslate uses the first of a repeated field.
    assert repeated.text("text") == "a"


def test_a_body_hides_the_query_string() -> None:
    query = b"target=fr&source=en"
    assert read(b'{"target": "de"}', JSON, query).text("target") == "de"
    assert read(b'{"target": "de"}', JSON, query).text("source") == "en"
    merged = read(b"target=de", FORM, query)
    assert (merged.texts("target"), merged.text("source")) == (("de",), "en")
    parts = read(multipart(('name="target"', b"de")), MULTIPART, query)
    assert (parts.texts("target"), parts.text("source")) == (("de",), "en")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *[(True, True), (False, False), (1, True), (0, False), ("1", True), ("0", False)],
        *[("true", True), ("False", False), ("", None), (None, None)],
    ],
)
def test_flags(value: object, expected: bool | None) -> None:
    parameters = read(json.dumps({"flag": value}).encode(), JSON)
    for default in (True, False):
        assert parameters.flag("flag", default) is (default if expected is None else expected)


def test_numbers_and_names() -> None:
    parameters = read(b'{"a": 3, "b": "4", "c": null, "d": 0.5, "e": " -2 "}', JSON)
    assert [parameters.integer(name, 9) for name in "abcex"] == [3, 4, 9, -2, 9]
    assert [parameters.number(name, 9.0) for name in "abdx"] == [3.0, 4.0, 0.5, 9.0]
    assert read(b"n=x, y,,z", FORM).names("n") == ("x", "y", "z")
    assert read(b"n=x&n=y", FORM).names("n") == ("x", "y")
    assert read(b'{"n": ["x", "y"]}', JSON).names("n") == ("x", "y")


@pytest.mark.parametrize(
    ("method", "value"),
    [("text", 5), ("text", ["a"]), ("text", {"a": 1}), ("text", True)]
    + [("texts", 5), ("texts", ["a", 5]), ("texts", ["a", None]), ("texts", {})]
    + [("flag", "maybe"), ("flag", 2), ("flag", [True]), ("names", 3), ("objects", [1])]
    + [("objects", "a"), ("number", "x"), ("number", True)]
    + [("integer", value) for value in ("x", 1.5, True, [], "99999999999", 10**12, "³")],
)
def test_a_value_of_a_wrong_type_is_refused(method: str, value: object) -> None:
    parameters = read(json.dumps({"name": value}).encode(), JSON)
    arguments = [0] if method in ("integer", "number") else []
    with pytest.raises(ServiceError) as caught:
        getattr(parameters, method)("name", *arguments)
    assert caught.value.kind == "bad_request"
    assert "name" in caught.value.message


def test_objects_in_json_and_in_a_form() -> None:
    entries = [{"source_lang": "en", "entries": "a\tb"}, {"source_lang": "de"}]
    sent = read(json.dumps({"name": "n", "dictionaries": entries}).encode(), JSON)
    fields = {
        "name": "n",
        "dictionaries[1].source_lang": "de",
        "dictionaries[0].source_lang": "en",
        "dictionaries[0].entries": "a\tb",
    }
    dotted = read(urlencode(fields).encode(), FORM)
    for parameters in (sent, dotted):
        first, second = parameters.objects("dictionaries")
        assert (first.text("source_lang"), first.text("entries")) == ("en", "a\tb")
        assert second.text("source_lang") == "de"
    assert read().objects("dictionaries") == ()


def test_files_are_written_for_this_user_only(tmp_path: Path) -> None:
    content = os.urandom(100_000)
    before = multipart(
        ('name="file"; filename="../../a\\b/note.txt"', content), ('name="t"', b"de")
    )
    after = multipart(('name="t"', b"de"), ('name="file"; filename="note.txt"', content))
    for body in (before, after):
        for chunk in (997, 1 << 16):
            parameters = read(body, MULTIPART, uploads=tmp_path, chunk=chunk)
            upload = parameters.file("file")
            assert upload is not None
            assert (upload.name, upload.size) == ("note.txt", len(content))
            assert upload.path.read_bytes() == content
            assert stat.S_IMODE(upload.path.stat().st_mode) == 0o600
            assert upload.path.parent == tmp_path
            assert parameters.text("t") == "de"
            parameters.remove_files()
            assert list(tmp_path.iterdir()) == []
    empty = read(multipart(('name="file"; filename=""', b"")), MULTIPART, uploads=tmp_path)
    assert empty.file("file") is None
    assert list(tmp_path.iterdir()) == []


def test_file_names_are_clean(tmp_path: Path) -> None:
    for sent, expected in [
        ("Übung.docx", "Übung.docx"),
        ("a\x07b.txt", "ab.txt"),
        ("x" * 500 + ".txt", "x" * 196 + ".txt"),
        ("..", ".."),
    ]:
        body = multipart((f'name="file"; filename="{sent}"', b"x"))
        parameters = read(body, MULTIPART, uploads=tmp_path)
        upload = parameters.file("file")
        assert upload is not None
        assert upload.name == expected
        assert upload.path.name.startswith("upload-")
        parameters.remove_files()


def test_a_refused_upload_leaves_no_file(tmp_path: Path) -> None:
    limits = replace(LIMITS, upload_bytes=1000, body_bytes=1000)
    file_header = 'name="file"; filename="a.txt"'
    bodies = {
        "too_long": multipart((file_header, b"x" * 1001)),
        "bad_request": multipart((file_header, b"x"), ("nothing", b"y")),
    }
    for kind, body in bodies.items():
        assert refusal(body, MULTIPART, limits=limits, uploads=tmp_path).kind == kind
        assert list(tmp_path.iterdir()) == []
    truncated = multipart((file_header, b"x" * 500))[:-40]
    assert refusal(truncated, MULTIPART, limits=limits, uploads=tmp_path).kind == "bad_request"
    assert list(tmp_path.iterdir()) == []
    assert "files" in refusal(multipart((file_header, b"x")), MULTIPART).message


BAD_JSON = {
    "nested lists": b'{"q": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "nested objects": b'{"q":' * 100_000 + b"1" + b"}" * 100_000,
    "nested just too deep": b'{"q": ' + b"[" * 50 + b"]" * 50 + b"}",
    "unfinished nesting": b"[" * 100_000,
    "NaN": b'{"q": NaN}',
    "infinity": b'{"q": -Infinity}',
    "very large integer": b'{"q": ' + b"9" * 100_000 + b"}",
    "duplicate key": b'{"q": "a", "q": "b"}',
    "lone surrogate": b'{"q": "\\ud800"}',
    "lone surrogate in a list": b'{"q": ["\\udc00"]}',
    "lone surrogate in a key": b'{"\\udc00": 1}',
    "encoded surrogate": b'{"q": "\xed\xa0\x80"}',
    "not UTF-8": b'{"q": "\xff"}',
    "UTF-16": '{"q": "a"}'.encode("utf-16"),
    "list": b"[1]",
    "string": b'"q"',
    "null": b"null",
    "unfinished": b"{",
    "trailing": b'{"q": "a"} {"q": "b"}',
    "control character": b'{"q": "a\nb"}',
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_bad_json_is_refused(name: str) -> None:
    assert refusal(BAD_JSON[name], JSON).kind == "bad_request"


def test_good_json_at_the_limits() -> None:
    nested = b'{"q": "a", "x": ' + b"[" * 49 + b"]" * 49 + b"}"
    assert read(nested, JSON).text("q") == "a"
    assert read(b'{"q": "\\ud83d\\ude00"}', JSON).text("q") == "😀"
    assert read(b'\xef\xbb\xbf{"q": "a"}', JSON).text("q") == "a"


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" + "0" * 4000, "1e10"])
def test_large_numbers_are_refused_where_a_number_is_read(number: str) -> None:
    parameters = read(b'{"q": "a", "n": ' + number.encode() + b"}", JSON)
    assert parameters.text("q") == "a"
    for method in ("integer", "number", "flag", "text"):
        arguments = [0] if method in ("integer", "number") else []
        with pytest.raises(ServiceError, match="n must be"):
            getattr(parameters, method)("n", *arguments)


def test_the_wrong_end_of_subtitle_edits_requests_is_ignored() -> None:
    """It sends JSON as plain text and writes `]}` after it."""
    for end in (b"]}", b" ]}\n", b""):
        parameters = read(b'{ "target_lang": "DE", "text": "a ]}" }' + end, "text/plain")
        assert parameters.text("text") == "a ]}"
    nested = read(b'{"dictionaries": [{"name": "a"}]}', "text/plain")
    assert nested.objects("dictionaries")[0].text("name") == "a"
    assert refusal(b'{"text": "a"}]}', JSON).kind == "bad_request"
    for body in (b'{"text": "a"}}', b'{"text": }]}', b'{"text": "a"}]}]}', b"{]}"):
        assert refusal(body, "text/plain").kind == "bad_request"


def test_bad_bodies_leave_no_trace_in_the_log(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for body, content_type in BAD_FORMS.values():
        refusal(body, content_type)
    assert caplog.text == ""
    assert capsys.readouterr() == ("", "")


BAD_FORMS = {
    "not UTF-8": (b"q=%ff", FORM),
    "encoded surrogate": (b"q=%ed%a0%80", FORM),
    "too many fields": (b"q=1&" * 2001, FORM),
    "other type": (b"<q/>", "application/xml"),
    "binary": (b"\x00\x01", "application/octet-stream"),
    "no boundary": (multipart(('name="q"', b"a")), "multipart/form-data"),
    "long boundary": (b"--", "multipart/form-data; boundary=" + "b" * 1000),
    "other boundary": (multipart(('name="q"', b"a")), "multipart/form-data; boundary=YY"),
    "not multipart": (b"q=a", MULTIPART),
    "unfinished multipart": (multipart(('name="q"', b"a"))[:-6], MULTIPART),
    "part without a name": (multipart(("x", b"a")), MULTIPART),
    "many parts": (multipart(*[('name="q"', b"a")] * 2001), MULTIPART),
    "binary field": (multipart(('name="q"', b"\xff")), MULTIPART),
    "binary name": (
        b'--XX\r\nContent-Disposition: form-data; name="\xff"\r\n\r\n1\r\n--XX--',
        MULTIPART,
    ),
    "many headers": (b"--XX\r\n" + b"a: b\r\n" * 1000 + b"\r\n\r\n--XX--", MULTIPART),
    "long header": (b"--XX\r\na: " + b"b" * 100_000 + b"\r\n\r\n\r\n--XX--", MULTIPART),
}


@pytest.mark.parametrize("name", BAD_FORMS)
def test_bad_forms_are_refused(name: str) -> None:
    body, content_type = BAD_FORMS[name]
    assert refusal(body, content_type).kind in ("bad_request", "too_long")


def test_bad_query_strings_and_compressed_bodies_are_refused() -> None:
    assert refusal(query=b"q=%ff").kind == "bad_request"
    assert refusal(query=b"q=\xff").kind == "bad_request"
    assert refusal(query=b"&" * 3000).kind == "too_long"
    assert refusal(b"\x1f\x8b", JSON, content_encoding="gzip").kind == "bad_request"
    assert read(query="q=grün|a&x".encode()).text("q") == "grün|a"


def test_an_empty_body_of_any_type_has_no_parameters() -> None:
    for content_type in ("", JSON, FORM, MULTIPART, "multipart/form-data", "text/plain", "a/b"):
        assert read(b"", content_type, b"q=a").text("q") == "a"


@pytest.mark.parametrize("content_type", [JSON, FORM, MULTIPART, "text/plain", ""])
def test_reading_stops_at_the_limit(content_type: str) -> None:
    limits = replace(LIMITS, body_bytes=300_000)
    received = 0
    start = multipart(('name="q"', b""))[:-10] if content_type == MULTIPART else b'{"q": "'
    chunk_bytes = 1 << 16

    async def receive() -> dict[str, object]:
        nonlocal received
        chunk = start if not received else b"x" * chunk_bytes
        received += len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": True}

    request = make_request(content_type=content_type, receive=receive)
    with pytest.raises(ServiceError) as caught:
        asyncio.run(read_parameters(request, limits))
    assert caught.value.kind == "too_long"
    # LibreTranslate's clients look for these words.
    assert "exceeds text limit" in caught.value.message
    assert received <= limits.body_bytes + chunk_bytes


@pytest.mark.parametrize("length", ["300001", "9" * 5000])
def test_a_declared_length_is_refused_without_reading(length: str) -> None:
    async def receive() -> dict[str, object]:
        raise AssertionError("the body was read")

    request = make_request(content_type=JSON, receive=receive, content_length=length)
    with pytest.raises(ServiceError) as caught:
        asyncio.run(read_parameters(request, replace(LIMITS, body_bytes=300_000)))
    assert caught.value.kind == "too_long"


@pytest.mark.parametrize("content_type", [JSON, FORM, MULTIPART])
def test_a_slow_body_is_refused(content_type: str, tmp_path: Path) -> None:
    pieces = [multipart(('name="file"; filename="a"', b"x" * 50))[:90]]

    async def receive() -> dict[str, object]:
        if not pieces:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": pieces.pop(), "more_body": True}

    request = make_request(content_type=content_type, receive=receive)
    with pytest.raises(ServiceError) as caught:
        asyncio.run(read_parameters(request, replace(LIMITS, body_seconds=0.05), tmp_path))
    assert "0.05 seconds" in caught.value.message
    assert list(tmp_path.iterdir()) == []


CONTENT_TYPES = st.one_of(
    st.sampled_from(["", JSON, FORM, MULTIPART, "text/plain", "application/x+json"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=40),
    st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=10).map(
        lambda end: "multipart/form-data; boundary=" + end
    ),
)
JSON_LIKE = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.floats(),
        st.integers(),
        # With lone surrogates.
        st.text(st.characters(codec=None)),
    ),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
BODIES = st.one_of(
    st.binary(max_size=300),
    JSON_LIKE.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(st.sampled_from(["q", "n", "o"]), JSON_LIKE).map(
        lambda value: json.dumps(value).encode()
    ),
    st.lists(st.tuples(st.text('qno;=" \r\n', max_size=8), st.binary(max_size=9)), max_size=4).map(
        lambda parts: multipart(*parts)
    ),
    st.text(max_size=100).map(lambda text: b"q=" + quote(text, errors="replace").encode()),
)


@pytest.fixture(scope="module")
def uploads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uploads")


@given(BODIES, CONTENT_TYPES, st.binary(max_size=40), st.integers(1, 64))
def test_every_input_is_read_or_refused(
    uploads: Path,
    body: bytes,
    content_type: str,
    query: bytes,
    chunk: int,
) -> None:
    """Nothing but a ServiceError comes out, and all strings can be sent back."""
    try:
        parameters = read(body, content_type, query, uploads=uploads, chunk=chunk)
    except ServiceError as error:
        assert error.kind in ("bad_request", "too_long")
        assert list(uploads.iterdir()) == []
        return
    for method in ("text", "texts", "flag", "names", "integer", "number", "objects"):
        arguments = [0] if method in ("integer", "number") else []
        for name in ("q", "n", "o", ""):
            try:
                value = getattr(parameters, method)(name, *arguments)
            except ServiceError as error:
                assert error.kind == "bad_request"
                continue
            str(value).encode()
    parameters.remove_files()
    assert list(uploads.iterdir()) == []
