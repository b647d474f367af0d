"""The DeepL API for glossaries, in both versions, as its clients use it."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import httpx
import pytest

from support.deepl_server import live_server
from support.live_server import live_server as live_process
from support.serving import write_stub

TSV = "artist\tMaler\nprize\tGewinn"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glossaries")
    runs = (
        write_stub(folder / "en-de"),
        write_stub(folder / "en-zh", target="zh-Hant"),
    )
    with live_server(folder, *runs) as live:
        yield live


@pytest.fixture
def client(server):
    """Each test has no glossaries at first."""
    with httpx.Client(base_url=server.url, headers={"Authorization": "DeepL-Auth-Key k"}) as http:
        yield http
        for info in http.get("/v3/glossaries").json()["glossaries"]:
            assert http.delete(f"/v3/glossaries/{info['glossary_id']}").status_code == 204


def dictionary(entries=TSV, source="en", target="de", kind="tsv"):
    return {
        "source_lang": source,
        "target_lang": target,
        "entries": entries,
        "entries_format": kind,
    }


def create_v2(client, **changes):
    response = client.post("/v2/glossaries", json={"name": "terms", **dictionary(), **changes})
    assert response.status_code == 201, response.text
    return response.json()


def create_v3(client, *dictionaries, name="terms"):
    body = {"name": name, "dictionaries": list(dictionaries or [dictionary()])}
    response = client.post("/v3/glossaries", json=body)
    assert response.status_code == 201, response.text
    return response.json()


def entries_v3(client, glossary_id, source="en", target="de"):
    query = {"source_lang": source, "target_lang": target}
    response = client.get(f"/v3/glossaries/{glossary_id}/entries", params=query)
    assert response.status_code == 200, response.text
    (only,) = response.json()["dictionaries"]
    assert only["entries_format"] == "tsv"
    return only["entries"]


def message(response, status):
    assert response.status_code == status, response.text
    (key,) = response.json()
    assert key == "message"
    return response.json()["message"]


# Version 2.


@pytest.mark.parametrize("encoding", ["json", "data"])
def test_version_2_from_creation_to_deletion(client, encoding):
    body = {"name": "weblate:1:EN:DE:4f", **dictionary(source="EN", target="DE")}
    response = client.post("/v2/glossaries", **{encoding: body})
    assert response.status_code == 201
    info = response.json()
    assert set(info) == {
        "glossary_id",
        "name",
        "ready",
        "source_lang",
        "target_lang",
        "creation_time",
        "entry_count",
    }
    assert info["ready"] is True
    assert info["entry_count"] == 2
    assert (info["source_lang"], info["target_lang"]) == ("en", "de")
    path = f"/v2/glossaries/{info['glossary_id']}"
    # Weblate looks for the name in the list at once.
    assert client.get("/v2/glossaries").json() == {"glossaries": [info]}
    assert client.get(path).json() == info
    for accept in ("text/tab-separated-values", "application/json, text/plain, */*"):
        response = client.get(f"{path}/entries", headers={"Accept": accept})
        assert response.headers["content-type"].startswith("text/tab-separated-values")
        assert response.text == TSV
    assert client.delete(path).status_code == 204
    assert client.get("/v2/glossaries").json() == {"glossaries": []}
    for response in (client.get(path), client.delete(path), client.get(f"{path}/entries")):
        assert message(response, 404)


def test_creation_time_always_has_its_fraction(client, server, monkeypatch):
    # deepl-python fails without it; the usual ways to write a time omit a fraction of zero.
    whole = datetime(2026, 3, 1, 12, tzinfo=UTC)
    monkeypatch.setattr(server.context.state, "now", whole.timestamp)
    assert create_v2(client)["creation_time"] == "2026-03-01T12:00:00.000000Z"
    assert create_v3(client)["creation_time"] == "2026-03-01T12:00:00.000000Z"
    monkeypatch.undo()
    shape = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
    assert re.fullmatch(shape, create_v2(client)["creation_time"])


def test_names_come_back_unchanged(client):
    names = ["weblate:12:EN:PT-BR:3d5f", " spaces ", "ünï 名前", "a\tb", '"quoted" & <b>']
    for name in names:
        assert create_v2(client, name=name)["name"] == name
        assert create_v3(client, name=name)["name"] == name
    for version in ("v2", "v3"):
        listed = client.get(f"/{version}/glossaries").json()["glossaries"]
        assert sorted(info["name"] for info in listed) == sorted([*names, *names])


@pytest.mark.parametrize(
    ("entries", "kind", "expected"),
    [
        ("a\tb\n", "tsv", "a\tb"),
        (" a \t b \r\n\r\nc\td", "tsv", "a\tb\nc\td"),
        ('a,b\n"c, d","e ""f"""\n', "csv", 'a\tb\nc, d\te "f"'),
        ("a,b,en,de\n", "csv", "a\tb"),
    ],
)
def test_entries_of_every_client(client, entries, kind, expected):
    info = create_v2(client, entries=entries, entries_format=kind)
    assert client.get(f"/v2/glossaries/{info['glossary_id']}/entries").text == expected


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"name": ""}, "name"),
        ({"name": None}, "name"),
        ({"entries": ""}, "no entries"),
        ({"entries": "only one column"}, "Line 1"),
        ({"entries": "a\tb\na\tc"}, "Line 2"),
        ({"entries": "a\tb\tc"}, "Line 1"),
        ({"entries_format": "xlsx"}, "tsv or csv"),
        ({"source_lang": ""}, "source_lang"),
        ({"target_lang": "XX"}, "not supported"),
        ({"source_lang": "de", "target_lang": "en"}, "not available"),
        ({"entries": ["a"]}, "entries"),
    ],
)
def test_a_wrong_glossary_is_explained(client, changes, part):
    body = {"name": "terms", **dictionary(), **changes}
    assert part in message(client.post("/v2/glossaries", json=body), 400)
    body = {"name": body.pop("name"), "dictionaries": [body]}
    assert part in message(client.post("/v3/glossaries", json=body), 400)


