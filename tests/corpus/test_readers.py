"""Every reader returns the texts that were written into its format.

The writers in this file are small and share no code with the readers.
"""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import io
import json
import lzma
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.corpus.opening import CorpusRequest, open_corpus
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.readers.csv import Csv
from dragoman.corpus.readers.jsonl import Jsonl
from dragoman.corpus.readers.lines import Lines
from dragoman.corpus.readers.parquet import Parquet
from dragoman.corpus.readers.po import Po
from dragoman.corpus.readers.tmx import Tmx
from dragoman.corpus.readers.tsv import Tsv
from dragoman.corpus.readers.xliff import Xliff
from dragoman.corpus.row import Reject, Row
from dragoman.errors import DataError, RecipeError
from dragoman.recipe import parts
from dragoman.text.languages import LanguagePair
from support.shared_data import shared_data

Pairs = Sequence[tuple[str, str]]

COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".zst": lambda data: pyarrow.compress(data, codec="zstd", asbytes=True),
}


def read(reader: CorpusReader, *contents: bytes, extension: str = "") -> list[Row | Reject]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"corpus{number}{extension}") for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(COMPRESS[extension](content))
        return list(reader.read(paths))


def pairs(rows: Sequence[Row | Reject]) -> list[tuple[str, str] | str]:
    return [(row.source, row.target) if isinstance(row, Row) else row.reason for row in rows]


# --- writers -------------------------------------------------------------------------------------


def escaped_tsv(rows: Pairs) -> bytes:
    table = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
    return "".join(f"7\t{t.translate(table)}\t{s.translate(table)}\n" for s, t in rows).encode()


def quoted_csv(rows: Pairs) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["note", "de", "en"])
    writer.writerows([["x", target, source] for source, target in rows])
    return text.getvalue().encode()


def json_lines(rows: Pairs) -> bytes:
    objects = [{"translation": {"en": s, "de": t}, "id": n} for n, (s, t) in enumerate(rows)]
    return "".join(
        json.dumps(record, ensure_ascii=number % 2 == 0) + "\n"
        for number, record in enumerate(objects)
    ).encode()


def parquet(rows: Pairs, **options: object) -> bytes:
    table = pyarrow.table(
        {"de": [t for _, t in rows], "n": [0] * len(rows), "en": [s for s, _ in rows]}
    )
    table = table.cast(
        pyarrow.schema({"de": pyarrow.string(), "n": pyarrow.int64(), "en": pyarrow.string()})
    )
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink, row_group_size=3, **options)
    return sink.getvalue()


def xml(text: str) -> str:
    return escape(text, {"\r": "&#13;"})


def tmx(rows: Pairs) -> bytes:
    units = "".join(
        f'<tu><tuv xml:lang="de"><seg>{xml(t)}</seg></tuv><tuv xml:lang="fr"><seg/></tuv>'
        f'<tuv xml:lang="en"><seg>{xml(s)}</seg></tuv></tu>\n'
        for s, t in rows
    )
    head = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header/>'
    return f"{head}<body>{units}</body></tmx>".encode()


def xliff_1(rows: Pairs) -> bytes:
    units = "".join(
        f'<trans-unit id="{n}"><source>{xml(s)}</source><target>{xml(t)}</target>'
        f"<alt-trans><source>no</source><target>nein</target></alt-trans></trans-unit>"
        for n, (s, t) in enumerate(rows)
    )
    return (
        f'<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2"><file original="x" '
        f'source-language="en-US" target-language="de"><body><group>{units}</group></body></file>'
        f"</xliff>"
    ).encode()


def xliff_2(rows: Pairs) -> bytes:
    units = "".join(
        f'<unit id="{n}"><segment><source>{xml(s)}</source><target>{xml(t)}</target></segment>'
        f"<ignorable><source> </source></ignorable></unit>"
        for n, (s, t) in enumerate(rows)
    )
    return (
        f'<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" '
        f'trgLang="de"><file id="f">{units}</file></xliff>'
    ).encode()


def po(rows: Pairs) -> bytes:
    def quoted(text: str) -> str:
        for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
            text = text.replace(character, escaped)
        middle = len(text) // 2
        while middle and text[middle - 1] == "\\":
            middle -= 1
        return f'"{text[:middle]}"\n"{text[middle:]}"'

    header = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    return (
        header + "\n".join(f"#: x.c\nmsgid {quoted(s)}\nmsgstr {quoted(t)}\n" for s, t in rows)
    ).encode()


