"""Android string resources, checked against the Translate Toolkit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.formats.android import Android
from dragoman.formats.base.document import Code, Content, Target, merged, plain_text
from dragoman.formats.base.folder import find_format
from formats.made import android as made
from support.shared_data import shared_data


def document(*resources: str) -> bytes:
    return f"<resources>{''.join(resources)}</resources>".encode()


def string(text: str) -> bytes:
    return document(f'<string name="a">{text}</string>')


def source(data: bytes) -> Content:
    [unit] = Android(data, "strings.xml").units()
    return unit.source


def write(data: bytes, *targets: Target | None) -> str:
    return b"".join(Android(data, "strings.xml").write(targets)).decode()


def test_the_units_of_a_real_file():
    path = shared_data() / "formats/android/values/strings.xml"
    assert find_format(path, path.read_bytes()) is Android
    units = list(Android(path.read_bytes(), str(path)).units())
    assert [(unit.key, unit.line, plain_text(unit.source)) for unit in units[20:24]] == [
        ("appwidget_img", 24, "Pic of the Day"),
        ("uploads_pending_notification_indicator[one]", 28, "%1$d file uploading"),
        ("uploads_pending_notification_indicator[other]", 29, "%1$d files uploading"),
        ("contributions_subtitle[one]", 32, "(%1$d)"),
    ]
    assert units[0].note == "accessibility UI description strings"
    assert len(units) == 832


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"It\'s \"ok\"", 'It\'s "ok"'),
        (r"a\nb\tc\\", "a\nb\tc\\"),
        (r"\u0020x\u00e9\ud83d\ude00\u0020", " xé😀 "),
        ("\n    one\n    two   three\n  ", "one two three"),
        ('"  kept\n  space "', "  kept\n  space "),
        ('&quot;two  spaces&quot; and  one "', "two  spaces and one "),
        (r"\@user \?", "@user ?"),
        ("<![CDATA[<b>Tom &amp; J</b>\\n]]>", "<b>Tom &amp; J</b>\n"),
        ('<![CDATA[<a href="x" title=\\"y\\">]]>', '<a href="x" title="y">'),
        (r"50% &lt;b&gt;", "50% <b>"),
        (r"\ud800", "\ufffd"),
        ("", ""),
        (" ", ""),
    ],
)
def test_escapes_and_quotes_are_decoded(text, expected):
    assert plain_text(source(string(text))) == expected


def test_what_must_not_be_translated_is_not_a_unit():
    data = document(
        '<string name="a" translatable="false">x</string>',
        '<string name="b">@string/ok</string>',
        '<string name="c"> @null </string>',
        '<string name="d">\\@string/ok</string>',
        '<plurals name="e" translatable="false"><item quantity="one">x</item></plurals>',
        '<integer name="f">3</integer><string-array name="g"><item>y</item><item>z</item>'
        "</string-array>",
    )
    assert [unit.key for unit in Android(data, "x").units()] == ["d", "g[0]", "g[1]"]


def test_tags_are_codes_and_g_is_one_code():
    assert source(string('Hi <b>you</b> <xliff:g id="n">%s</xliff:g>!')) == (
        "Hi ",
        Code("<b>", "open", 1),
        "you",
        Code("</b>", "close", 1),
        " ",
        Code('<xliff:g id="n">%s</xliff:g>'),
        "!",
    )


def test_text_is_written_with_escapes_and_layout_stays():
    data = string("\n    old\n  ")
    output = write(data, Target(('@ it\'s "a"\n<b> & \\  c ',)))
    expected = r"\@ it\'s \"a\"\n&lt;b&gt; &amp; \\ \u0020c\u0020"
    assert output == string(f"\n    {expected}\n  ").decode()
    output = write(string("<![CDATA[<b>a</b>]]>"), Target(("<i>it's</i>",)))
    assert output == string(r"<![CDATA[<i>it\'s</i>]]>").decode()
    assert write(document('<string name="a" />'), Target(("b",))) == string("b").decode()


@pytest.mark.slow
@given(st.lists(st.text(max_size=10) | st.just(Code("<br/>")), max_size=4).map(merged))
def test_every_text_survives(content):
    try:
        output = write(string("old"), Target(content))
    except DataError as error:
        assert "which XML does not allow" in str(error)
        assert any("\ud800" <= character <= "\udfff" for character in plain_text(content))
        return
    assert source(output.encode()) == content


@pytest.mark.slow
@settings(max_examples=150)
@given(made.documents())
def test_nothing_but_texts_changes(data):
    resources = Android(data, "strings.xml")
    output = b"".join(resources.write([Target(("new",)) for _ in resources.units()]))
    assert made.is_equal(data, output)


def test_other_files_are_refused_with_the_line():
    with pytest.raises(DataError, match=r"strings\.xml begins with <a> in line 2, expected <resou"):
        source(b"\n<a/>")
    with pytest.raises(DataError, match=r"strings\.xml is not well-formed XML in line 1"):
        source(b"<resources>")


@pytest.mark.slow
def test_the_translate_toolkit_reads_the_same_texts():
    from translate.storage.aresource import AndroidResourceFile

    equal = written = 0
    for path in sorted(shared_data().glob("formats/android/*/strings.xml")):
        data = path.read_bytes()
        resources = Android(data, str(path))
        units = [unit for unit in resources.units() if "[" not in unit.key]
        store = {unit.getid(): unit for unit in AndroidResourceFile.parsestring(data).units}
        for unit in units:
            text = str(store[unit.key].target)
            # The toolkit shows the marks of CDATA sections as text.
            if all(isinstance(part, str) for part in unit.source) and "CDATA" not in text:
                # It also replaces no-break spaces.
                assert text.split() == plain_text(unit.source).split(), unit.key
                equal += 1
        new = '“%1$s” isn\'t\n<b>here</b> & "there"\\'
        output = b"".join(resources.write([Target((new,)) for _ in resources.units()]))
        store = {unit.getid(): unit for unit in AndroidResourceFile.parsestring(output).units}
        for unit in units:
            text = str(store[unit.key].target)
            if "CDATA" not in text:
                assert text == new
                written += 1
    assert equal > 3000
    assert written > 3000