def test_at_most_1000_glossaries(client, monkeypatch):
    monkeypatch.setattr("dragoman.serving.stores.glossaries.MAX_GLOSSARIES", 3)
    infos = [create_v3(client, name=str(number)) for number in range(3)]
    body = {"name": "one more", **dictionary()}
    assert "Delete one first" in message(client.post("/v2/glossaries", json=body), 400)
    # Weblate deletes the oldest one.
    times = [info["creation_time"] for info in infos]
    assert times == sorted(times)
    client.delete(f"/v3/glossaries/{infos[0]['glossary_id']}")
    assert create_v2(client)


def test_the_limit_is_the_one_of_weblate():
    from dragoman.serving.stores.glossaries import MAX_GLOSSARIES

    assert MAX_GLOSSARIES == 1000


# Version 3.


def test_version_3_from_creation_to_deletion(client):
    info = create_v3(client, dictionary(), dictionary("artist\t畫家", target="ZH-HANT"))
    assert set(info) == {"glossary_id", "name", "creation_time", "dictionaries"}
    assert info["dictionaries"] == [
        {"source_lang": "en", "target_lang": "de", "entry_count": 2},
        {"source_lang": "en", "target_lang": "zh", "entry_count": 1},
    ]
    path = f"/v3/glossaries/{info['glossary_id']}"
    assert client.get("/v3/glossaries").json() == {"glossaries": [info]}
    assert client.get(path).json() == info
    assert entries_v3(client, info["glossary_id"]) == TSV
    assert entries_v3(client, info["glossary_id"], "EN", "ZH") == "artist\t畫家"
    # PATCH changes the name, or merges a dictionary.
    renamed = client.patch(path, json={"name": "new"}).json()
    assert renamed == {**info, "name": "new"}
    change = {"dictionaries": [dictionary("prize\tPreis\nwinner\tSieger")]}
    merged = client.patch(path, json=change).json()
    assert merged["dictionaries"][0]["entry_count"] == 3
    assert entries_v3(client, info["glossary_id"]) == (
        "artist\tMaler\nprize\tPreis\nwinner\tSieger"
    )
    # PUT replaces a dictionary.
    replaced = client.put(f"{path}/dictionaries", json=dictionary("only\tnur"))
    assert replaced.json() == {"source_lang": "en", "target_lang": "de", "entry_count": 1}
    assert entries_v3(client, info["glossary_id"]) == "only\tnur"
    query = {"source_lang": "en", "target_lang": "de"}
    assert client.delete(f"{path}/dictionaries", params=query).status_code == 204
    assert message(client.get(f"{path}/entries", params=query), 404)
    assert message(client.delete(f"{path}/dictionaries", params=query), 404)
    assert client.delete(path).status_code == 204
    for response in (
        client.get(path),
        client.delete(path),
        client.patch(path, json={"name": "x"}),
        client.put(f"{path}/dictionaries", json=dictionary()),
    ):
        assert message(response, 404)