# --- round trips ---------------------------------------------------------------------------------

ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=15)
AWKWARD = st.sampled_from(
    [
        '"',
        '"a',
        "'",
        "\\",
        "\\n",
        "\\\\t",
        "a\u2028b",
        "a\x85b",
        "a\u2029",
        "<b>&amp;</b>",
        "]]>",
        ",",
    ]
)
ONE_LINE = st.builds(lambda text: text.replace("\n", "").strip("\r\ufeff"), ANY | AWKWARD)
NO_TAB = st.builds(lambda text: text.replace("\t", ""), ONE_LINE)
NO_CRLF = st.builds(lambda text: text.replace("\r\n", "\n"), ANY | AWKWARD)
XML = st.text(
    st.characters(
        exclude_categories=["Cs", "Cc"],
        include_characters="\n\r\t",
        exclude_characters="\ufffe\uffff",
    ),
    max_size=15,
) | AWKWARD.filter(lambda text: text.isprintable())
FULL = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")

ROUND_TRIPS: dict[str, tuple[CorpusReader, Callable[[Pairs], bytes], st.SearchStrategy[str]]] = {
    "tsv": (
        Tsv("en", "de"),
        lambda rows: "".join(f"{s}\t{t}\tmore\n" for s, t in rows).encode(),
        NO_TAB,
    ),
    "tsv, escaped": (
        Tsv("en", "de", source_column=3, target_column=2, backslash_escapes=True),
        escaped_tsv,
        ANY | AWKWARD,
    ),
    "csv": (Csv("en", "de"), quoted_csv, NO_CRLF),
    "jsonl": (
        Jsonl("en", "de", source_field="translation.en", target_field="translation.de"),
        json_lines,
        ANY | AWKWARD,
    ),
    "parquet": (Parquet("en", "de"), parquet, ANY | AWKWARD),
    "tmx": (Tmx("en", "de"), tmx, XML),
    "xliff 1": (Xliff("en", "de"), xliff_1, XML.filter(bool)),
    "xliff 2": (Xliff("en", "de"), xliff_2, XML.filter(bool)),
    "po": (Po("en", "de"), po, (st.text(FULL, max_size=15) | AWKWARD).filter(bool)),
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
@settings(max_examples=60)
@given(data=st.data())
def test_texts_survive_a_round_trip(name, data):
    reader, write, text = ROUND_TRIPS[name]
    rows = data.draw(st.lists(st.tuples(text, text), max_size=8))
    extension = data.draw(st.sampled_from([""] if name == "parquet" else list(COMPRESS)))
    results = read(reader, write(rows), extension=extension)
    assert pairs(results) == rows
    numbers = [row.number for row in results]
    if not name.startswith("csv"):
        assert numbers == list(range(1, len(rows) + 1))
    assert numbers == sorted(set(numbers))


@settings(max_examples=60)
@given(rows=st.lists(st.tuples(ONE_LINE, ONE_LINE)), extension=st.sampled_from(list(COMPRESS)))
def test_two_line_files_survive_a_round_trip(rows, extension):
    contents = ["".join(row[side] + "\n" for row in rows).encode() for side in (0, 1)]
    results = read(Lines("en", "de"), *contents, extension=extension)
    assert results == [Row(number, *row) for number, row in enumerate(rows, 1)]


DAMAGE = [
    b"<",
    b">",
    b"&",
    b'"',
    b"\n",
    b"\r",
    b"\t",
    b"\0",
    b"\xff",
    b"\\",
    b"{",
    b"msgid ",
    b"#~ ",
]


@pytest.mark.parametrize("name", ROUND_TRIPS)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_a_damaged_file_yields_rows_or_rejects_or_raises_a_data_error(name, seed):
    reader, write, _ = ROUND_TRIPS[name]
    rng = random.Random(seed)
    content = bytearray(write([("A dog.", "Ein Hund."), ('"1 < 2" & so on', "é😀 \\n")] * 3))
    for _ in range(rng.randint(1, 4)):
        begin = rng.randrange(len(content))
        end = begin + rng.choice([0, 1, 1, 20])
        content[begin:end] = rng.choice([*DAMAGE, bytes([rng.randrange(256)]), b""])
    with contextlib.suppress(DataError):
        results = read(reader, bytes(content))
        numbers = [row.number for row in results]
        assert numbers == sorted(set(numbers))
        for row in results:
            text = row.source + row.target if isinstance(row, Row) else row.reason
            assert "\0" not in text
            text.encode()


# --- every reader is a part ----------------------------------------------------------------------


@pytest.mark.parametrize("name", parts.names("corpus.readers"))
def test_a_recipe_can_name_every_reader(name, tmp_path):
    chosen = parts.choose("corpus.readers", parts.Choice(name=name), "corpus.format", CorpusReader)
    reader = chosen("en", "de")
    assert reader.extensions
    missing = [tmp_path / f"missing{number}" for number in range(reader.file_count)]
    with pytest.raises(DataError, match=r"no file .*missing0"):
        list(reader.read(missing))
    with pytest.raises(DataError, match=r"needs \d file"):
        list(reader.read([]))


def test_the_options_of_a_reader_are_checked():
    def choose(name: str, **options: str) -> parts.Chosen[CorpusReader]:
        choice = parts.Choice(name=name, options=options)
        return parts.choose("corpus.readers", choice, "corpus.format", CorpusReader)

    assert choose("tsv", source_column="4", header="true").options["source_column"] == 4
    with pytest.raises(RecipeError, match="source_column"):
        choose("tsv", source_column="0")
    with pytest.raises(RecipeError, match="delimiter"):
        choose("csv", delimiter='"')


# --- what a file states about itself -------------------------------------------------------------


def write(tmp_path: Path, name: str, content: bytes) -> list[Path]:
    path = tmp_path / name
    path.write_bytes(content)
    return [path]


@pytest.mark.parametrize(
    ("reader", "content", "languages"),
    [
        (Tmx, tmx([("a", "b")]), ("de", "fr", "en")),
        (
            Tmx,
            tmx([("a", "b")]).replace(b"<header/>", b'<header srclang="en-US"/>'),
            ("en", "de", "fr"),
        ),
        (Tmx, b"<tmx><body/></tmx>", ()),
        (Xliff, xliff_1([("a", "b")]), ("en-US", "de")),
        (Xliff, xliff_2([("a", "b")]), ("en", "de")),
        (Xliff, b'<xliff><file source-language="en"><unit/></file></xliff>', ("en", "")),
        (Xliff, b"<xliff/>", ()),
        (Po, b'msgid ""\nmsgstr "Language: pt_BR\\n"\n', ("", "pt-BR")),
        (Po, po([("a", "b")]), ()),
        (Tsv, b"en\tde\n", ()),
    ],
)
def test_the_languages_that_a_file_states_are_returned(tmp_path, reader, content, languages):
    assert reader.languages_in(write(tmp_path, "corpus", content)) == languages


@pytest.mark.parametrize(
    ("reader", "content", "columns"),
    [
        (Csv, b"id,en,de\n1,a,b\n", ("id", "en", "de")),
        (Csv, b"id;en;de\n1;a;b\n", ("id", "en", "de")),
        (Csv, b"", ()),
        (Jsonl, json_lines([("a", "b")]), ("translation.en", "translation.de")),
        (Jsonl, b'{"en": "a", "n": 1}\n', ("en",)),
        (Jsonl, b"[]\n", ()),
        (Jsonl, b"{", ()),
        (Jsonl, b"", ()),
        (Parquet, parquet([("a", "b")]), ("de", "en")),
        (Parquet, b"not Parquet", ()),
        (Po, b"", ()),
    ],
)
def test_the_text_columns_of_a_file_are_returned(tmp_path, reader, content, columns):
    assert reader.columns_in(write(tmp_path, "corpus", content)) == columns


def test_a_column_without_a_name_is_not_chosen(tmp_path):
    """As pandas writes the index of a table."""
    (path,) = write(tmp_path, "corpus.csv", b",en,de\n0,a,b\n")
    corpus = open_corpus(CorpusRequest((path,)))
    assert corpus.languages == LanguagePair("en", "de")
    assert list(corpus.read()) == [Row(2, "a", "b")]


@pytest.mark.parametrize("delimiter", [";;", '"', "\n", "\\t"])
def test_a_delimiter_of_several_characters_is_refused(tmp_path, delimiter):
    paths = write(tmp_path, "corpus.csv", b"en;de\n")
    with pytest.raises(DataError, match="expected one character"):
        Csv.columns_in(paths, delimiter)
    assert Csv.columns_in(paths, "auto") == Csv.columns_in(paths, ";") == ("en", "de")


# --- lines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (
            b"1\n2\n3\n",
            b"a\n",
            r"corpus0 has 3 lines and \S*corpus1 has 1 line\b.*\nLine 2 of \S*corpus0",
        ),
        (b"1\n", b"a\nb\n", r"corpus0 has 1 line and \S*corpus1 has 2\D.*\nLine 2 of \S*corpus1"),
        (b"", b"a\n", r"has 0 lines and \S*corpus1 has 1 line\b.*\nLine 1 of \S*corpus1"),
    ],
)
def test_files_of_different_length_raise_after_the_common_rows(tmp_path, source, target, message):
    paths = [tmp_path / "corpus0", tmp_path / "corpus1"]
    paths[0].write_bytes(source)
    paths[1].write_bytes(target)
    rows = Lines("en", "de").read(paths)
    for number in range(1, min(source.count(b"\n"), target.count(b"\n")) + 1):
        assert next(rows).number == number
    with pytest.raises(DataError, match=message):
        next(rows)


