"""HTML pages: what is a unit, what is written, and that the tree stays as it is."""

from __future__ import annotations

import subprocess
import sys
import time

import html5lib
import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from dragoman.errors import DataError
from dragoman.formats.base.document import Code, Target
from dragoman.formats.base.html_tokens import html_tokens
from dragoman.formats.html import HtmlDocument
from formats.made import html as made
from support.document_checks import (
    check_round_trip,
    check_written,
    contents,
    every_second,
    has_text,
    hostile,
    shown,
    upper_case,
)
from support.shared_data import shared_data

PAGE = b"""<!DOCTYPE html>
<html lang="en">
<head><title>A &amp; B</title>
<meta name="description" content="About &quot;it&quot;">
<script>var x = "<p>no</p>";</script>
</head>
<body>
<h1>Hello</h1>
<p>See <a href="x" title="The guide">the <b>guide</b></a>,
   or press <kbd>F1</kbd>.
<p>Second<br>line &copy; 2024 <img src=i.png alt=Icon>
<ul><li>one<li> two </ul>
<div translate="no">Not <p>this</p></div>
<pre>  kept
  lines</pre>
<p><code>only_code()</code></p>
<input type=submit value=Send><input value="not this">
</body></html>
"""


def write(data: bytes, *texts: str | None, language: str = "", name: str = "a.html") -> str:
    targets = [None if text is None else Target((text,)) for text in texts]
    return b"".join(HtmlDocument(data, name, "en", language).write(targets)).decode()


def test_the_units_of_a_page():
    units = check_round_trip(HtmlDocument, PAGE, "page.html")
    assert shown(units) == [
        "A & B",
        'About "it"',
        "Hello",
        "The guide",
        'See [<a href="x" title="">]the [<b>]guide[</b>][</a>],\n   or press [<kbd>F1</kbd>].',
        "Icon",
        'Second[<br>]line © 2024 [<img src=i.png alt="">]',
        "one",
        "two",
        "kept\n  lines",
        "Send",
    ]
    assert [unit.line for unit in units] == [3, 4, 8, 9, 9, 11, 11, 12, 12, 14, 17]
    assert [unit.key for unit in units][3:5] == ["4@title", "5"]
    assert [unit.collapses_space for unit in units[8:10]] == [True, False]


def test_an_attribute_of_an_inline_element_is_written_with_and_without_its_text():
    data = b'<p>One <abbr title="First">A</abbr> and <abbr title="Second">B</abbr></p>'
    units = list(HtmlDocument(data, "a.html").units())
    assert shown(units)[:2] == ["First", "Second"]
    text = units[2].source
    first, second = text[1:4], text[5:8]
    targets = [Target(("Erste",)), None, Target((*second, " vor ", *first))]
    assert b"".join(HtmlDocument(data, "a.html").write(targets)) == (
        b'<p><abbr title="Second">B</abbr> vor <abbr title="Erste">A</abbr></p>'
    )
    targets[2] = None
    assert b"".join(HtmlDocument(data, "a.html").write(targets)) == data.replace(b"First", b"Erste")


def test_only_what_is_translated_changes_and_the_language_is_set():
    written = write(PAGE, *[None] * 2, "Hallo <Welt>", *[None] * 8, language="de")
    expected = PAGE.decode().replace('lang="en"', 'lang="de"')
    assert written == expected.replace("<h1>Hello</h1>", "<h1>Hallo &lt;Welt&gt;</h1>")
    assert write(PAGE, *[None] * 11, language="de") == PAGE.decode()
    assert write(b"<html><p>a", "b", language="de") == '<html lang="de"><p>b'
    assert write(b"<p>a", "b", language="de") == "<p>b"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'"x"', '"a&#34;b\'c&lt;&amp;"'),
        (b"'x'", "'a\"b&#39;c&lt;&amp;'"),
        (b"x", '"a&#34;b\'c&lt;&amp;"'),
    ],
)
def test_attributes_are_written_in_their_quotes(value, expected):
    assert write(b"<img alt=" + value + b">", "a\"b'c<&") == f"<img alt={expected}>"


@pytest.mark.parametrize("text", [" a ", "\n", "\xa0", "\u3000", "\ta", " \r\n "])
def test_whitespace_of_a_translation_is_kept(text):
    for data in (b"<p> x </p>", b'<img alt=" x ">'):
        written = write(data, text).encode()
        assert contents(HtmlDocument(written, "a.html")) == [(text,)]
        if text.strip() == "":
            continue
        node = LexborHTMLParser(written.decode()).css_first("p, img")
        assert text in (node.text() or node.attributes["alt"])


def test_a_reference_with_thousands_of_digits_is_read():
    nines, zeros = "9" * 5000, "0" * 5000
    page = f"<p title='a&#{nines};'>b&#{nines};&#{zeros};&#{zeros}67; &#67</p>".encode()
    units = check_round_trip(HtmlDocument, page, "a.html")
    assert [unit.source for unit in units] == [("a\ufffd",), ("b\ufffd\ufffdC C",)]


def test_crossing_and_missing_tags_split_a_text():
    data = b"<p>a <b>b <i>c</b> d</i> e</p><div>f <a href=x><p>g</p></a> h</div>"
    assert shown(HtmlDocument(data, "a.html").units()) == [*"abcdefgh"]
    check_round_trip(HtmlDocument, data, "a.html")


