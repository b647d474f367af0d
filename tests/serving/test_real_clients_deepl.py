"""Real clients of the DeepL API, unpatched, against a live server.

The official client for Python runs in every test run. What deepl-node and Weblate sent was recorded
with the answers that they accepted; every test run sends it again. The clients themselves run with
`make proof`, in environments that these commands make:

    python3.11 tests/support/weblate_environment.py WEBLATE 5.14.3
    python3.13 tests/support/weblate_environment.py WEBLATE2 2026.10.1
    npm install --prefix NODE deepl-node@1.28.0
    export DRAGOMAN_WEBLATE=WEBLATE:WEBLATE2 DRAGOMAN_NODE_CLIENTS=NODE
    pytest -m long tests/serving/test_real_clients_deepl.py

With DRAGOMAN_RECORD=1, the recordings are written again.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
from contextlib import closing
from pathlib import Path

import deepl
import httpx
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries as Entries

from support.deepl_server import live_server
from support.recording import replay
from support.serving import write_stub

RECORDED = Path(__file__).parent / "recorded"
CLIENTS = Path(__file__).parents[1] / "support"
WEBLATE = [path for path in os.environ.get("DRAGOMAN_WEBLATE", "").split(os.pathsep) if path]
NODE = os.environ.get("DRAGOMAN_NODE_CLIENTS", "")


def stubs(folder):
    """Two language pairs."""
    return (
        write_stub(folder / "en-de", function="upper", has_span_tokens=True),
        write_stub(folder / "de-en", source="de", target="en", function="upper"),
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clients")
    with live_server(folder, *stubs(folder)) as live:
        yield live


@pytest.fixture(scope="module")
def other_server(tmp_path_factory):
    """A server without the glossaries of the client for Python."""
    folder = tmp_path_factory.mktemp("others")
    with live_server(folder, *stubs(folder)) as live:
        yield live


@pytest.fixture(scope="module")
def client(server):
    api = deepl.DeepLClient("any key", server_url=server.url)
    yield api
    api.close()


def test_python_text(client):
    result = client.translate_text("This is a test of the server.", target_lang="DE")
    assert result.text == "THIS IS A TEST OF THE SERVER."
    assert result.detected_source_lang == "EN"
    assert result.billed_characters == 29
    results = client.translate_text(
        ["First text.", "Second text.", ""],
        source_lang="en",
        target_lang="de",
        formality="prefer_more",
        split_sentences="nonewlines",
        preserve_formatting=True,
        outline_detection=False,
        context="a web shop",
        model_type="prefer_quality_optimized",
        custom_instructions=["Be brief."],
        extra_body_parameters={"new": True},
    )
    assert [result.text for result in results] == ["FIRST TEXT.", "SECOND TEXT.", ""]
    assert {result.model_type_used for result in results} == {"quality_optimized"}


def test_python_tags(client):
    result = client.translate_text(
        'Press <x>Enter</x> &amp; <b class="c">wait</b>.',
        source_lang="EN",
        target_lang="DE",
        tag_handling="xml",
        ignore_tags=["x"],
        splitting_tags=["p"],
        non_splitting_tags=["b"],
    )
    assert result.text == 'PRESS <x>Enter</x> &amp; <b class="c">WAIT</b>.'
    result = client.translate_text(
        "<p>One <i>word</i></p>", source_lang="EN", target_lang="DE", tag_handling="html"
    )
    assert result.text == "<p>ONE <i>WORD</i></p>"


@pytest.mark.parametrize("target", ["EN-GB", "EN-US", "en-us"])
def test_python_variants_of_english(client, target):
    # The client itself refuses EN.
    result = client.translate_text("Hallo.", source_lang="DE", target_lang=target)
    assert (result.text, result.detected_source_lang) == ("HALLO.", "DE")


def test_python_languages_and_usage(client):
    assert [language.code for language in client.get_source_languages()] == ["DE", "EN"]
    targets = client.get_target_languages()
    assert [language.code for language in targets] == ["DE", "EN", "EN-GB", "EN-US"]
    assert {language.supports_formality for language in targets} == {False}
    pairs = [(pair.source_lang, pair.target_lang) for pair in client.get_glossary_languages()]
    assert pairs == [("de", "en"), ("en", "de")]
    usage = client.get_usage()
    assert not usage.any_limit_reached
    assert (usage.character.count, usage.character.limit) == (0, 10**12)


def test_python_glossaries_of_version_2(client):
    terms = {"artist": "Maler", "prize": "Gewinn"}
    glossary = client.create_glossary("terms", "EN", "DE", terms)
    assert glossary.ready
    assert (glossary.name, glossary.entry_count) == ("terms", 2)
    assert (glossary.source_lang, glossary.target_lang) == ("EN", "DE")
    assert [info.glossary_id for info in client.list_glossaries()] == [glossary.glossary_id]
    again = client.get_glossary(glossary.glossary_id)
    assert again.creation_time == glossary.creation_time
    assert client.get_glossary_entries(glossary) == terms
    result = client.translate_text(
        "The artist left.", source_lang="EN", target_lang="DE", glossary=glossary
    )
    assert result.text == "THE Maler LEFT."
    table = client.create_glossary_from_csv("csv", "EN", "DE", 'a,b\n"c, c",d\n')
    assert client.get_glossary_entries(table) == {"a": "b", "c, c": "d"}
    for info in (glossary, table):
        client.delete_glossary(info)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(glossary.glossary_id)


def test_python_glossaries_of_version_3(client):
    glossary = client.create_multilingual_glossary(
        "terms",
        [Entries("EN", "DE", {"artist": "Maler"}), Entries("DE", "EN", {"Maler": "artist"})],
    )
    assert [info.entry_count for info in glossary.dictionaries] == [1, 1]
    client.update_multilingual_glossary_name(glossary, "new")
    client.update_multilingual_glossary_dictionary(
        glossary, Entries("EN", "DE", {"prize": "Preis"})
    )
    entries = client.get_multilingual_glossary_entries(glossary, "EN", "DE").dictionaries[0].entries
    assert entries == "artist\tMaler\nprize\tPreis"
    replaced = client.replace_multilingual_glossary_dictionary(
        glossary, Entries("EN", "DE", {"left": "ging"})
    )
    assert replaced.entry_count == 1
    result = client.translate_text(
        "The artist left.", source_lang="EN", target_lang="DE", glossary=glossary
    )
    assert result.text == "THE ARTIST ging."
    other = client.create_glossary("other", "EN", "DE", {"artist": "Maler"})
    result = client.translate_text(
        "The artist left.", source_lang="EN", target_lang="DE", glossary_ids=[glossary, other]
    )
    assert result.text == "THE Maler ging."
    names = [info.name for info in client.list_multilingual_glossaries()]
    assert names == ["new", "other"]
    client.delete_multilingual_glossary_dictionary(glossary, source_lang="EN", target_lang="DE")
    (left,) = client.get_multilingual_glossary(glossary.glossary_id).dictionaries
    assert (left.source_lang, left.target_lang) == ("DE", "EN")
    for info in (glossary, other):
        client.delete_multilingual_glossary(info.glossary_id)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary(glossary.glossary_id)


def test_python_documents(client, tmp_path):
    source, target = tmp_path / "note.txt", tmp_path / "note-de.txt"
    source.write_text("Hello world.\n")
    status = client.translate_document_from_filepath(
        source, target, source_lang="EN", target_lang="DE"
    )
    assert status.done
    assert status.billed_characters == 12
    assert target.read_text() == "HELLO WORLD.\n"
    output = io.BytesIO()
    glossary = client.create_glossary("terms", "EN", "DE", {"bold": "fett"})
    client.translate_document(
        "<p>A <b>bold</b> word.</p>",
        output,
        source_lang="EN",
        target_lang="DE",
        filename="page.html",
        glossary=glossary,
        output_format="html",
    )
    assert "<b>fett</b>" in output.getvalue().decode()
    client.delete_glossary(glossary)


def test_python_document_errors(client):
    with pytest.raises(deepl.DocumentTranslationException, match="line 2") as error:
        client.translate_document(
            'msgid "a"\nmsgstr "b\n', io.BytesIO(), target_lang="DE", filename="a.po"
        )
    assert error.value.document_handle.document_id
    with pytest.raises(deepl.DeepLException, match="no known format"):
        client.translate_document_upload("x", target_lang="DE", filename="a.exe")
    with pytest.raises(deepl.DeepLException, match="does not exist"):
        client.translate_document_get_status(deepl.DocumentHandle("0" * 32, "0" * 64))


def test_python_errors(client):
    def translate(**parameters):
        return client.translate_text("x", **{"target_lang": "DE", **parameters})

    with pytest.raises(deepl.DeepLException, match="formality is not supported"):
        translate(formality="more")
    with pytest.raises(deepl.DeepLException, match="XX is not supported"):
        translate(target_lang="XX")
    with pytest.raises(deepl.DeepLException, match="does not exist"):
        translate(source_lang="EN", glossary="0" * 8)
    with pytest.raises(deepl.DeepLException, match="does not offer"):
        client.rephrase_text("x", target_lang="EN-US")
    with pytest.raises(deepl.DeepLException, match="does not offer"):
        client.get_all_style_rules()


def test_python_keys(tmp_path):
    run = write_stub(tmp_path / "run", function="upper")
    with live_server(tmp_path, run, requires_keys=True) as live:
        key = live.context.state.add_key("one", characters_per_month=10, requests_per_minute=6)
        with closing(deepl.DeepLClient("wrong", server_url=live.url)) as client:
            with pytest.raises(deepl.AuthorizationException):
                client.translate_text("x", target_lang="DE")
            with pytest.raises(deepl.AuthorizationException):
                client.get_usage()
        with closing(deepl.DeepLClient(key, server_url=live.url)) as client:
            client.translate_text("Hello", source_lang="EN", target_lang="DE")
            usage = client.get_usage()
            assert (usage.character.count, usage.character.limit) == (5, 10)
            with pytest.raises(deepl.QuotaExceededException):
                client.translate_text("Hello you", source_lang="EN", target_lang="DE")
            client.translate_text("Hello", source_lang="EN", target_lang="DE")
            assert client.get_usage().any_limit_reached


# Clients that take long to install.


@pytest.mark.parametrize("client", ["node", "weblate-5.14.3", "weblate-2026.10.1"])
def test_a_recorded_client_gets_the_same_answers(other_server, client):
    with httpx.Client(base_url=other_server.url) as http:
        for recorded, answered in replay(RECORDED / f"deepl-{client}.json", http):
            assert answered == recorded


def run_client(server, name, *command, folder=None):
    """Run a client; return its output; record what it sends if asked to."""
    server.recorder.exchanges.clear()
    command = [*map(str, command), server.url]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    if os.environ.get("DRAGOMAN_RECORD"):
        server.recorder.save(RECORDED / f"deepl-{name}.json")
    return done.stdout


@pytest.mark.long
@pytest.mark.skipif(not NODE, reason="needs DRAGOMAN_NODE_CLIENTS; see the beginning of this file")
def test_node(other_server):
    run_client(other_server, "node", "node", CLIENTS / "deepl_node.cjs", folder=NODE)


@pytest.mark.long
@pytest.mark.skipif(not WEBLATE, reason="needs DRAGOMAN_WEBLATE; see the beginning of this file")
@pytest.mark.parametrize("folder", WEBLATE)
def test_weblate(other_server, folder):
    (package,) = Path(folder).glob("lib/python*/site-packages/weblate-*.dist-info")
    name = package.name.removesuffix(".dist-info")
    python = f"{folder}/bin/python"
    output = run_client(other_server, name, python, CLIENTS / "weblate_deepl.py")
    steps = [json.loads(line) for line in output.splitlines()]
    settings, languages, *translations, batch, pairs, translated = steps[:18]
    assert settings["is_valid"], settings["errors"]
    assert languages["pair"] == ["EN", "DE"]
    assert len(translations) == 13
    for step in translations:
        text = step["translation"]
        assert all(value in text for value in step["placeholders"]), step
        assert text.upper() == step["text"].upper(), step
    assert batch["translations"] == [
        [f"%d FILE NUMBER {n}", f"%d FILES NUMBER {n}"] for n in range(batch["size"])
    ]
    # No model has a formality, so Weblate must not offer one.
    assert ["EN", "DE"] in pairs["pairs"]
    assert not [pair for pair in pairs["pairs"] if "@" in pair[1]]
    assert translated["translation"] == "HELLO."
    first, second, deleted, error = steps[18:]
    assert first["translation"] == "THE Maler WON A Gewinn"
    assert second["translation"] == "THE Maler WON A Preis"
    # The changed glossary took the place of the old one.
    assert len(first["names"]) == len(second["names"]) == 1
    assert first["names"] != second["names"]
    assert deleted["names"] == []
    assert "formality" in error["message"]
    assert not error["is_off"]