def test_a_bad_line_is_rejected_with_its_translation():
    rows = read(Lines("en", "de"), b"1\n\xff\n\n4\n", b"a\nb\nc\n\0\n")
    assert rows == [
        Row(1, "1", "a"),
        Reject(2, "not UTF-8"),
        Row(3, "", "c"),
        Reject(4, "NUL character"),
    ]


# --- tsv, csv, jsonl, parquet --------------------------------------------------------------------


def test_tsv_has_no_quoting():
    rows = read(Tsv("en", "de"), b'"One\tEins\ntwo\t"zwei\n"three"\t""\nfour\n\nfive\tf\xc3\t\n')
    assert rows == [
        Row(1, '"One', "Eins"),
        Row(2, "two", '"zwei'),
        Row(3, '"three"', '""'),
        Reject(4, "too few columns"),
        Reject(5, "too few columns"),
        Reject(6, "not UTF-8"),
    ]


def test_tsv_header_and_escapes():
    reader = Tsv("en", "de", source_column=2, target_column=1, header=True, backslash_escapes=True)
    rows = read(reader, b"de\ten\na\\\\nb\\q\tx\\ty\\n\n")
    assert rows == [Row(2, "x\ty\n", "a\\nb\\q")]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("columns", [{}, {"source_column": "2", "target_column": "de"}])
