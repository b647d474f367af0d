"""The rules of XLIFF 2: each broken once, next to the closest document that keeps it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lxml import etree

from dragoman.corpus.readers.xliff import Xliff as XliffReader
from dragoman.corpus.row import Row
from dragoman.errors import DataError
from dragoman.formats.base import xliff_rules
from dragoman.formats.base.document import Target
from dragoman.formats.base.xliff_rules import checked_events
from dragoman.formats.base.xml_events import xml_events
from dragoman.formats.xliff import Xliff
from formats.made import xliff as made
from formats.test_xliff import SCHEMAS, schema
from support.shared_data import shared_data

SEGMENT = "<segment><source>a</source></segment>"
GLOSSARY = 'xmlns:gls="urn:oasis:names:tc:xliff:glossary:2.0"'
NOTES = '<notes><note id="n">c</note></notes>'
DATA = '<originalData><data id="d">c</data></originalData>'


def root(content: str, attributes: str = 'trgLang="de"') -> bytes:
    return (
        '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" '
        f'{attributes} xmlns:my="myNS">\n{content}\n</xliff>'
    ).encode()


def file(content: str) -> bytes:
    return root(f'<file id="f">\n{content}\n</file>')


def unit(content: str, attributes: str = "") -> bytes:
    return file(f'<unit id="u" {attributes}>\n{content}\n</unit>')


def source(content: str, before: str = "") -> bytes:
    return unit(f"{before}\n<segment><source>{content}</source></segment>")


def target(attributes: str, at_source: str = "", at_unit: str = "") -> bytes:
    texts = f"<source {at_source}>a</source>\n<target {attributes}>b</target>"
    return unit(f"<segment>{texts}</segment>", at_unit)


def read(data: bytes) -> int:
    return len(list(Xliff(data, "x.xlf", "en", "de").units()))


BROKEN = {
    "a file without an id": (root("<file/>"), "2: it contains <file> without an id"),
    "a unit without an id": (file(f"<unit>{SEGMENT}</unit>"), "3: it contains <unit> without an"),
    "an empty id": (file('<group id=""/>'), "3: it contains <group> without an id"),
    "a code without an id": (source("a<ph/>"), "5: it contains <ph> without an id"),
    "two files with one id": (
        root(f'<file id="f"><unit id="u">{SEGMENT}</unit></file>\n<file id="f"></file>'),
        "3: it contains <file> with the id 'f', which is used before, expected an id that is uni",
    ),
    "two groups with one id": (
        file('<group id="g">\n<group id="g"/></group>'),
        "4: it contains <group> with the id 'g', which is used before",
    ),
    "two units with one id": (
        file(f'<unit id="u">{SEGMENT}</unit><group id="g">\n<unit id="u">{SEGMENT}</unit></group>'),
        "4: it contains <unit> with the id 'u', which is used before, expected an id that is uni",
    ),
    "two notes with one id": (
        file('<notes><note id="n">a</note>\n<note id="n">b</note></notes>'),
        "4: it contains <note> with the id 'n', which is used before, expected an id that is uniq",
    ),
    "two segments with one id": (
        unit(f'<segment id="s"><source/></segment>\n<ignorable id="s">{""}</ignorable>'),
        "5: it contains <ignorable> with the id 's', which is used before",
    ),
    "two codes with one id": (
        source('<ph id="1"/>\n<pc id="1">b</pc>'),
        "6: it contains <pc> with the id '1', which is used before, expected an id that is unique",
    ),
    "two codes of a target with one id": (
        unit('<segment><source/><target><ph id="1"/><sc id="1"/></target></segment>'),
        "4: it contains <sc> with the id '1', which is used before",
    ),
    "two data with one id": (
        unit(f'<originalData><data id="d"/><data id="d"/></originalData>{SEGMENT}'),
        "4: it contains <data> with the id 'd', which is used before, expected an id that is uniq",
    ),
    "data that does not exist": (
        source('<ph id="1" dataRef="e"/>', DATA),
        '5: it contains <ph> with dataRef="e", expected the id of a <data> in the same <unit>',
    ),
    "data of another unit": (
        file(
            f'<unit id="u">{DATA}{SEGMENT}</unit><unit id="v">\n<segment><source>'
            '<pc id="1" dataRefStart="d" dataRefEnd="d"/></source></segment></unit>'
        ),
        '4: it contains <pc> with dataRefStart="d"',
    ),
    "an end of a pair without data": (
        source('<pc id="1" dataRefStart="d" dataRefEnd="e"/>', DATA),
        '5: it contains <pc> with dataRefEnd="e"',
    ),
    "a target in another language": (
        target('xml:lang="fr"'),
        "5: it contains a <target> in the language 'fr', expected 'de', the trgLang of the file",
    ),
    "a target in a more general language": (
        target('xml:lang="de"').replace(b'trgLang="de"', b'trgLang="de-AT"'),
        "5: it contains a <target> in the language 'de', expected 'de-AT'",
    ),
    "a source in another language": (
        target("", 'xml:lang="fr"'),
        "4: it contains a <source> in the language 'fr', expected 'en', the srcLang of the file",
    ),
    "a source that inherits another language": (
        target("", at_unit='xml:lang="fr"'),
        "4: it contains a <source> in the language 'fr'",
    ),
    "different white space": (
        target("", 'xml:space="preserve"'),
        '5: it contains a <target> with xml:space="default", expected "preserve" as at its <sour',
    ),
    "different white space, inherited": (
        target('xml:space="default"', at_unit='xml:space="preserve"'),
        '5: it contains a <target> with xml:space="default", expected "preserve"',
    ),
    "a sub-state without a state": (
        unit('<segment subState="my:x"><source/></segment>'),
        "4: it contains a <segment> with subState and without state, expected both",
    ),
    "a foreign attribute at a segment": (
        unit('<segment my:x="y"><source/></segment>'),
        "4: it contains the attribute my:x of another namespace at <segment>, expected only attr",
    ),
    "an attribute with an unknown prefix": (
        unit('<segment><source no:x="y"/></segment>'),
        "4: it contains the attribute no:x of another namespace at <source>",
    ),
    "a foreign element in a segment": (
        unit("<segment><source>a</source><my:x/></segment>"),
        "4: it contains <my:x> of another namespace in <segment>, expected only <source>, <target>",
    ),
    "a foreign element in a text": (
        source('<b xmlns="">a</b>'),
        "5: it contains <b> of another namespace in <source>, expected only <cp>, <ph>, <pc>",
    ),
    "an element of 1.2": (source('<g id="1">a</g>'), "5: it contains <g> in <source>, expected on"),
    "an element in an empty one": (source('<ph id="1"><cp hex="0001"/></ph>'), "expected no eleme"),
    "a unit in a unit": (
        unit(f'{SEGMENT}<unit id="v"/>'),
        "4: it contains <unit> in <unit>, expected only <notes>, <originalData>, <segment>, <ign",
    ),
    "notes at the end": (
        unit(f"{SEGMENT}{NOTES}"),
        "4: it contains <notes> too late in <unit>, expected it before <originalData> and <segm",
    ),
    "a source after its target": (
        unit("<segment><target/><source/></segment>"),
        "4: it contains <source> too late in <segment>, expected it before <target>",
    ),
    "an unknown element of a module": (
        unit(f"<gls:terms {GLOSSARY}/>{SEGMENT}"),
        "4: it contains <gls:terms> in the namespace of glossary, expected <glossary>",
    ),
    "an end code without a start": (
        source('a<ec id="1"/>'),
        '5: it contains an <ec> with id, expected startRef and not id if isolated is "no"',
    ),
    "an end code with an id": (
        source('<sc id="1"/>a<ec id="2" startRef="1"/>'),
        "5: it contains an <ec> with id and startRef, expected startRef and not id",
    ),
    "an isolated end code without an id": (
        source('<ec isolated="yes"/>'),
        '5: it contains an <ec> with isolated, expected id and not startRef if isolated is "yes"',
    ),
    "an isolated end code with a start": (
        source('<sc id="1"/><ec id="2" isolated="yes" startRef="1"/>'),
        "5: it contains an <ec> with id and startRef and isolated, expected id and not startRef",
    ),
    "a sequence without a first code": (
        source('<ph id="1" canReorder="no" canDelete="no" canCopy="no"/>'),
        '5: it contains <ph> with canReorder="no" as the first of its sequence, expected',
    ),
    "a comment with two texts": (
        source('<mrk id="1" type="comment" ref="#n=n" value="c">a</mrk>', NOTES),
        "5: it contains a comment <mrk> with both of value and ref, expected one of them",
    ),
    "a comment without a text": (
        source('<sm id="1" type="comment"/><em startRef="1"/>'),
        "5: it contains a comment <sm> with neither of value and ref, expected one of them",
    ),
    "a comment that is not in the unit": (
        source('<mrk id="1" type="comment" ref="#n=m">a</mrk>', NOTES),
        '5: it contains a comment <mrk> with ref="#n=m", expected #n= and the id of a <note> in',
    ),
    "a comment in another unit": (
        source('<mrk id="1" type="comment" ref="#u=v/n=n">a</mrk>', NOTES),
        '5: it contains a comment <mrk> with ref="#u=v/n=n"',
    ),
    "a comment in another file": (
        source('<mrk id="1" type="comment" ref="#f=g/u=u/n=n">a</mrk>', NOTES),
        '5: it contains a comment <mrk> with ref="#f=g/u=u/n=n"',
    ),
    "a prefix twice": (
        source('<mrk id="1" type="term" ref="#u=u/u=v">a</mrk>'),
        '5: it contains ref="#u=u/u=v" with u= twice, expected each prefix once',
    ),
    "two ids without a prefix": (
        source('<mrk id="1" type="term" ref="#a/b">a</mrk>'),
        '5: it contains ref="#a/b" with two ids without a prefix',
    ),
    "an unknown prefix": (
        source('<mrk id="1" type="term" ref="#my=x">a</mrk>'),
        "5: it contains ref=\"#my=x\" with the prefix 'my', expected one of ctr, d, f, fs, g, gls,",
    ),
}
KEPT = {
    "equal ids in different files": root(
        f'<file id="f"><group id="g"><unit id="g">{SEGMENT}</unit></group></file>'
        f'<file id="g"><group id="g"><unit id="g">{SEGMENT}</unit></group></file>'
    ),
    "equal ids of notes in different places": file(
        f'{NOTES}<group id="g">{NOTES}<unit id="u">{NOTES}{SEGMENT}</unit></group>'
    ),
    "equal ids in different units": file(
        "".join(
            f'<unit id="{name}">{DATA}<segment id="s"><source><ph id="1" dataRef="d"/></source>'
            "</segment></unit>"
            for name in "uv"
        )
    ),
    "equal ids in source and target": unit(
        '<segment id="s"><source><ph id="1"/></source><target><ph id="1"/></target></segment>'
    ),
    "the languages of the file": target('xml:lang="DE"', 'xml:lang="en"'),
    "more special languages": target('xml:lang="de-AT"', 'xml:lang="en-GB"'),
    "other languages around": target('xml:lang="de"', 'xml:lang="en"', 'xml:lang="fr"'),
    "no target language": target('xml:lang="fr"').replace(b' trgLang="de"', b""),
    "equal white space": target('xml:space="preserve"', 'xml:space="preserve"'),
    "equal white space, inherited": target("", 'xml:space="preserve"', 'xml:space="preserve"'),
    "a sub-state": unit('<segment state="initial" subState="my:x"><source/></segment>'),
    "extensions": file(
        f'<my:x><my:unit/></my:x><unit id="u" my:x="y"><my:x id="1"/>{NOTES}<segment>'
        '<source><mrk id="1" type="my:x" my:x="y">a</mrk></source></segment></unit>'
    ),
    "a skeleton": file(
        f'<skeleton>x<my:y><my:unit/></my:y></skeleton><unit id="u">{SEGMENT}</unit>'
    ),
    "a module": unit(f"<gls:glossary {GLOSSARY}><gls:x/></gls:glossary>{SEGMENT}"),
    "codes across segments": unit(
        '<segment><source><sc id="1"/>a</source></segment>'
        '<segment><source>b<ec startRef="1"/><ec id="2" isolated="yes"/></source></segment>'
    ),
    "a sequence": source(
        '<ph id="1" canReorder="firstNo" canDelete="no" canCopy="no"/>'
        '<ph id="2" canReorder="no" canDelete="no" canCopy="no"/>'
    ),
    "comments": source(
        '<mrk id="1" type="comment" value="c">a</mrk><mrk id="2" type="comment" ref="#n=n">a</mrk>'
        '<sm id="3" type="comment" ref="#/f=f/u=u/n=n"/><em startRef="3"/>'
        '<mrk id="4" type="term" ref="https://example.org/#a=b">a</mrk>'
        '<mrk id="5" type="term" ref="#f=f/gls=g">a</mrk><mrk id="6" type="term" ref="#1">a</mrk>',
        NOTES,
    ),
    "another prefix": unit(SEGMENT)
    .replace(b"</", b"</x:")
    .replace(b"<", b"<x:")
    .replace(b"<x:/x:", b"</x:")
    .replace(b"xmlns=", b"xmlns:x="),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_refused_with_the_line(case):
    data, message = BROKEN[case]
    with pytest.raises(DataError) as refusal:
        read(data)
    assert f"x.xlf is not valid XLIFF 2 in line {message}" in str(refusal.value) or (
        message.startswith("expected") and message in str(refusal.value)
    )
    assert "expected " in str(refusal.value)
    assert str(refusal.value).endswith("save it again with the program that wrote it")


@pytest.mark.parametrize("case", KEPT)
def test_a_document_that_keeps_the_rules_is_read(case):
    data = KEPT[case]
    assert read(data) > 0
    events = list(xml_events(data, "x.xlf"))
    assert list(checked_events(iter(events), "x.xlf")) == events


@pytest.mark.skipif(not SCHEMAS.exists(), reason="needs: apt-get install php-symfony-translation")
def test_the_schema_agrees_about_structure():
    """It accepts all documents that are read, and refuses those with a wrong structure."""
    rules = schema("xliff-core-2.0.xsd")
    for case, data in KEPT.items():
        assert rules.validate(etree.fromstring(data)), (case, rules.error_log)
    structure = (" without an id", " in <", "too late", "of another namespace", "no eleme")
    refused = 0
    for case, (data, message) in BROKEN.items():
        if any(part in message for part in structure):
            known = data.replace(b"no:x", b"my:x")  # lxml refuses a prefix without a namespace.
            assert not rules.validate(etree.fromstring(known)), case
            refused += 1
    assert refused == 12


def test_invalid_samples_are_refused_also_when_written():
    folder = shared_data() / "formats"
    paths = [folder / path for path in made.INVALID if "oasis" in path]
    assert len(paths) == len(list(folder.glob("xliff-2/oasis-invalid/*.xlf"))) == 19
    for path in paths:
        # As many targets as there are segments: only the rule can be the reason.
        data = path.read_bytes()
        targets = [Target(("x",))] * data.count(b"<segment")
        with pytest.raises(DataError, match="is not valid XLIFF 2 in line"):
            b"".join(Xliff(data, str(path), "en", "de").write(targets))


def test_what_is_written_keeps_the_rules():
    """All units translated, and only some: codes may then span a target and a missing one."""
    rng = random.Random(3)
    count = 0
    for path in sorted(shared_data().joinpath("formats").glob("xliff-2/**/*.xlf")):
        if path.parent.name == "oasis-invalid":
            continue
        document = Xliff(path.read_bytes(), str(path), "en", "de")
        units = list(document.units())
        for share in (1.0, 0.5, 0.5):
            targets = [Target(unit.source) if rng.random() < share else None for unit in units]
            output = b"".join(document.write(targets))
            assert read(output) == len(units)
            count += 1
    assert count == 3 * 49


def test_a_corpus_is_read_from_files_that_break_rules(tmp_path: Path):
    path = tmp_path / "x.xlf"
    path.write_bytes(target("", 'xml:space="preserve"'))
    assert [row for row in XliffReader("en", "de").read([path]) if isinstance(row, Row)] == [
        Row(1, "a", "b")
    ]


def test_version_1_has_other_rules():
    part = b'<trans-unit id="1"><source>a</source><x/></trans-unit>'
    data = b'<xliff version="1.2"><file><body>' + part + part + b"</body></file></xliff>"
    assert read(data) == 2


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """Ids beyond the limit are not remembered, and references to them are not refused."""
    monkeypatch.setattr(xliff_rules, "MAX_IDS", 2)
    data = "".join(f'<data id="{number}">c</data>' for number in (1, 2, 3, 3))
    codes = "".join(f'<ph id="c{number}" dataRef="{number}"/>' for number in (1, 2, 3))
    assert read(source(codes, f"<originalData>{data}</originalData>")) == 1
    repeated = data.replace('"3"', '"2"')
    with pytest.raises(DataError, match="<data> with the id '2', which is used before"):
        read(source(codes, f"<originalData>{repeated}</originalData>"))


def test_a_new_target_gets_the_language_and_the_white_space_of_its_place():
    data = unit(
        '<segment><source xml:lang="en" xml:space="preserve">a</source></segment>'
        '<segment><source xml:lang="en">a</source></segment>',
        'xml:lang="fr"',
    )
    output = b"".join(Xliff(data, "x.xlf", "en", "de").write([Target(("b",))] * 2)).decode()
    assert '<target xml:lang="de" xml:space="preserve">b</target>' in output
    assert '<target xml:lang="de">b</target>' in output
    assert read(output.encode()) == 2