def test_forms_of_deepl_node(client):
    """Objects in a list have indexed names with dots."""
    fields = {
        f"dictionaries[{index}].{name}": value
        for index, target in enumerate(("de", "zh"))
        for name, value in dictionary("a\tb", target=target).items()
    }
    response = client.post("/v3/glossaries", data={"name": "terms", **fields})
    assert response.status_code == 201
    info = response.json()
    assert [one["target_lang"] for one in info["dictionaries"]] == ["de", "zh"]
    path = f"/v3/glossaries/{info['glossary_id']}"
    assert client.patch(path, data={"name": "new"}).json()["name"] == "new"
    fields = {
        f"dictionaries[0].{name}": value
        for name, value in dictionary('"c, c",d', kind="csv").items()
    }
    merged = client.patch(path, data=fields).json()
    assert merged["name"] == "new"
    assert entries_v3(client, info["glossary_id"]) == "a\tb\nc, c\td"
    replaced = client.put(f"{path}/dictionaries", data=dictionary("x\ty"))
    assert replaced.json()["entry_count"] == 1


def test_a_body_with_delete_and_get_as_deepl_rb_sends_it(client):
    info = create_v3(client)
    path = f"/v3/glossaries/{info['glossary_id']}"
    query = {"source_lang": "en", "target_lang": "de"}
    response = client.request("GET", f"{path}/entries", json=query)
    assert response.json()["dictionaries"][0]["entries"] == TSV
    assert client.request("DELETE", f"{path}/dictionaries", json=query).status_code == 204


def test_an_empty_change_is_refused(client):
    path = f"/v3/glossaries/{create_v3(client)['glossary_id']}"
    assert "name or dictionaries" in message(client.patch(path, json={}), 400)
    assert "source_lang" in message(client.get(f"{path}/entries"), 400)


def test_both_versions_see_the_same_glossaries(client):
    old, new = create_v2(client), create_v3(client)
    both = create_v3(client, dictionary(), dictionary(target="zh"), name="both")
    ids = [info["glossary_id"] for info in client.get("/v3/glossaries").json()["glossaries"]]
    assert ids == [old["glossary_id"], new["glossary_id"], both["glossary_id"]]
    # Version 2 cannot describe a glossary with two dictionaries.
    listed = client.get("/v2/glossaries").json()["glossaries"]
    assert [info["glossary_id"] for info in listed] == ids[:2]
    assert "/v3/glossaries" in message(client.get(f"/v2/glossaries/{ids[2]}"), 404)
    assert client.delete(f"/v2/glossaries/{ids[2]}").status_code == 204


# Translation.


def translate(client, text="The artist won a prize.", target="DE", **glossaries):
    body = {"text": [text], "source_lang": "EN", "target_lang": target, **glossaries}
    response = client.post("/v2/translate", json=body)
    assert response.status_code == 200, response.text
    return response.json()["translations"][0]["text"]


def test_a_glossary_of_either_version_is_used(client):
    for info in (create_v2(client), create_v3(client, dictionary(), dictionary(target="zh"))):
        assert translate(client, glossary_id=info["glossary_id"]) == "The Maler won a Gewinn."