def test_the_csv_delimiter_is_detected_from_the_header(delimiter, columns):
    lines = ["id,en,de", '1,"Yes; no | perhaps, or\tnever.",Ja', '2,"b\nc",d']
    rows = list(csv.reader(io.StringIO("\n".join(lines), newline="")))
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL).writerows(rows)
    results = read(Csv("en", "de", **columns), text.getvalue().encode())
    assert pairs(results) == [("Yes; no | perhaps, or\tnever.", "Ja"), ("b\nc", "d")]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            b"A dog, a cat.;Ein Hund, eine Katze.\nYes.;Ja.\n",
            ("A dog, a cat.", "Ein Hund, eine Katze."),
        ),
        (b"one,eins;x\ntwo,zwei;y\n", ("one", "eins;x")),
        (b"a;b,c;d\ne;f,g\n", ("a;b", "c;d")),
        (b"one|eins\n", ("one", "eins")),
        (b"Yes, no.;Ja, nein.\n\nA dog.;Ein Hund.\n\n", ("Yes, no.", "Ja, nein.")),
    ],
)
def test_the_csv_delimiter_is_detected_without_a_header(content, expected):
    assert pairs(read(Csv("en", "de", header=False), content))[0] == expected


def test_a_comma_is_preferred_where_several_delimiters_fit():
    text = b"en,de,x;en;de\na,b,c;d;e\n"
    assert pairs(read(Csv("en", "de"), text)) == [("a", "b")]
    assert pairs(read(Csv("en", "de", delimiter=";"), text)) == [("d", "e")]


def test_a_missing_column_of_a_semicolon_file_is_named_with_the_existing_ones():
    with pytest.raises(DataError, match=r"no column 'fr'; .*id, en, de") as caught:
        read(Csv("en", "fr"), b"id;en;de\n1;a;b\n")
    assert "source_column" in str(caught.value)
    assert "delimiter" in str(caught.value)


def test_delimiter_detection_survives_files_that_cannot_be_read(tmp_path):
    assert read(Csv("en", "de"), b"en;de\n" + b"x" * 200_000 + b"\na;b\n") == [
        Reject(2, "line too long"),
        Row(3, "a", "b"),
    ]
    path = tmp_path / "corpus.csv.gz"
    path.write_bytes(gzip.compress(b"en;de\na;b\n")[:-9])
    with pytest.raises(DataError, match="damaged"):
        list(Csv("en", "de").read([path]))
    with pytest.raises(DataError, match=r"the header in line 1 of .*malformed quoting"):
        read(Csv("en", "de"), b'"en"x,de\na,b\n')


