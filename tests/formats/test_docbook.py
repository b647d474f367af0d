"""DocBook and Mallard manuals, checked against lxml's tree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from lxml import etree

from dragoman.errors import DataError
from dragoman.formats.base.document import Code, Target, plain_text
from dragoman.formats.base.folder import find_format
from dragoman.formats.docbook import Docbook
from formats.made import docbook as made
from support.shared_data import shared_data


def texts(data: bytes) -> list[tuple[str, str]]:
    return [(unit.key, plain_text(unit.source)) for unit in Docbook(data, "x.xml").units()]


def test_the_units_of_a_real_manual():
    path = shared_data() / "formats/docbook/filelight.en.docbook"
    assert find_format(path, path.read_bytes()) is Docbook
    units = list(Docbook(path.read_bytes(), str(path)).units())
    assert [(unit.key, unit.line) for unit in units[:4]] == [
        ("title#1", 11),
        ("releaseinfo#2", 30),
        ("para#3", 31),
        ("keyword#4", 34),
    ]
    assert units[0].source == ("The ", Code("&filelight;"), " Handbook")
    assert all(unit.collapses_space for unit in units)
    # Names of authors and screens are left alone.
    assert not any(plain_text(unit.source) == "Max" for unit in units)
    assert not any("<prompt>" in str(unit.source) for unit in units)


def test_every_paragraph_and_title_of_the_samples_is_a_unit():
    """Compare with the text of all paragraphs and titles, as lxml finds them."""
    count = 0
    for pattern in ("docbook/*.docbook", "mallard/*.page"):
        for path in sorted(shared_data().joinpath("formats").glob(pattern)):
            data = path.read_bytes().replace(b'its:translate="no"', b"")
            parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True)
            units = "".join("".join(text.split()) for _, text in texts(data))
            for element in etree.fromstring(data, parser).iter("{*}para", "{*}title", "{*}p"):
                pieces = [
                    element.text,
                    *(child.tail for child in element.iter() if child != element),
                ]
                for piece in pieces:
                    assert "".join((piece or "").split()) in units
                    count += bool((piece or "").strip())
    assert count > 1000


def test_blocks_split_text_and_listings_are_left_alone():
    data = (
        b"<article><title>T</title><para>Before <emphasis>all</emphasis>:<itemizedlist><listitem>"
        b"<para>one</para></listitem></itemizedlist> after<programlisting>x = 1</programlisting>"
        b"</para><para translate='no'>no</para><para>a<indexterm><primary>i</primary></indexterm>"
        b"</para><screen>s</screen><para/><para><!-- c --></para></article>"
    )
    assert texts(data) == [
        ("title#1", "T"),
        ("para#2", "Before all:"),
        ("para#3", "one"),
        ("para#4", " after"),
        ("para#5", "a"),
    ]


def test_an_inline_element_around_a_block_is_a_block():
    data = b"<book><para>a <link>b<para>c</para>d</link> e</para><para>f</para></book>"
    assert [text for _, text in texts(data)] == ["a ", "b", "c", "d", " e", "f"]
    output = b"".join(Docbook(data, "x").write([Target((str(n),)) for n in range(6)]))
    assert output == b"<book><para>0<link>1<para>2</para>3</link>4</para><para>5</para></book>"


def test_text_of_nested_inline_elements_before_a_footnote_is_translated():
    data = (
        b"<book><para>a <emphasis>b <link>c <quote>d</quote>"
        b"<footnote><para>e</para></footnote> f</link> g</emphasis> h</para></book>"
    )
    assert texts(data) == [
        ("para#1", "a "),
        ("emphasis#2", "b "),
        ("link#3", "c d"),
        ("para#4", "e"),
        ("link#5", " f"),
        ("emphasis#6", " g"),
        ("para#7", " h"),
    ]


def test_other_files_are_refused_with_the_line():
    with pytest.raises(
        DataError, match=r"x\.xml begins with <html> in line 2, expected an element"
    ):
        texts(b"\n<html/>")
    with pytest.raises(DataError, match=r"x\.xml is not well-formed XML in line 1: undefined ent"):
        texts(b"<book><para>&x;</para></book>")


@pytest.mark.slow
@settings(max_examples=150)
@given(made.documents())
def test_nothing_but_text_changes(data):
    manual = Docbook(data, "x.xml")
    output = b"".join(manual.write([Target(("new",)) for _ in manual.units()]))
    assert made.is_equal(data, output)
