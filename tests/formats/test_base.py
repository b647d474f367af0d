"""Events of XML files with byte offsets, and edits of a file."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.formats.base.document import Code, merged, plain_text
from dragoman.formats.base.edits import Edit, apply_edits
from dragoman.formats.base.folder import open_document
from dragoman.formats.base.xml_events import MAX_DEPTH, stream_events, xml_encoding, xml_events
from support.shared_data import shared_data

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=20)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_events_cover_every_byte_and_name_empty_elements(encoding):
    declared = "utf-16" if encoding == "utf-16" else "utf-8"
    text = (
        f'<?xml version="1.0" encoding="{declared}"?><!-- ü -->\n<a x="1">é&amp;<b/>'
        "<c></c><![CDATA[<&]]>&#65;</a>\n"
    )
    data = text.encode(encoding)
    events = list(xml_events(data, "x.xml"))
    assert b"".join(data[event.start : event.end] for event in events) == data[events[0].start :]
    kinds = [(event.kind, event.name) for event in events if event.name]
    assert kinds == [("start", "a"), ("empty", "b"), ("start", "c"), ("end", "c"), ("end", "a")]
    assert "".join(event.text for event in events if event.kind == "text") == "é&<&A"
    assert [event.line for event in events if event.name == "a"] == [2, 2]
    assert data[events[0].start :].decode(xml_encoding(data)).startswith("<?xml")


def test_events_cover_every_byte_of_every_xml_sample():
    count = 0
    for path in sorted(shared_data().joinpath("formats").rglob("*")):
        if path.suffix not in {".tmx", ".xlf", ".xml", ".docbook", ".page"}:
            continue
        data = path.read_bytes()
        try:
            events = list(xml_events(data, str(path)))
        except DataError:
            continue
        count += 1
        assert (
            b"".join(data[event.start : event.end] for event in events) == data[events[0].start :]
        )
        for event in events:
            if event.kind in ("start", "empty"):
                raw = data[event.start : event.end].decode(xml_encoding(data))
                assert raw.endswith("/>") == (event.kind == "empty")
    assert count > 100


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_events_do_not_depend_on_the_size_of_the_blocks(size):
    data = '<a><b/><c x="1"></c>é\n&amp;<![CDATA[x]]><d><e/></d></a>'.encode()
    blocks = (data[begin : begin + size] for begin in range(0, len(data), size))
    events = list(stream_events(blocks, "x.xml"))
    assert b"".join(data[event.start : event.end] for event in events) == data
    named = [(event.kind, event.name) for event in events if event.name]
    assert named == [(event.kind, event.name) for event in xml_events(data, "") if event.name]
    assert ("empty", "e") in named


def test_events_before_an_error_are_yielded():
    events = xml_events(b"<a><b/>text</c>", "x.xml")
    assert [next(events).kind for _ in range(2)] == ["start", "empty"]
    with pytest.raises(DataError, match="mismatched"):
        list(events)


def test_a_token_that_does_not_end_is_refused_in_bounded_memory():
    def blocks() -> Iterator[bytes]:
        yield b"<a><!--"
        for _ in range(1000):
            yield b"x" * 65536

    with pytest.raises(DataError, match=r"x\.xml contains a tag or a comment longer than 10,485,7"):
        list(stream_events(blocks(), "x.xml"))


def test_entities_are_events_and_are_not_expanded():
    data = b'<!DOCTYPE a [<!ENTITY x "text">]><a>&x;&y;</a>'
    with pytest.raises(DataError, match=r"x\.xml is not well-formed XML in line 1: undefined"):
        list(xml_events(data, "x.xml"))
    events = list(xml_events(data.replace(b"&y;", b""), "x.xml"))
    assert [event.text for event in events if event.kind == "entity"] == ["&x;"]


@pytest.mark.parametrize("place", ["<a>&i;</a>", '<a b="&i;"/>'])
def test_an_entity_bomb_is_refused_in_little_memory(place):
    levels = "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi"))  # noqa: B905
    data = f'<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">{levels}]>{place}'.encode()
    tracemalloc.start()
    with pytest.raises(DataError, match="by means of other entities, in line 1"):
        list(xml_events(data, "bomb.xml"))
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


def test_deep_nesting_and_broken_xml_are_refused_with_the_line():
    deep = b"\n" + b"<a>" * (MAX_DEPTH + 1) + b"</a>" * (MAX_DEPTH + 1)
    with pytest.raises(DataError, match=r"deeper than 200 levels in line 2"):
        list(xml_events(deep, "deep.xml"))
    with pytest.raises(
        DataError, match=r"broken\.xml is not well-formed XML in line 2: mismatched"
    ):
        list(xml_events(b"<a>\n</b>", "broken.xml"))
    with pytest.raises(DataError, match="no element found"):
        list(xml_events(b"", "empty.xml"))


@given(st.lists(st.tuples(TEXT, TEXT)))
def test_edits_change_only_their_places(parts):
    data, expected, edits = b"", b"", []
    for kept, replaced in parts:
        data += kept.encode()
        edits.append(Edit(len(data), len(data) + len(replaced.encode()), b"[new]"))
        data += replaced.encode()
        expected += kept.encode() + b"[new]"
    assert b"".join(apply_edits(data, edits)) == expected
    assert b"".join(apply_edits(data, [])) == data


def test_overlapping_edits_are_an_error():
    with pytest.raises(ValueError, match="overlaps"):
        list(apply_edits(b"abcdef", [Edit(0, 3, b""), Edit(2, 4, b"")]))


def test_contents_are_merged_and_read():
    code = Code("<b>", "open", 1)
    assert merged(["a", "", "b", code, "", "c"]) == ("ab", code, "c")
    assert plain_text(("ab", code, "c")) == "abc"


PO = 'msgid ""\nmsgstr "Language: {target}\\n"\n\nmsgid "Open"\nmsgstr ""\n'
TS = (
    '<!DOCTYPE TS><TS version="2.1" language="{target}" sourcelanguage="{source}"><context>'
    "<name>a</name><message><source>Open</source><translation/></message></context></TS>"
)
XLIFF_1 = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" '
    'source-language="{source}" target-language="{target}" datatype="plaintext"><body>'
    '<trans-unit id="1"><source>Open</source></trans-unit></body></file></xliff>'
)
XLIFF_2 = (
    '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="{source}" '
    'trgLang="{target}"><file id="f"><unit id="1"><segment><source>Open</source></segment></unit>'
    "</file></xliff>"
)
NAMED = {"a.po": PO, "a.ts": TS, "1.xlf": XLIFF_1, "2.xlf": XLIFF_2}


@pytest.mark.parametrize("name", NAMED)
def test_a_file_that_names_another_target_language_is_refused(tmp_path, name):
    path = tmp_path / name
    path.write_text(NAMED[name].format(source="en", target="fr_CA"), encoding="utf-8")
    with pytest.raises(DataError, match=r"names French.*\(fr_CA\) as its target.*German \(de\)"):
        open_document(path, "en", "de")
    assert [plain_text(unit.source) for unit in open_document(path).units()] == ["Open"]


@pytest.mark.parametrize("name", [name for name in NAMED if name != "a.po"])
def test_a_file_that_names_another_source_language_is_refused(tmp_path, name):
    path = tmp_path / name
    path.write_text(NAMED[name].format(source="ja", target="de"), encoding="utf-8")
    with pytest.raises(DataError, match=r"names Japanese .* as its source language.*If the file"):
        open_document(path, "en", "de")


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize(
    ("source", "target"), [("en-US", "de_AT"), ("eng", "deu"), ("", ""), ("x-pirate", "unknown")]
)
def test_regions_and_unknown_codes_are_accepted(tmp_path, name, source, target):
    path = tmp_path / name
    path.write_text(NAMED[name].format(source=source, target=target), encoding="utf-8")
    document = open_document(path, "en", "de")
    assert [plain_text(unit.source) for unit in document.units()] == ["Open"]