def test_suggested_commands_are_quoted_for_the_shell(tmp_path):
    folder = tmp_path / "x $(touch y)"
    folder.mkdir()
    utf16, packed, broken = (folder / name for name in ("a.txt", "a.tsv.gz", "a.tmx"))
    utf16.write_bytes("a\n".encode("utf-16"))
    packed.write_bytes(b"not compressed")
    broken.write_bytes(b"<tmx>")
    latin = folder / "a.po"
    latin.write_bytes(HEADER.format("utf-16", "").encode())
    for reader, paths in (
        (Lines("en", "de"), [utf16, utf16]),
        (Lines("en", "de"), [folder / "missing", utf16]),
        (Tsv("en", "de"), [packed]),
        (Tmx("en", "de"), [broken]),
        (Po("en", "de"), [latin]),
    ):
        with pytest.raises(DataError, match=rf"[Tt]ype: .*'{re.escape(str(folder))}[^']*'"):
            list(reader.read(paths))


def test_csv_columns_by_name_and_number():
    text = b'id;en;de\n1;"a\nb";c\n2;d\n"3";"e ""f""";g\n'
    by_name = read(Csv("en", "de", delimiter=";"), text)
    assert by_name == [Row(2, "a\nb", "c"), Reject(4, "too few columns"), Row(5, 'e "f"', "g")]
    reader = Csv("xx", "yy", source_column="3", target_column="en", delimiter=";")
    assert pairs(read(reader, text))[0] == ("c", "a\nb")
    assert read(Csv("en", "de", header=False), b"a,b\n") == [Row(1, "a", "b")]
    assert read(Csv("en", "de"), b"") == []


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        (Csv("en", "fr"), r"no column 'fr'; .*id, en, de"),
        (Csv("en", "de", source_column="9"), "no column '9'"),
        (Csv("en", "de", source_column="en", header=False), "a number from 1"),
    ],
)
def test_a_missing_csv_column_is_named_with_the_existing_ones(reader, message):
    with pytest.raises(DataError, match=message):
        read(reader, b"id,en,de\n1,a,b\n")


@pytest.mark.parametrize(
    ("text", "rows", "line"),
    [
        ('en,de\na,b\n"c,d\ne,f\n' + "g,h\n" * 100, 1, 3),
        ('en,de\na,b\n"c,d\ne,f\n' + "g,h\n" * 300_000, 1, 3),
        ('en,de\na,b\n"c,d\ne,"f"\n', 1, 3),
        ('en,de\na,b\n"c\nc","d\n' + "g,h\n" * 300_000, 1, 4),
        ('en,de\n"a', 0, 2),
    ],
)
def test_an_unclosed_csv_quote_is_an_error_with_its_line(tmp_path, text, rows, line):
    path = tmp_path / "corpus.csv"
    path.write_text(text, encoding="utf-8")
    results = Csv("en", "de").read([path])
    for _ in range(rows):
        assert next(results) == Row(2, "a", "b")
    with pytest.raises(DataError, match=f"the quotation mark in line {line} of"):
        next(results)


def test_bad_csv_rows_are_rejected():
    text = (
        b'en,de\n"a"b,c\nd,e\n\xff,f\n"g\n\xff","h\0"\ni,j\nk\rl,m\n' + b"n" * 200_000 + b"\no,p\n"
    )
    assert read(Csv("en", "de"), text) == [
        Reject(2, "malformed quoting"),
        Row(3, "d", "e"),
        Reject(4, "not UTF-8"),
        Reject(5, "NUL character"),
        Row(7, "i", "j"),
        Reject(8, "carriage return in a cell"),
        Reject(9, "line too long"),
        Row(10, "o", "p"),
    ]


def test_bad_json_lines_are_rejected():
    lines = [
        '{"en": "a", "de": "b"}',
        '{"en": "a"}',
        '{"de": "b", "en": null}',
        '{"en": "a", "de": 1}',
        '["a", "b"]',
        "{",
        "",
        "[" * 100_000,
        "1" * 10_000,
        '{"en": "\\ud800", "de": "b"}',
        '{"en": "\\ud83d\\ude00", "de": "b"}',
        '{"en": "\\u0000", "de": "b"}',
    ]
    assert pairs(read(Jsonl("en", "de"), "\n".join(lines).encode())) == [
        ("a", "b"),
        "no target field",
        "no source field",
        "field is not a string",
        "not a JSON object",
        "invalid JSON",
        "invalid JSON",
        "invalid JSON",
        "invalid JSON",
        "lone surrogate",
        ("😀", "b"),
        "NUL character",
    ]


def test_a_dotted_json_field_is_nested():
    text = b'{"a.b": "one", "a": {"c": {"d": "two"}}}\n'
    reader = Jsonl("en", "de", source_field="a.b", target_field="a.c.d")
    assert read(reader, text) == [Row(1, "one", "two")]