def test_a_change_is_used_at_once(client):
    glossary_id = create_v3(client)["glossary_id"]
    assert "Maler" in translate(client, glossary_id=glossary_id)
    path = f"/v3/glossaries/{glossary_id}/dictionaries"
    client.put(path, json=dictionary("artist\tKünstler"))
    assert translate(client, glossary_id=glossary_id) == "The Künstler won a prize."


def test_a_variant_of_the_target_language_uses_the_base_language(client):
    glossary_id = create_v3(client, dictionary("artist\t畫家", target="zh"))["glossary_id"]
    for target in ("ZH-HANT", "zh-TW"):
        assert "畫家" in translate(client, target=target, glossary_id=glossary_id)


@pytest.mark.parametrize("joined", [False, True])
def test_several_glossaries_are_used_and_the_first_wins(client, joined):
    ids = [
        create_v2(client, entries=entries)["glossary_id"]
        for entries in ("artist\tKünstler", TSV, "won\tgewann")
    ]
    names = ",".join(ids) if joined else ids
    assert translate(client, glossary_ids=names) == "The Künstler gewann a Gewinn."


def test_glossaries_that_cannot_be_used(client):
    glossary_id = create_v2(client)["glossary_id"]
    body = {"text": ["x"], "source_lang": "EN", "target_lang": "ZH-HANT"}
    response = client.post("/v2/translate", json={**body, "glossary_id": glossary_id})
    assert "no dictionary from en to zh-Hant" in message(response, 400)
    response = client.post("/v2/translate", json={**body, "glossary_ids": [glossary_id] * 6})
    assert "at most 5" in message(response, 400)
    del body["source_lang"]
    response = client.post("/v2/translate", json={**body, "glossary_id": glossary_id})
    assert "source_lang" in message(response, 400)


def test_nobody_sees_the_glossaries_of_another_key(tmp_path):
    run = write_stub(tmp_path / "run")
    with live_server(tmp_path, run, requires_keys=True) as live:
        headers = [
            {"Authorization": f"DeepL-Auth-Key {live.context.state.add_key(name)}"}
            for name in ("one", "two")
        ]
        with (
            httpx.Client(base_url=live.url, headers=headers[0]) as one,
            httpx.Client(base_url=live.url, headers=headers[1]) as two,
        ):
            glossary_id = create_v2(one)["glossary_id"]
            assert two.get("/v3/glossaries").json() == {"glossaries": []}
            for path in ("/v2/glossaries", "/v3/glossaries"):
                assert message(two.get(f"{path}/{glossary_id}"), 404)
                assert message(two.delete(f"{path}/{glossary_id}"), 404)
            body = {"text": ["x"], "source_lang": "EN", "target_lang": "DE"}
            response = two.post("/v2/translate", json={**body, "glossary_id": glossary_id})
            assert message(response, 404)
            assert translate(one, glossary_id=glossary_id) == "The Maler won a Gewinn."


@pytest.mark.slow
def test_a_change_is_visible_to_all_processes_at_once(tmp_path):
    """Weblate stores a glossary, lists them, and fails if it is missing."""
    with live_process(tmp_path, write_stub(tmp_path / "run"), processes=2) as live:
        for number in range(10):
            # Each request opens a connection; any of the processes may accept it.
            name = f"glossary {number}"
            info = httpx.post(
                f"{live.url}/v3/glossaries", json={"name": name, "dictionaries": [dictionary()]}
            ).json()
            for _ in range(4):
                listed = httpx.get(f"{live.url}/v3/glossaries").json()["glossaries"]
                assert [one["name"] for one in listed] == [name]
                body = {"text": ["The artist."], "source_lang": "EN", "target_lang": "DE"}
                body["glossary_id"] = info["glossary_id"]
                answer = httpx.post(f"{live.url}/v2/translate", json=body).json()
                assert answer["translations"][0]["text"] == "The Maler."
            url = f"{live.url}/v3/glossaries/{info['glossary_id']}"
            assert httpx.delete(url).status_code == 204
            assert httpx.get(f"{live.url}/v2/glossaries").json() == {"glossaries": []}