def test_xhtml_has_empty_elements_and_cdata():
    data = b"""<?xml version="1.0"?><html xml:lang="en" lang="en"><p>a<span/><![CDATA[<b> & ]]>c</p>
<script><![CDATA[ <p>no</p> ]]></script></html>"""
    assert shown(check_round_trip(HtmlDocument, data, "a.xhtml")) == ["a[<span/>]<b> & c"]
    written = write(data, "x", language="de", name="a.xhtml")
    assert written.startswith('<?xml version="1.0"?><html xml:lang="de" lang="de"><p>x</p>')


def test_encodings_are_kept():
    latin = '<meta charset="ISO-8859-1"><p>Gr\xfc\xdfe</p>'.encode("latin-1")
    assert shown(check_round_trip(HtmlDocument, latin, "a.html")) == ["Grüße"]
    written = b"".join(HtmlDocument(latin, "a.html").write([Target(("ö π €",))]))
    assert written.endswith(b"<p>\xf6 &#960; \x80</p>")  # Browsers read Latin-1 as Windows-1252.
    wide = "<p>Gr\xfc\xdfe</p>".encode("utf-16")
    assert shown(check_round_trip(HtmlDocument, wide, "a.html")) == ["Grüße"]
    written = b"".join(HtmlDocument(wide, "a.html").write([Target(("π 😀",))]))
    assert written == "<p>π 😀</p>".encode("utf-16")


def test_what_cannot_be_read_or_written_is_refused():
    with pytest.raises(
        DataError, match=r"a\.html is not valid utf-8 in line 2: found the byte 0xfc"
    ):
        list(HtmlDocument(b"<p>\nGr\xfc\xdfe</p>", "a.html").units())
    with pytest.raises(DataError, match="declares the encoding 'iso-2022-jp'"):
        list(HtmlDocument(b"<meta charset=iso-2022-jp>", "a.html").units())
    with pytest.raises(DataError, match=r"cannot contain the character U\+0000"):
        write(b"<p>a", "\0")


@pytest.mark.parametrize("pattern", made.SAMPLES)
def test_samples(pattern):
    paths = sorted(shared_data().joinpath("formats").glob(pattern))
    assert paths
    for path in paths:
        data = path.read_bytes()
        units = check_round_trip(HtmlDocument, data, str(path))
        assert len(units) > 4
        for change in (upper_case, hostile, every_second):
            written = check_written(HtmlDocument, data, str(path), change)
            assert made.is_equal(data, written)


@pytest.mark.slow
@given(made.documents(), st.data())
def test_texts_survive(data, draw):
    texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1)
    if b"iso-8859-1" in data:
        texts = texts.map(lambda text: "".join(c for c in text if not 128 <= ord(c) < 160) + "x")

    def change(number, content):
        return tuple(
            part if isinstance(part, Code) else draw.draw(texts, f"text {number}")
            for part in content
        )

    check_written(HtmlDocument, data, "a.html", change)


@given(st.text(st.sampled_from("<>/!-= \"'abp&;[]?\n"), max_size=60), st.booleans())
def test_the_tokens_cover_every_byte(text, is_xml):
    data = text.encode()
    tokens = list(html_tokens(data, is_xml=is_xml))
    assert b"".join(data[token.start : token.end] for token in tokens) == data


@given(made.documents())
def test_the_texts_are_those_that_a_parser_sees(data):
    """All words outside of elements that are not translated are in units."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return
    parser = html5lib.HTMLParser(namespaceHTMLElements=False)
    body = parser.parse(data, **({} if b"iso-8859" in data else {"transport_encoding": "utf-8"}))
    seen = "".join(body.find("body").itertext())
    units = [unit for unit in HtmlDocument(data, "a.html").units() if "@" not in unit.key]
    for unit in units:
        for part in unit.source:
            if isinstance(part, str) and has_text((part,)) and "title" not in unit.key:
                text = part.strip().replace("\r\n", "\n")
                assert text in seen or b"<title>" in data or "\xa0" in text


@pytest.mark.slow
def test_deep_and_broken_markup_takes_linear_time():
    durations = []
    for size in (1_000, 8_000):
        data = b"<div><b>" * size + b"</p></b>" * size + b"<a " * size + b"<!--" * size
        start = time.process_time()
        check_round_trip(HtmlDocument, data, "a.html")
        durations.append(time.process_time() - start)
    assert durations[1] < 20 * durations[0] + 0.5


_MEASURE = """
import sys, time
from dragoman.formats.base.document import Target
from dragoman.formats.html import HtmlDocument
text = ", until the page is full of words that say nothing at all" * 8
row = f'<p id="p">The <b>fox</b> &amp; the <a href="x" title="Tip">dog</a>{text}.</p>'
data = (row + chr(10)).encode() * 40_000
document = HtmlDocument(data, "big.html", "en", "de")
start = time.process_time()
count = size = 0
def targets():
    global count
    for unit in document.units():
        count += 1
        yield Target(("neu",)) if count % 2 == 0 else None
for block in document.write(targets()):
    size += len(block)
seconds = time.process_time() - start
status = open("/proc/self/status").read()
peak = int(status.partition("VmHWM:")[2].split()[0])
print(len(data), count, size, round(seconds, 1), peak // 1000)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_a_page_of_20_megabytes_needs_little_memory():
    output = subprocess.run(
        [sys.executable, "-c", _MEASURE], capture_output=True, text=True, check=True
    ).stdout
    read, count, written, seconds, megabytes = map(float, output.split())
    print(f"{read / 1e6:.0f} MB read twice and written in {seconds} s, peak {megabytes:.0f} MB")
    assert read > 20_000_000
    assert count == 80_000
    assert 500_000 < written < 1_000_000
    assert megabytes < 80  # Of which the file 21 and Python 20.