def table_bytes(columns: dict[str, object]) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    return sink.getvalue()


def test_parquet_reads_nested_dictionary_and_large_strings():
    nested = pyarrow.array([{"en": "a", "de": "b"}, None, {"en": None, "de": "c"}])
    reader = Parquet("en", "de", source_column="translation.en", target_column="translation.de")
    rows = read(reader, table_bytes({"translation": nested}))
    assert pairs(rows) == [("a", "b"), "null cell", "null cell"]
    columns = {
        "en": pyarrow.array(["x", "y", "x"]).dictionary_encode(),
        "de": pyarrow.array(["u", "v\0", "w"], pyarrow.large_string()),
    }
    assert pairs(read(Parquet("en", "de"), table_bytes(columns))) == [
        ("x", "u"),
        "NUL character",
        ("x", "w"),
    ]
    bad = pyarrow.array([b"ok", b"\xff", b"fine"]).view(pyarrow.string())
    columns = {"en": bad, "de": pyarrow.array(["1", "2", "3"])}
    assert pairs(read(Parquet("en", "de"), table_bytes(columns))) == [
        ("ok", "1"),
        "not UTF-8",
        ("fine", "3"),
    ]


def test_parquet_columns_are_checked_before_anything_is_decoded():
    columns = {"en": ["a"], "German": ["b"], "number": [1]}
    with pytest.raises(DataError, match=r"no column 'de'; .*en, German, number"):
        read(Parquet("en", "de"), table_bytes(columns))
    with pytest.raises(DataError, match=r"'number' of .* contains int64, .*\n.*German \(string\)"):
        read(Parquet("en", "de", target_column="number"), table_bytes(columns))
    with pytest.raises(DataError, match="not a Parquet file"):
        read(Parquet("en", "de"), b"en\tde\n" * 100)
    whole = table_bytes({"en": ["a" * 50] * 5000, "de": ["b"] * 5000})
    with pytest.raises(DataError, match="damaged"):
        read(Parquet("en", "de"), whole[:100] + whole[200:])


# --- tmx, xliff ----------------------------------------------------------------------------------


def tmx_units(*units: str) -> bytes:
    return f"<tmx version='1.4'><header/><body>{''.join(units)}</body></tmx>".encode()


def tuv(language: str, segment: str) -> str:
    return f"<tuv xml:lang={quoteattr(language)}><seg>{segment}</seg></tuv>"


def test_tmx_prefers_the_exact_language_code():
    unit = (
        f"<tu><note>n</note>{tuv('en-GB', 'colour')}{tuv('EN_us', 'color')}{tuv('pt-PT', 'P')}"
        f"{tuv('pt', 'p')}{tuv('zh-Hant-TW', 'z')}<tuv lang='fr'><seg>f</seg></tuv>"
        f"<tuv xml:lang='ja'/><tuv><seg>none</seg></tuv></tu>"
    )
    content = tmx_units(unit)

    def first_pair(source: str, target: str) -> tuple[str, str] | str:
        return pairs(read(Tmx(source, target), content))[0]

    assert first_pair("en", "fr") == ("colour", "f")
    assert first_pair("en-US", "fr-CA") == ("color", "f")
    assert first_pair("en-us", "pt") == ("color", "p")
    assert first_pair("pt-BR", "zh") == ("p", "z")
    assert first_pair("en", "zh-Hans") == "no zh-Hans segment"
    assert first_pair("ja", "fr") == "no ja segment"
    assert first_pair("e", "fr") == "no e segment"


def test_tmx_drops_inline_code_and_keeps_text():
    unit = (
        "<tu>"
        + tuv("en", 'A <bpt i="1">&lt;b></bpt>big<ept i="1">&lt;/b></ept> <hi>red <hi>d</hi></hi>og'
              '<ph>img <sub>alt</sub></ph>!<it pos="begin">x</it><ut>{\\i</ut>')
        + tuv("de", "<!-- no --><![CDATA[<Ein>]]> Hund &#233;<?pi x?>.")
        + "</tu>"
    )  # fmt: skip
    assert pairs(read(Tmx("en", "de"), tmx_units(unit))) == [("A big red dog!", "<Ein> Hund é.")]


def test_an_undefined_xml_entity_rejects_one_unit():
    units = [f"<tu>{tuv('en', text)}{tuv('de', 'x')}</tu>" for text in ("a", "b&nbsp;c", "d")]
    content = b'<!DOCTYPE tmx SYSTEM "tmx14.dtd">' + tmx_units(*units)
    assert pairs(read(Tmx("en", "de"), content)) == [("a", "x"), "undefined entity", ("d", "x")]


