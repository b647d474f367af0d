"""XLIFF 1.x and 2.x, checked against the schemas and the Translate Toolkit."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from lxml import etree

from dragoman.errors import DataError
from dragoman.formats.base.document import Code, Content, Target, Unit, plain_text
from dragoman.formats.xliff import Xliff
from formats.made import xliff as made
from support.shared_data import shared_data

SCHEMAS = Path("/usr/share/php/Symfony/Component/Translation/Resources/schemas")
"""From the Debian package php-symfony-translation."""


def units(data: bytes, *languages: str) -> list[Unit]:
    return list(Xliff(data, "x.xlf", *languages).units())


def write(data: bytes, *targets: Target | None, language: str = "") -> str:
    return b"".join(Xliff(data, "x.xlf", "en", language).write(targets)).decode()


def text(content: Content | None) -> list[str] | None:
    return (
        None
        if content is None
        else [part if isinstance(part, str) else part.raw for part in content]
    )


def old(*trans_units: str, file: str = 'target-language="de"') -> bytes:
    body = "".join(trans_units)
    return (
        f'<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="f" '
        f'datatype="plaintext" source-language="en" {file}><body>{body}</body></file></xliff>'
    ).encode()


def new(*segments: str, unit: str = "", root: str = 'trgLang="de"') -> bytes:
    return (
        f'<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" {root}>'
        f'<file id="f"><unit id="u"{unit}>{"".join(segments)}</unit></file></xliff>'
    ).encode()


def test_the_units_of_a_real_file():
    path = shared_data() / "formats/xliff-1.2/omegat/file-xliff-RFE1506.xliff"
    result = units(path.read_bytes())
    assert [(unit.key, unit.line, plain_text(unit.source), unit.state) for unit in result] == [
        ("92/5078", 8, "1.0.1", "untranslated"),
        ("92/5086", 12, "foo", "locked"),
        ("92/5088", 16, "Organization", "needs_review"),
        ("92/5090", 20, "Create", "untranslated"),
        ("92/5128", 24, "Emoji", "needs_review"),
    ]
    path = shared_data() / "formats/xliff-2/oasis-valid/everything-core.xlf"
    result = units(path.read_bytes())
    assert [(unit.key, plain_text(unit.source)[:15], unit.state, unit.note) for unit in result] == [
        ("f1/tu1/1", "Sample segment.", "translated", ""),
        ("f1/tu1/2", "Segment's conte", "translated", ""),
        ("f1/tu3/1", "Bolded text", "untranslated", ""),
        ("f1/tu3end/1", "Extra stuff", "untranslated", ""),
        ("f1/tu2/s1", "special text an", "untranslated", ""),
    ]
    assert [part.kind for part in result[-1].source if isinstance(part, Code)] == [
        "open",
        "close",
        "single",
    ]


def test_inline_elements_of_1_2_are_codes():
    [unit] = units(
        old(
            '<trans-unit id="1"><source>a<g id="1">b<x id="2"></x></g><bpt id="3">&lt;i></bpt>c'
            '<ept id="3">&lt;/i></ept><bx id="4" rid="9"/>d<ex id="5" rid="9"/><ept id="8">z</ept>'
            '<mrk mtype="protected">no</mrk><!-- c --><![CDATA[<e>&]]>&amp;&#x41;'
            '<ph id="6">[<sub>s</sub>]</ph></source></trans-unit>'
        )
    )
    assert unit.source == (
        "a",
        Code('<g id="1">', "open", 1),
        "b",
        Code('<x id="2"></x>'),
        Code("</g>", "close", 1),
        Code('<bpt id="3">&lt;i></bpt>', "open", 2),
        "c",
        Code('<ept id="3">&lt;/i></ept>', "close", 2),
        Code('<bx id="4" rid="9"/>', "open", 3),
        "d",
        Code('<ex id="5" rid="9"/>', "close", 3),
        Code('<ept id="8">z</ept>'),
        Code('<mrk mtype="protected">no</mrk>'),
        Code("<!-- c -->"),
        "<e>&&A",
        Code('<ph id="6">[<sub>s</sub>]</ph>'),
    )


def test_inline_elements_of_2_0_are_codes():
    [unit] = units(
        new(
            '<segment><source><pc id="1">a</pc><sc id="2"/>b<ec startRef="2"/><ec id="7" '
            'isolated="yes"/><sm id="m"/>c<em startRef="m"/><cp hex="1b"/><mrk id="n" type="term">d'
            '</mrk><mrk id="o" translate="no">e</mrk></source></segment>'
        )
    )
    assert [(part.kind, part.pair) for part in unit.source if isinstance(part, Code)] == [
        ("open", 1),
        ("close", 1),
        ("open", 2),
        ("close", 2),
        ("single", 0),
        ("open", 3),
        ("close", 3),
        ("single", 0),
        ("open", 4),
        ("close", 4),
        ("single", 0),
    ]


def test_a_missing_target_is_inserted_after_the_source_and_its_segments():
    data = old(
        '\r\n  <trans-unit id="1">\r\n    <source>a</source>\r\n    <note>n</note></trans-unit>',
        '<trans-unit id="2" xml:space="preserve"><source>a b</source><seg-source><mrk mtype="seg" '
        'mid="1">a</mrk> b</seg-source></trans-unit>',
    )
    segmented = units(data)[1].source
    assert text(segmented) == ['<mrk mtype="seg" mid="1">', "a", "</mrk>", " b"]
    output = write(data, Target(("x\ny",)), Target(segmented, needs_review=False))
    assert (
        '<source>a</source>\r\n    <target state="needs-review-translation">x\r\ny</target>\r\n    '
        "<note>n</note>" in output
    )
    assert (
        '</seg-source><target state="translated"><mrk mtype="seg" mid="1">a</mrk> b</target></trans'
        in output
    )
    assert units(output.encode())[0].target == ("x\ny",)


def test_marks_are_set_and_cleared():
    target = '<target state="{}" state-qualifier="exact-match" phase-name="p">b</target>'
    data = old(
        f'<trans-unit id="1" approved="yes"><source>a</source>{target.format("final")}'
        "</trans-unit>",
        f'<trans-unit id="2"><source>a</source>{target.format("new")}</trans-unit>',
        '<trans-unit id="3"><source>a</source><target>b</target></trans-unit>',
    )
    assert [unit.state for unit in units(data)] == ["locked", "untranslated", "translated"]
    output = write(data, Target(("c",)), Target(("d",), needs_review=False), Target(("b",)))
    assert (
        '<trans-unit id="1" approved="no"><source>a</source><target '
        'state="needs-review-translation" phase-name="p">c</target>' in output
    )
    assert '<target state="translated" phase-name="p">d</target>' in output
    assert '<source>a</source><target state="needs-review-translation">b</target>' in output
    assert [unit.state for unit in units(output.encode())] == [
        "needs_review",
        "translated",
        "needs_review",
    ]
    again = write(output.encode(), *[Target(("c",), needs_review=False)] * 3)
    assert again.count('state="translated"') == 3
    assert "needs-review" not in again


def test_the_state_of_2_0_stands_at_the_segment():
    data = new(
        '<segment id="1" state="final" subState="my:x"><source>a</source><target>b</target>'
        "</segment>",
        "<segment><source>a</source></segment>",
    )
    assert [unit.state for unit in units(data)] == ["locked", "untranslated"]
    output = write(data, Target(("c",), needs_review=False), Target(("d",)))
    assert '<segment id="1" state="translated"><source>a</source><target>c</target>' in output
    assert (
        '<segment state="translated" subState="dragoman:needs-review"><source>a</source><target>d'
        in output
    )
    assert [unit.state for unit in units(output.encode())] == ["translated", "needs_review"]


def test_translate_no_is_inherited_and_can_be_overridden():
    segment = "<segment><source>a</source></segment>"
    assert units(new(segment, unit=' translate="no"'))[0].state == "locked"
    data = new(segment, unit=' translate="yes"').replace(
        b'<file id="f"', b'<file id="f" translate="no"'
    )
    assert units(data)[0].state == "untranslated"
    group = (
        '<group translate="no"><trans-unit id="1"><source>a</source></trans-unit>'
        '<trans-unit id="2" translate="yes"><source>a</source></trans-unit></group>'
    )
    assert [unit.state for unit in units(old(group))] == ["locked", "untranslated"]


def test_the_target_language_is_added_only_when_it_is_missing_and_something_is_written():
    unit = '<trans-unit id="1"><source>a</source></trans-unit>'
    missing, present = old(unit, file=""), old(unit, file="target-language='fr'")
    assert 'source-language="en" target-language="de" >' in write(
        missing, Target(("b",)), language="de"
    )
    assert "target-language" not in write(missing, Target(("b",)))
    assert write(missing, None, language="de") == missing.decode()
    assert "target-language='fr'>" in write(present, Target(("b",)), language="de")
    segment = "<segment><source>a</source></segment>"
    output = write(new(segment, root=""), Target(("b",)), language="de")
    assert 'srcLang="en" trgLang="de" >' in output


def test_escapes_prefixes_cdata_and_other_encodings():
    data = (
        '<?xml version="1.0" encoding="iso-8859-1"?><q:xliff xmlns:q="x" version="1.2"><q:file '
        'source-language="en"><q:body><q:trans-unit id="1"><q:source>é</q:source></q:trans-unit>'
        '<q:trans-unit id="2"><q:source>é</q:source><q:target><![CDATA[<b>]]></q:target>'
        "</q:trans-unit></q:body></q:file></q:xliff>"
    ).encode("latin-1")
    output = b"".join(
        Xliff(data, "x.xlf").write(
            [Target(("é漢\r<&>\n",), False), Target(("ü & ]]> <i>",), False)]
        )
    )
    assert (
        '<q:target state="translated">é&#28450;&#13;&lt;&amp;&gt;\n</q:target>'.encode("latin-1")
        in output
    )
    assert "<![CDATA[ü & ]]]]><![CDATA[> <i>]]>".encode("latin-1") in output
    assert [unit.target for unit in units(output)] == [("é漢\r<&>\n",), ("ü & ]]> <i>",)]
    wide = data.decode("latin-1").replace("iso-8859-1", "utf-16").encode("utf-16")
    assert b"".join(Xliff(wide, "x.xlf").write([None, None])) == wide
    output = b"".join(Xliff(wide, "x.xlf").write([Target(("漢",)), None]))
    assert units(output)[0].target == ("漢",)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"<tmx/>", r"x\.xlf begins with <tmx> in line 1, expected <xliff>"),
        (b'<xliff version="3.0"/>', r"x\.xlf is XLIFF 3\.0 \(line 1\), expected version 1\.x or 2"),
        (b"<xliff>\n<file></xliff>", r"x\.xlf is not well-formed XML in line 2: mismatched tag"),
        (
            b'<?xml version="1.0" encoding="utf-7"?><xliff/>',
            r"x\.xlf is encoded in utf-7, expected",
        ),
        (b"", r"x\.xlf is not well-formed XML in line 1: no element found"),
    ],
)
def test_other_files_are_refused_with_the_line(data, message):
    with pytest.raises(DataError, match=message):
        units(data)


def test_a_translation_that_would_break_the_file_is_refused():
    data = old('<trans-unit id="1"><source><g id="1">a</g></source></trans-unit>')
    opening, _, closing = units(data)[0].source
    for content in ((closing, "x", opening), (opening, "x"), ("x", closing)):
        with pytest.raises(DataError, match=r"tags in the translation for line 1 of x\.xlf do not"):
            write(data, Target(content))
    with pytest.raises(DataError, match=r"line 1 of x\.xlf contains the character U\+000B"):
        write(data, Target(("a\vb",)))


@pytest.mark.slow
@settings(max_examples=150)
@given(made.documents())
def test_nothing_but_targets_and_states_changes(data):
    document = Xliff(data, "x.xlf", "en", "de")
    output = b"".join(document.write([Target(("new",)) for _ in document.units()]))
    assert made.is_equal(data, output)


# --- outside tools -------------------------------------------------------------------------------


class _LocalSchemas(etree.Resolver):
    def resolve(self, url, public_id, context):
        name = url.rpartition("/")[2]
        return self.resolve_filename(str(SCHEMAS / name), context)


def schema(name: str) -> etree.XMLSchema:
    parser = etree.XMLParser()
    parser.resolvers.add(_LocalSchemas())
    return etree.XMLSchema(etree.parse(str(SCHEMAS / name), parser))


@pytest.mark.skipif(not SCHEMAS.exists(), reason="needs: apt-get install php-symfony-translation")
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("xliff-core-1.2-strict.xsd", "xliff-1.2/**/*.xl*"),
        ("xliff-core-2.0.xsd", "xliff-2/**/*.xlf"),
    ],
)
def test_translated_files_are_as_valid_as_before(name, pattern):
    """Every sample that the schema accepts is accepted after all its units were translated."""
    valid = 0
    rules = schema(name)
    folder = shared_data() / "formats"
    for path in sorted(folder.glob(pattern)):
        if str(path.relative_to(folder)) in made.INVALID:
            continue
        data = path.read_bytes()
        try:
            if not rules.validate(etree.fromstring(data)):
                continue
        except etree.XMLSyntaxError:
            continue
        document = Xliff(data, str(path), "en", "de")
        for needs_review in (True, False):
            output = b"".join(
                document.write([Target(unit.source, needs_review) for unit in document.units()])
            )
            assert rules.validate(etree.fromstring(output)), (path, rules.error_log)
        valid += 1
    print(name, valid, "files")
    assert valid >= 14


@pytest.mark.parametrize("pattern", ["xliff-1.2/symfony/*.xlf", "xliff-1.2/omegat/numeric*"])
def test_the_translate_toolkit_reads_the_written_targets(pattern):
    from translate.storage.xliff import xlifffile

    count = 0
    for path in sorted(shared_data().joinpath("formats").glob(pattern)):
        document = Xliff(path.read_bytes(), str(path))
        targets = [
            Target((f"{number}: <b>é</b> & “漢”",), number % 2 == 0)
            for number, _ in enumerate(document.units())
        ]
        store = xlifffile.parsestring(b"".join(document.write(targets)))
        for number, unit in enumerate(store.units):
            assert unit.target == f"{number}: <b>é</b> & “漢”"
            state = unit.xmlelement.find("{*}target").get("state")
            assert (state == "needs-review-translation") == (number % 2 == 0)
            count += 1
    assert count > 100