def test_xliff_rejects_untranslated_states_and_drops_inline_code():
    content = b"""<xliff version="1.2"><file source-language="en" target-language="de"><body>
      <trans-unit><source>a</source></trans-unit>
      <trans-unit><source>b</source><target/></trans-unit>
      <trans-unit><source>c</source><target state="needs-translation">c</target></trans-unit>
      <trans-unit><source>d<x id="1"/> <g id="2">e</g><bpt id="3">x</bpt></source>
        <target state="translated"><mrk mtype="seg">D</mrk> <ph>y<sub>z</sub></ph>E</target>
        </trans-unit>
      <trans-unit><target>nothing</target></trans-unit>
      </body></file></xliff>"""
    assert pairs(read(Xliff("en", "de"), content)) == [
        "no translation",
        "no translation",
        "no translation",
        ("d e", "D E"),
        "no source text",
    ]


def test_xliff_rejects_other_languages():
    def file(target: str) -> str:
        return (
            f'<file source-language="en" {target}><body><trans-unit><source>a</source>'
            f"<target>b</target></trans-unit></body></file>"
        )

    def document(*files: str) -> bytes:
        return f'<xliff version="1.2">{"".join(files)}</xliff>'.encode()

    german, french = file('target-language="de-AT"'), file('target-language="fr"')
    assert pairs(read(Xliff("en", "de"), document(french, german))) == [
        "other languages",
        ("a", "b"),
    ]
    assert pairs(read(Xliff("en", "de"), document(file("")))) == [("a", "b")]
    with pytest.raises(DataError, match="from en to fr, en to de-AT, expected from en to ja"):
        read(Xliff("en", "ja"), document(french, german, french))


# --- po ------------------------------------------------------------------------------------------

HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset={}\\n"\n"Plural-Forms: {}\\n"\n\n'


def test_po_entries_become_rows_or_rejects():
    text = HEADER.format("UTF-8", "nplurals=2; plural=n != 1;") + (
        '#, c-format, fuzzy\nmsgid "a"\nmsgstr "b"\n\n'
        '#~ msgid "c"\n#~ msgstr "d"\n'
        'msgctxt "menu"\nmsgid "e"\nmsgstr "f"\n'
        'msgid "g"\nmsgstr ""\n'
        '#| msgid "old"\nmsgid ""\n"h\\n"\n"\\"i\\"\\\\"\nmsgstr "j\u2028\fk"\n'
        'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "%d Datei"\nmsgstr[1] "%d Dateien"\n'
        'what is this\nmsgid "l"\nmsgstr "m\nmsgid "n"\nmsgstr "o"\n'
    )
    assert pairs(read(Po("en", "de"), text.encode())) == [
        "fuzzy",
        "obsolete",
        ("e", "f"),
        "no translation",
        ('h\n"i"\\', "j\u2028\fk"),
        ("%d file", "%d Datei"),
        ("%d files", "%d Dateien"),
        "invalid PO syntax",
        "invalid PO syntax",
        ("n", "o"),
    ]


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        ("nplurals=1; plural=0;", (0, 0)),
        ("nplurals=2; plural=(n > 1);", (0, 1)),
        (
            "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && "
            "(n%100<10 || n%100>=20) ? 1 : 2);",
            (0, 2),
        ),
        (
            "nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : "
            "n%100>=11 ? 4 : 5;",
            (1, 3),
        ),
        (
            "nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0);",
            (1, 0),
        ),
        ("nplurals=6; plural=__import__('os').abort();", (0, 5)),
        ("nplurals=6; plural=n/0;", (0, 5)),
        ("nplurals=6; plural=99;", (0, 5)),
        ("nplurals=6; plural=" + "(" * 5_000, (0, 5)),
        ("nplurals=6; plural=" + "n?" * 90, (0, 5)),
        ("nplurals=6; plural=;", (0, 5)),
        ("", (0, 5)),
    ],
)
def test_po_plural_forms_select_the_translations(forms, expected):
    translations = "".join(f'msgstr[{form}] "form {form}"\n' for form in range(6))
    text = HEADER.format("UTF-8", forms) + f'msgid "one"\nmsgid_plural "many"\n{translations}'
    assert pairs(read(Po("en", "xx"), text.encode())) == [
        ("one", f"form {expected[0]}"),
        ("many", f"form {expected[1]}"),
    ]


def test_po_files_are_decoded_with_the_charset_of_the_header():
    entries = '#, x\nmsgid "price"\nmsgstr "10 €"\n\nmsgid "e"\nmsgstr "é"\n'
    latin = HEADER.format("ISO_8859-15", "") + entries
    assert pairs(read(Po("en", "fr"), latin.encode("iso-8859-15"))) == [
        ("price", "10 €"),
        ("e", "é"),
    ]
    japanese = HEADER.format("Shift_JIS", "") + 'msgid "a"\nmsgstr "表"\n'
    assert pairs(read(Po("en", "ja"), japanese.encode("shift_jis"))) == [("a", "表")]
    escaped = HEADER.format("ISO-2022-JP", "") + 'msgid "a"\nmsgstr "表"\n'
    assert pairs(read(Po("en", "ja"), escaped.encode("iso2022_jp"))) == [("a", "表")]
    directly_after = HEADER.format("ISO_8859-15", "") + 'msgid "é"\nmsgstr "€"\n'
    assert pairs(read(Po("en", "fr"), directly_after.encode("iso-8859-15"))) == [("é", "€")]
    plural = 'msgid ""\nmsgid_plural ""\nmsgstr[0] "charset"\nmsgid "a"\nmsgstr "b"\n'
    assert pairs(read(Po("en", "fr"), plural.encode())) == [("a", "b")]
    wrong = HEADER.format("UTF-8", "").encode() + entries.encode("iso-8859-15")
    assert pairs(read(Po("en", "fr"), wrong)) == ["not UTF-8", "not UTF-8"]
    assert pairs(read(Po("en", "fr"), entries.encode("iso-8859-15"))) == ["not UTF-8", "not UTF-8"]
    template = HEADER.format("CHARSET", "") + entries
    assert pairs(read(Po("en", "fr"), template.encode())) == [("price", "10 €"), ("e", "é")]
    for charset in ("UTF-7", "unicode_escape", "rot13", "zlib", "nonsense", "utf-16", "idna"):
        with pytest.raises(DataError, match=f"charset={charset.lower()}.*\nType: msgconv"):
            read(Po("en", "fr"), HEADER.format(charset, "").encode() + b'msgid "a"\nmsgstr "b"\n')


def test_long_po_entries_and_nul_are_rejected():
    long = "\n".join(['msgid ""', *['"' + "x" * 1000 + '"'] * 2000, 'msgstr "y"'])
    text = f'msgid "a"\nmsgstr "b"\n{long}\n\nmsgid "c\0"\nmsgstr "d"\nmsgid "e"\nmsgstr "f"\n'
    assert pairs(read(Po("en", "de"), text.encode())) == [
        ("a", "b"),
        "entry too long",
        "NUL character",
        ("e", "f"),
    ]


# --- real files ----------------------------------------------------------------------------------


def count(reader: CorpusReader, path: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    try:
        for number, row in enumerate(reader.read([path]), 1):
            assert row.number == number
            counts["row" if isinstance(row, Row) else row.reason] += 1
    except DataError as error:
        assert str(path) in str(error)
        counts["error"] += 1
    return counts


@pytest.mark.parametrize(
    ("folder", "extension", "languages", "reader", "rows"),
    [
        ("po", "po", ["xx"], Po, 1665),
        ("tmx", "tmx", ["fr", "be", "ca", "en-gb", "ja"], Tmx, 359),
        ("xliff-1.2", "xl*", ["fr", "be", "de", "ja", "ar", "en", "ca", "xx"], Xliff, 695),
        ("xliff-2", "xlf", ["fr", "de", "pt"], Xliff, 85),
    ],
)
def test_every_sample_file_is_read_or_refused_with_a_reason(
    folder, extension, languages, reader, rows
):
    samples = sorted(shared_data().joinpath("formats", folder).rglob(f"*.{extension}"))
    total: Counter[str] = Counter()
    for path in samples:
        # The language of a sample is the one in which most of it can be read.
        counts = max(
            (count(reader("en", code), path) for code in languages), key=lambda c: c["row"]
        )
        total += counts
        print(path.name, dict(counts))
    print(folder, len(samples), "files", dict(total))
    assert len(samples) > 20
    assert total["row"] >= rows


def test_po_agrees_with_polib():
    polib = pytest.importorskip("polib")
    for path in sorted(shared_data().glob("formats/po/*.po")):
        entries = polib.pofile(str(path))
        expected = [
            (entry.msgid, entry.msgstr)
            for entry in entries
            if entry.translated() and not entry.msgid_plural
        ]
        plurals = sum(2 for entry in entries if entry.translated() and entry.msgid_plural)
        rows = [row for row in Po("en", "xx").read([path]) if isinstance(row, Row)]
        assert len(rows) == len(expected) + plurals
        assert set(expected) <= {(row.source, row.target) for row in rows}
